"""Checks' options next to Arrow values: the same comparisons that `literals` spells in Spark SQL.

Exact numbers are compared exactly: a bound between two values of the column's type is moved to the nearest one inside.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.checks.row_check import Plain
from databus.core.tables.schemas import ColumnSchema

Mask = npt.NDArray[np.bool_]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXT_TYPES = ("char", "varchar", "text", "tinytext", "mediumtext", "longtext", "enum", "set")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_WHOLE = re.compile(r"[+-]?\d{1,38}")
_DIGITS = 80
"""Enough for every sum of a column's type and an option's digits."""


def can_compare(options: Sequence[Plain], column: ColumnSchema) -> bool:
    """Return whether options can be compared with a column here; else Spark does it, or says what is wrong."""
    return all(_parsed(option, column) is not None for option in options)


def _parsed(option: Plain, column: ColumnSchema) -> Decimal | float | str | dt.date | dt.datetime | None:
    """Return an option as what the column's values are compared with; None where that is left to Spark."""
    kind = column.spark_type
    if kind.startswith("decimal") or kind in _INTEGERS:
        return _number(option, kind)
    text = str(option)
    try:
        if kind in ("double", "float"):
            return float(text) if re.fullmatch(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", text) else None
        if kind == "date":
            return dt.date.fromisoformat(text) if _DATE.fullmatch(text) else None
        if kind in ("timestamp", "timestamp_ntz"):
            return dt.datetime.fromisoformat(text) if _MOMENT.fullmatch(text) else None  # sessions are in UTC
    except ValueError:
        return None
    named = re.split(r"[ (]", column.type.lower(), maxsplit=1)[0]
    return text if kind == "string" and named in _TEXT_TYPES else None


def _number(option: Plain, kind: str) -> Decimal | None:
    if not isinstance(option, str):
        return Decimal(repr(option))  # stays as it is written
    if kind in _INTEGERS:
        return Decimal(option) if _WHOLE.fullmatch(option) else None
    try:
        with localcontext(prec=_DIGITS):
            found = Decimal(option)
            if not found.is_finite():
                return None
            precision, scale = (int(part) for part in kind[len("decimal(") : -1].split(","))
            rounded = found.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    except InvalidOperation:
        return None
    return rounded if abs(rounded) < Decimal(10) ** (precision - scale) else None


def at_least(array: pa.Array, bound: Plain, column: ColumnSchema) -> Mask:
    """Return where a value is not below a bound; false for nulls."""
    return _compared(array, bound, column, ROUND_CEILING, pc.greater_equal)


def at_most(array: pa.Array, bound: Plain, column: ColumnSchema) -> Mask:
    """Return where a value is not above a bound; false for nulls."""
    return _compared(array, bound, column, ROUND_FLOOR, pc.less_equal)


def _compared(array: pa.Array, bound: Plain, column: ColumnSchema, rounding: str, compare: Any) -> Mask:
    value = _parsed(bound, column)
    if isinstance(value, Decimal):
        low, high, scale = _limits(array.type)
        with localcontext(prec=_DIGITS):
            value = value.quantize(Decimal(1).scaleb(-scale), rounding)
        beyond = value > high or value < low
        if beyond:  # no value of the type lies on the other side
            inside = (value > high) == (compare is pc.less_equal)
            return np.asarray(array.is_valid()) & inside
    return _mask(compare(array, _scalar(value, array.type)))


def is_one_of(array: pa.Array, options: Sequence[Plain], column: ColumnSchema) -> Mask:
    """Return where a value equals one of the options; false for nulls."""
    values = []
    for option in options:
        value = _parsed(option, column)
        if isinstance(value, Decimal):
            low, high, scale = _limits(array.type)
            with localcontext(prec=_DIGITS):
                rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR)
            if rounded != value or not low <= value <= high:
                continue  # no value of the type equals it
            value = rounded
        values.append(_scalar(value, array.type).as_py())
    if not values:
        return np.zeros(len(array), np.bool_)
    wanted = pa.array(values, array.type)
    if pa.types.is_floating(array.type):  # is_in looks at bits, and 0.0 equals -0.0
        zero = pa.scalar(0.0, array.type)
        array, wanted = pc.add(array, zero), pc.add(wanted, zero)
    return _mask(pc.is_in(array, wanted, skip_nulls=True))


def _limits(kind: pa.DataType) -> tuple[Decimal, Decimal, int]:
    """Return the least and greatest value of an exact type, and its scale."""
    if pa.types.is_decimal(kind):
        most = (Decimal(10) ** kind.precision - 1).scaleb(-kind.scale)
        return -most, most, kind.scale
    info = np.iinfo(kind.to_pandas_dtype())
    return Decimal(info.min), Decimal(info.max), 0


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    if isinstance(value, Decimal) and pa.types.is_integer(kind):
        value = int(value)
    if isinstance(value, dt.datetime) and pa.types.is_timestamp(kind) and kind.tz is not None:
        value = value.replace(tzinfo=dt.UTC)
    if pa.types.is_float32(kind):
        return pa.scalar(np.float32(value), kind)
    return pa.scalar(value, kind)


def _mask(found: pa.BooleanArray) -> Mask:
    return np.asarray(pc.fill_null(found, False)).astype(np.bool_, copy=False)
