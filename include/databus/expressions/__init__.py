"""Spark SQL expressions compiled to Arrow: the values that Spark would give, without a JVM.

Only expressions with a meaning that is shown to be Spark's are compiled; all others raise NotCompiledError (ADR 64).
"""
