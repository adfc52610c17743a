"""Values of python-mysql-replication → values of a column's Arrow type; what it gets wrong is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from databus.binlog.values.column_types import MAX_DECIMAL128, Column, ColumnType
from databus.binlog.values.logical_types import logical_text

ABSENT = object()
"""Stands for a column that the row image does not carry."""

_LOST = {"out of date range", "out of datetime range", "out of datetime2 range"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the library's times have no zone
_ZERO_YEAR = 1900


class UnsupportedValueError(ValueError):
    """A value that the library returns wrongly, or not at all."""


def column_value(column: Column, value: Any, source: str) -> Any:
    """Return a value fit for `arrow_type(column)`, None for NULL, or ABSENT.

    Args:
        column: the column.
        value: what the library returned.
        source: why it returned None, as it says itself.

    Raises:
        UnsupportedValueError: the library is known to be wrong here.
    """
    if value is None:
        return _none(column, source)
    convert = _CONVERSIONS.get(column.type)
    return _text(column, value) if convert is None else convert(column, value)


def _none(column: Column, source: str) -> Any:
    if source == "cols bitmap":
        return ABSENT
    if source in _LOST:
        raise UnsupportedValueError("a zero or impossible date")
    if source == "empty set":
        return ""
    if source == "null":
        return None
    raise UnsupportedValueError(f"a value of type {column.source_type} that it calls {source!r}")


def _text(column: Column, value: Any) -> Any:
    if column.text:
        if not isinstance(value, str):
            raise UnsupportedValueError(f"text in the character set {column.charset}")
        return value
    raw = value.encode("latin-1") if isinstance(value, str) else bytes(value)
    # BINARY(n) is logged without its trailing zero bytes.
    raw = raw.ljust(column.meta2, b"\0") if column.type is ColumnType.STRING else raw
    return logical_text(raw, column.logical) if column.logical else raw


def _decimal(column: Column, value: Decimal) -> Any:
    return value if column.meta <= MAX_DECIMAL128 else f"{value:f}"


def _time(column: Column, value: timedelta) -> timedelta:
    if value < timedelta(0) and column.meta:
        raise UnsupportedValueError("a negative TIME with fractional digits")
    return value


def _timestamp(_: Column, value: datetime) -> datetime:
    if value.replace(microsecond=0) == _EPOCH:
        raise UnsupportedValueError("a zero TIMESTAMP")
    return value.replace(tzinfo=UTC)


def _year(_: Column, value: int) -> int:
    if value == _ZERO_YEAR:
        raise UnsupportedValueError("YEAR 0000")
    return value


def _set(column: Column, value: set[str]) -> str:
    return ",".join(member for member in column.values if member in value)


def _json(_: Column, value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    raise UnsupportedValueError(f"a {type(value).__name__} inside JSON")


def _same(_: Column, value: Any) -> Any:
    return value


_CONVERSIONS: dict[ColumnType, Callable[[Column, Any], Any]] = {
    **dict.fromkeys(
        (
            ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG,
            ColumnType.FLOAT, ColumnType.DOUBLE,
            ColumnType.DATE, ColumnType.NEWDATE, ColumnType.DATETIME, ColumnType.DATETIME2, ColumnType.ENUM,
        ),
        _same,
    ),
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.TIME: _time,
    ColumnType.TIME2: _time,
    ColumnType.TIMESTAMP: _timestamp,
    ColumnType.TIMESTAMP2: _timestamp,
    ColumnType.YEAR: _year,
    ColumnType.SET: _set,
    ColumnType.BIT: lambda _, value: int(value, 2),
    ColumnType.JSON: _json,
}  # fmt: skip
