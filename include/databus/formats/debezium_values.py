"""Values in the forms of Debezium's MySQL connector, as JSON (its documentation, 3.5: "Data type mappings").

`DebeziumValues` is a `ValueForm`: it writes the columns of a decoded batch, one pass of Arrow or Numba per column. What
a form cannot say is NULL or another value there, and named in the row's flags (ADR 8, ADR 67).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors.source import DecodeError
from databus.core.tables.schemas import ColumnSchema
from databus.formats.kernels import unscaled_bytes
from databus.formats.literals import base64_text, base_type, bit_length, geometries, hexadecimal
from databus.rows.columns import binary_array, fixed, validity
from databus.rows.flags import WRAPPED
from databus.rows.json_images import shown, with_points
from databus.rows.json_text import json_literals, quoted
from databus.rows.keys import key_literals, with_exceptions
from databus.rows.temporal import fraction_digits

DecimalForm = Literal["precise", "string", "double"]
UnsignedForm = Literal["long", "precise"]
BinaryForm = Literal["bytes", "base64", "hex"]

_MILLISECOND_DIGITS = 3
_LONGEST = np.uint64(2**63 - 1)
_EPOCH = {"date": "0", "datetime": "0", "timestamp": "1970-01-01T00:00:00", "time": "0"}
"""Base type → what stands for a value that has no form, in a column that is NOT NULL; a TIMESTAMP in any."""


@dataclass(frozen=True)
class DebeziumValues:
    """Form of values, as Debezium's options of the same meaning choose it.

    Attributes:
        decimal: `decimal.handling.mode`. "precise": base64 of the unscaled integer's bytes.
        bigint_unsigned: `bigint.unsigned.handling.mode`.
        binary: `binary.handling.mode`; "bytes" and "base64" differ in the schema alone.
        whole: whether images must have all columns that are NOT NULL, since a schema beside them says so.
    """

    changed_only: ClassVar[bool] = False

    decimal: DecimalForm = "precise"
    bigint_unsigned: UnsignedForm = "long"
    binary: BinaryForm = "bytes"
    whole: bool = False

    def literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return a column's values as JSON literals, null for NULL and for what has no form in a nullable column.

        Raises:
            DecodeError: `whole`, and an image lacks the column although it is NOT NULL.
        """
        schema = batch.schema.columns[column]
        written = self._written(batch.images.column(column), schema)
        if self.whole and (not schema.nullable or schema.name in batch.schema.primary_key):
            _require_carried(batch, column)
        exceptions = batch.exceptions.get(column)
        if not exceptions:
            return written
        base = base_type(schema)
        if base not in _EPOCH:
            return with_exceptions(written, {row: shown(value) for row, value in exceptions.items()})
        if base != "timestamp" and schema.nullable and schema.name not in batch.schema.primary_key:
            return written
        rows = np.zeros(len(written), np.bool_)
        rows[list(exceptions)] = True
        return pc.replace_with_mask(written, pa.array(rows), pa.array([_epoch(schema)] * len(exceptions), pa.string()))

    def key_literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return those of a key column; what has no form keeps the canonical one, so that no two rows share a key."""
        schema = batch.schema.columns[column]
        if base_type(schema) == "decimal" and self.decimal == "double":
            return key_literals(batch, column)
        written = self._written(batch.images.column(column), schema)
        return with_exceptions(written, batch.exceptions.get(column, {}))

    def flags(self, batch: TableBatch) -> Mapping[int, Mapping[int, str]]:
        """Return column → image row → `wrapped` of unsigned values that stand as negative ones."""
        found: dict[int, dict[int, str]] = {}
        for number, column in enumerate(batch.schema.columns):
            if self.bigint_unsigned == "long" and column.type == "bigint unsigned":
                values = batch.images.column(number)
                over = np.flatnonzero((fixed(values, np.uint64) > _LONGEST) & validity(values))
                if len(over):
                    found[number] = dict.fromkeys(over.tolist(), WRAPPED)
        return found

    def _written(self, array: pa.Array, column: ColumnSchema) -> pa.StringArray:
        kind, base = array.type, base_type(column)
        if pa.types.is_temporal(kind):
            written = _temporal(array, column)
        elif base == "decimal":
            written = self._decimals(array, column)
        elif base == "bit" and pa.types.is_integer(kind):
            written = _bits(array, bit_length(column))
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            written = self._bytes(array, column)
        elif column.type == "bigint unsigned" and pa.types.is_uint64(kind):
            exact = self.bigint_unsigned == "precise"
            written = base64_text(_unscaled(array.cast(pa.decimal128(20, 0)))) if exact else _wrapped(array)
        else:
            written = json_literals(array, column)
            written = with_points(written, array) if pa.types.is_floating(kind) else written
        return written

    def _bytes(self, array: pa.Array, column: ColumnSchema) -> pa.StringArray:
        if base_type(column) == "geometry":
            return geometries(array)
        return hexadecimal(array) if self.binary == "hex" else json_literals(array, column)

    def _decimals(self, array: pa.Array, column: ColumnSchema) -> pa.StringArray:
        wide = pa.types.is_string(array.type)
        if wide and column.spark_type != "string":  # a transform made it text
            return quoted(array)
        if self.decimal == "string":
            return quoted(array if wide else json_literals(array, column))
        if self.decimal == "double":
            # Parsed from its digits: Arrow's cast of a decimal is not always the nearest double.
            values = (array if wide else json_literals(array, column)).cast(pa.float64())
            return with_points(values.cast(pa.string()), values)
        return base64_text(_unscaled_texts(array) if wide else _unscaled(array))


def _require_carried(batch: TableBatch, column: int) -> None:
    """Refuse images without a column: JsonConverter does not read a struct that lacks a required field."""
    carried = np.array([present[column] for present in batch.presence_sets], np.bool_)
    if not carried.all() and not carried[batch.presence].all():
        raise DecodeError(
            f"a row change of {batch.schema.full_name} does not carry its column {batch.schema.columns[column].name}, "
            "which is NOT NULL, and schemas=True says that every row has it",
            hint="SET GLOBAL binlog_row_image='FULL' (Debezium does not begin without it) and reconnect all sessions "
            "that write; for what is logged already take schemas=False.",
        )


def _epoch(column: ColumnSchema) -> str:
    """Return the literal of the epoch, of a TIMESTAMP with the digits of its column."""
    base, digits = base_type(column), fraction_digits(column)
    return f'"{_EPOCH[base]}{f".{0:0{digits}d}" if digits else ""}Z"' if base == "timestamp" else _EPOCH[base]


def _temporal(array: pa.Array, column: ColumnSchema) -> pa.StringArray:
    kind = array.type
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).cast(pa.string())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return json_literals(array, column)
    micros = array.view(pa.int64())
    if pa.types.is_timestamp(kind) and fraction_digits(column) <= _MILLISECOND_DIGITS:
        # Whole milliseconds: no fraction of them is there to be rounded.
        return pa.array(np.asarray(fixed(micros, np.int64)) // 1000, pa.int64(), mask=~validity(array)).cast(
            pa.string()
        )
    return micros.cast(pa.string())


def _wrapped(array: pa.Array) -> pa.StringArray:
    return array.view(pa.int64()).cast(pa.string())


def _unscaled(array: pa.Array) -> pa.BinaryArray:
    valid = validity(array)
    where, data = unscaled_bytes(fixed(array, np.int64, 2), valid)
    return binary_array(where, data, valid)


def _unscaled_texts(array: pa.StringArray) -> pa.BinaryArray:
    return pa.array([None if text is None else _shortest(text) for text in array.to_pylist()], pa.binary())


def _shortest(text: str) -> bytes:
    sign, digits, _ = Decimal(text).as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _bits(array: pa.Array, length: int) -> pa.StringArray:
    valid = validity(array)
    values = fixed(array, np.uint64)
    if length == 1:
        texts = np.where(values != 0, "true", "false")
        return pa.array(texts.tolist(), pa.string(), mask=~valid)
    width = (length + 7) // 8
    data = np.ascontiguousarray(values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]).reshape(-1)
    return base64_text(binary_array(np.arange(len(array) + 1, dtype=np.int32) * width, data, valid))
