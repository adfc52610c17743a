"""The one DataFrame shape as an Arrow schema, as Spark 4.1 maps it."""

from __future__ import annotations

import functools

import pyarrow as pa

from databus.core.events import ROW_COLUMNS, ROW_DDL

SPARK_DDL = ROW_DDL
"""The shape as a Spark DDL string."""

VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
"""Spark's VARIANT in Arrow (`pyspark.sql.pandas.types.to_arrow_type`, Spark 4.1)."""


def null_variants(count: int) -> pa.StructArray:
    """Return a VARIANT column of NULLs; the children are not nullable, so they hold empty values, not nulls."""
    empty = pa.repeat(pa.scalar(b""), count)
    mask = pa.repeat(pa.scalar(True), count)
    return pa.StructArray.from_arrays([empty, empty], fields=[VARIANT.field(0), VARIANT.field(1)], mask=mask)


_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
}


@functools.cache
def arrow_schema(images: pa.DataType = VARIANT) -> pa.Schema:
    """Return the Arrow schema of `ROW_COLUMNS`, the same for every table; `images` is the type of the row images."""
    return pa.schema([pa.field(name, images if kind == "variant" else _ARROW[kind]) for name, kind in ROW_COLUMNS])
