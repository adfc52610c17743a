"""Spark: sessions, shared Python workers, the data source of splits, errors."""
