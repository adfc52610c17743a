"""Users' plain values as Spark SQL literals to compare a column with."""

from __future__ import annotations

from pydantic import FiniteFloat

from databus.rows.frames.fields import Field, sql_string

Plain = str | int | FiniteFloat
"""What a check's option may be: JSON's scalars. Decimals and temporals of full precision are given as text."""

_EXACT_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")


def literal(value: Plain, spark_type: str) -> str:
    """Return SQL of `value` as the column's type; next to exact numbers it stays as written: 100.5 bounds an int."""
    if not isinstance(value, str) and spark_type.startswith(_EXACT_NUMBERS):
        return f"({value!r})"
    return f"CAST({sql_string(str(value))} AS {spark_type})"


def has_value(field: Field) -> str:
    """Return SQL that is true where the after-image holds the column and it is not NULL."""
    raw = field.raw("after")
    return f"({raw} IS NOT NULL AND NOT is_variant_null({raw}))"


def is_text(field: Field) -> str:
    """Return SQL that is false where a text column holds what is no text: bytes that its character set cannot decode.

    Spark reads such bytes as a string when it is asked for one.
    """
    if field.column.spark_type != "string" or field.rewrites:
        return "true"
    return f"schema_of_variant({field.raw('after')}) <> 'BINARY'"
