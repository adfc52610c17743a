"""Kernels of Spark SQL's text, regex, hash and binary functions on Arrow: pure, and equal to Spark's value by value.

They know nothing of SQL: `functions_string`, `functions_regex`, `functions_hash` and `functions_binary` say which
function has which kernel. Nothing here keeps state.
"""
