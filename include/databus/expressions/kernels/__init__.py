"""Kernels of Spark SQL's numeric, decimal, temporal functions and casts: pure functions over NumPy and Arrow."""
