"""Rows as Spark DataFrames: views by table, conditions, hidden columns. Imports `pyspark.sql.functions` at most."""
