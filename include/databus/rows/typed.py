"""Rows with their table's real columns, as Arrow: for sinks that write columns and not documents.

A value is null where the row has NULL, where its image lacks the column, and where its column's type cannot hold it
(ADR 8): the last two are distinguished by `TypedRows.absent` and `TypedRows.lost`, so that nothing is lost unseen.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.variant.values import variant_value

Image = Literal["before", "after", "row"]

OF_ANOTHER_TYPE = "type"
"""Reason of a value that no flag names and that its column's type cannot hold."""

_ARROW: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ABSENT = object()
_REFUSALS = (ValueError, TypeError, OverflowError, ArithmeticError)
"""Errors that a conversion raises; Arrow's are among them."""
_Row = dict[str, Any] | None


@dataclass(frozen=True)
class LostValue:
    """A value that its column's type cannot hold.

    Attributes:
        row: number of the row in `TypedRows.values`.
        column: its column.
        reason: that of the row's flag ("undecodable", "invalid_date", "claimed", …), or "type".
        value: what the row has instead: the text, the bytes, a number; None where it has nothing ("partial").
    """

    row: int
    column: str
    reason: str
    value: Any


@dataclass(frozen=True)
class TypedRows:
    """The rows of one table in a batch.

    Attributes:
        rows: these rows as they came: op, key, log, place, …
        values: the table's columns in table order, one row each.
        absent: column → which rows' images lack it; columns that all rows have are left out.
        lost: values that are null here because their column's type cannot hold them, in row order.
    """

    rows: pa.RecordBatch
    values: pa.RecordBatch
    absent: Mapping[str, pa.BooleanArray]
    lost: tuple[LostValue, ...]


def arrow_type(column: ColumnSchema) -> pa.DataType:
    """Return the Arrow type of a column: that of its `spark_type`; what is no number, time or bytes is text.

    Text are also decimals of more than 38 digits, TIME (it may be longer than a day, or negative), ENUM, SET and JSON.
    """
    if found := _DECIMAL.fullmatch(column.spark_type):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _ARROW.get(column.spark_type, pa.string())


def typed_schema(schema: TableSchema) -> pa.Schema:
    """Return the Arrow schema of a table's columns. All are nullable: an image may lack what the table requires."""
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in schema.columns])


def typed_rows(
    batch: pa.RecordBatch, schema: TableSchema, image: Image = "row", sources: Mapping[str, str] | None = None
) -> TypedRows:
    """Return the rows of one table with its columns typed.

    Images are read one by one, in Python: 400,000 values a second of a processor from JSON, 90,000 from VARIANT.

    Args:
        batch: rows as an encoder (images are JSON) or a frame (images are VARIANT) has them; it may hold rows of other
            tables, and statements, which are left out.
        schema: the table, as the flow's transforms leave it; its `schema_id` chooses the rows.
        image: which image; "row" is the after-image where it holds the column, else the before-image.
        sources: name → name at the source, of columns that a transform renamed: flags say the source's names.
    """
    chosen = batch.filter(pc.equal(batch["schema_id"], schema.schema_id))
    names = ("after", "before") if image == "row" else (image,)
    images = {name: _images(chosen[name]) for name in names}
    flags = [_flags(each) for each in chosen["flags"].to_pylist()]
    coded = pa.types.is_binary(batch["before"].type)
    columns: list[pa.Array] = []
    absent: dict[str, pa.BooleanArray] = {}
    lost: list[tuple[int, int, LostValue]] = []
    for number, column in enumerate(schema.columns):
        source = (sources or {}).get(column.name, column.name)
        values: list[Any] = []
        gone = np.zeros(chosen.num_rows, np.bool_)
        for row, of_row in enumerate(flags):
            value, why = _held([(name, images[name][row]) for name in names], column.name, source, of_row)
            gone[row] = value is _ABSENT and not why
            if why:
                shown = None if value is _ABSENT else value
                lost.append((row, number, LostValue(row, column.name, why, shown)))
            values.append(None if why or value is _ABSENT else value)
        if gone.any():
            absent[column.name] = pa.array(gone)
        made, refused = _typed(values, arrow_type(column), coded=coded)
        columns.append(made)
        lost += [(row, number, LostValue(row, column.name, OF_ANOTHER_TYPE, values[row])) for row in refused]
    typed = pa.RecordBatch.from_arrays(columns, schema=typed_schema(schema))
    return TypedRows(chosen, typed, absent, tuple(found for _, _, found in sorted(lost, key=lambda each: each[:2])))


def _held(images: Sequence[tuple[str, _Row]], column: str, source: str, flags: Mapping[str, str]) -> tuple[Any, str]:
    """Return a column's value in the first image that has it, or `_ABSENT`; and the reason of its flag, "" without."""
    for name, image in images:
        value = _ABSENT if image is None else image.get(column, _ABSENT)
        why = flags.get(f"{name}.{source}", "")
        if why or value is not _ABSENT:
            return value, why
    return _ABSENT, ""


def _images(images: pa.Array) -> list[_Row]:
    """Return images as dicts of JSON's values; numbers with a point are exact."""
    if pa.types.is_binary(images.type):
        return [None if text is None else json.loads(text, parse_float=Decimal) for text in images.to_pylist()]
    return [None if image is None else variant_value(image) for image in images.to_pylist()]


def _flags(flags: Sequence[str] | None) -> dict[str, str]:
    """Return "IMAGE.COLUMN" → reason."""
    found = (flag.rpartition(":") for flag in flags or ())
    return {where: why for where, _, why in found}


def _typed(values: list[Any], kind: pa.DataType, *, coded: bool) -> tuple[pa.Array, list[int]]:
    """Return values as a column, and which of them it cannot hold.

    Args:
        values: as an image has them.
        kind: the column's type.
        coded: whether bytes are base64, as in JSON.
    """
    convert = _converter(kind, coded)
    try:
        made = [None if value is None else convert(value) for value in values]
        return pa.array(made, pa.string() if pa.types.is_temporal(kind) else kind).cast(kind), []
    except _REFUSALS:
        return _typed_one_by_one(values, kind, convert)


def _typed_one_by_one(
    values: Sequence[Any], kind: pa.DataType, convert: Callable[[Any], Any]
) -> tuple[pa.Array, list[int]]:
    made: list[pa.Array] = []
    refused: list[int] = []
    for row, value in enumerate(values):
        try:
            held = None if value is None else convert(value)
            made.append(pa.array([held], pa.string() if pa.types.is_temporal(kind) else kind).cast(kind))
        except _REFUSALS:
            made.append(pa.nulls(1, kind))
            refused.append(row)
    return pa.concat_arrays(made), refused


def _converter(kind: pa.DataType, coded: bool) -> Callable[[Any], Any]:
    """Return the function from an image's value to one of a type; it raises ValueError or TypeError for others."""
    if pa.types.is_binary(kind):
        return _decoded if coded else lambda value: bytes(_of((bytes, bytearray), value))
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(_of((int, Decimal), value))
    if pa.types.is_floating(kind):
        return _float
    plain = bool if pa.types.is_boolean(kind) else int if pa.types.is_integer(kind) else str  # times are ISO texts
    return lambda value: _of(plain, value)


def _decoded(value: Any) -> bytes:
    return b64decode(_of(str, value), validate=True)


def _of(kind: type | tuple[type, ...], value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r} is of another type")
    return value


def _float(value: Any) -> float:
    if value in ("NaN", "Infinity", "-Infinity"):  # what JSON has no numbers for
        return float(value)
    return float(_of((int, float, Decimal), value))
