"""Rows as Spark DataFrames: views by table, conditions, computed and hidden columns. Opens no session."""
