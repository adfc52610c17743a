"""Stored values of decoded columns as Spark's lane reads them: typed for conditions, as text for rewrites.

`Field.typed` and `Field._rewritten` say the same in Spark SQL. A value that is not certain to be the same is none at
all: the batch goes through Spark then.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import LargeValue, TableBatch
from databus.core.tables.schemas import ColumnSchema
from databus.expressions.errors import SparkNeededError
from databus.rows.temporal import is_temporal, iso_text
from databus.rows.typed import arrow_type

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?!\d)")
_FIRST_DAY, _DAYS_END = -719_528, 2_932_897
"""Days since 1970 of the first day of the years 0 and 10000."""
_US_PER_DAY = 86_400_000_000
_Exceptions = Mapping[int, str | bytes | LargeValue]


def typed_values(batch: TableBatch, place: int) -> pa.Array:
    """Return a column of all images as its Spark type; null where it is NULL, absent or not of that type.

    Raises:
        SparkNeededError: a value that only Spark's lane types.
    """
    array, column = batch.images.column(place), batch.schema.columns[place]
    target = arrow_type(column)
    typed = _typed(array, column, target)
    return _with(
        typed, {row: _typed_exception(value, column, target) for row, value in _exceptions(batch, place).items()}
    )


def text_values(batch: TableBatch, place: int, *, as_bytes: bool) -> pa.Array:
    """Return the text of a column's stored values in all images, null where it is NULL or absent.

    Decimals are written without exponent and trailing zeros, temporals in ISO form.

    Args:
        batch: the decoded changes.
        place: number of the column.
        as_bytes: return binary: of text its UTF-8, and what is no text as it is stored.

    Raises:
        SparkNeededError: a float, or bytes that are no text where text is wanted.
    """
    array, column = batch.images.column(place), batch.schema.columns[place]
    found = texts_of(array, column, as_bytes=as_bytes)
    exceptions = _exceptions(batch, place)
    return _with(
        found, {row: _bytes(value) if as_bytes else _decoded(value, column) for row, value in exceptions.items()}
    )


def texts_of(array: pa.Array, column: ColumnSchema, *, as_bytes: bool) -> pa.Array:
    """Return the text of values as an image has them, null where they are; see `text_values`.

    Raises:
        SparkNeededError: floats.
    """
    found = _text(array, column)
    return found.cast(pa.binary()) if as_bytes else found


def refuse_far_times(array: pa.Array, name: str) -> None:
    """Refuse computed dates and times of a year that ISO text has not four digits for.

    Raises:
        SparkNeededError: there is one.
    """
    if not pa.types.is_temporal(array.type) or not len(array):
        return
    a_day = 1 if pa.types.is_date32(array.type) else _US_PER_DAY
    found = pc.min_max(array.cast(pa.int32() if a_day == 1 else pa.int64())).as_py()
    if found["min"] is not None and (found["min"] < _FIRST_DAY * a_day or found["max"] >= _DAYS_END * a_day):
        raise SparkNeededError(f"column {name} has a time beyond the years 0 to 9999, whose text is Spark's")


def decimal_text(array: pa.Array) -> pa.StringArray:
    """Return decimals without exponent and trailing zeros."""
    texts = array.cast(pa.string())
    exponents = pc.fill_null(pc.match_substring(texts, "E"), False)
    if pc.any(exponents).as_py():
        plain = [format(value, "f") for value in array.filter(exponents).to_pylist()]
        texts = pc.replace_with_mask(texts, exponents, pa.array(plain, pa.string()))
    if array.type.scale <= 0:
        return texts
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")


def _typed(array: pa.Array, column: ColumnSchema, target: pa.DataType) -> pa.Array:
    kind = array.type
    if kind == target:
        return array
    if pa.types.is_string(target):
        return _text(array, column) if is_temporal(kind) or _is_text(kind) else _refused(column, kind)
    if pa.types.is_integer(kind) and (pa.types.is_integer(target) or pa.types.is_decimal128(target)):
        try:
            return array.cast(target)
        except pa.ArrowInvalid:
            return _refused(column, kind)
    if pa.types.is_binary(target) and pa.types.is_large_binary(kind):
        return array.cast(target)
    return _refused(column, kind)


def _text(array: pa.Array, column: ColumnSchema) -> pa.Array:
    kind = array.type
    if is_temporal(kind):
        return iso_text(array, column)
    if pa.types.is_decimal128(kind):
        return decimal_text(array)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return array
    if _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return array.cast(pa.string())
    if pa.types.is_large_binary(kind):
        return array.cast(pa.binary())
    return _refused(column, kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _refused(column: ColumnSchema, kind: pa.DataType) -> pa.Array:
    raise SparkNeededError(
        f"column {column.name} has the Arrow type {kind}, whose {column.spark_type} Spark alone reads"
    )


def _exceptions(batch: TableBatch, place: int) -> _Exceptions:
    return batch.exceptions.get(place, {})


def _with(array: pa.Array, values: Mapping[int, str | bytes | None]) -> pa.Array:
    if not values:
        return array
    rows = sorted(values)
    mask = np.zeros(len(array), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(array, pa.array(mask), pa.array([values[row] for row in rows], array.type))


def _typed_exception(value: str | bytes | LargeValue, column: ColumnSchema, target: pa.DataType) -> str | bytes | None:
    if pa.types.is_string(target):
        return _decoded(value, column)
    if pa.types.is_binary(target):
        return _bytes(value)
    if isinstance(value, str) and pa.types.is_temporal(target) and _is_no_date(value):
        return None
    raise SparkNeededError(f"column {column.name} holds a value whose {column.spark_type} Spark alone reads")


def _is_no_date(text: str) -> bool:
    found = _DATE.match(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    if not 1 <= month <= 12 or day == 0:
        return True
    return day > monthrange(year or 2000, month)[1]  # the year 0 is a leap year, as 2000


def _decoded(value: str | bytes | LargeValue, column: ColumnSchema) -> str:
    if isinstance(value, str):
        return value
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise SparkNeededError(f"column {column.name} holds bytes that Spark alone reads as text") from None


def _bytes(value: str | bytes | LargeValue) -> bytes:
    if isinstance(value, LargeValue):
        raise TypeError("a value that was left in the log has to be moved out before its row is read")
    return value.encode() if isinstance(value, str) else bytes(value)
