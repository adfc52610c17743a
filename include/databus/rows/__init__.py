"""Rows on their way: decoded images → the one DataFrame shape (`ROW_COLUMNS`) → a typed view for transforms and checks.

Knows neither sources nor sinks; the encoders need Arrow and Numba only, `changes` needs nothing but
`pyspark.sql.functions`.
"""
