"""Columns of their own for fields of JSON, Avro and Protobuf documents."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from databus.schema_registry.documents import json_of, plain

FIELD_COLUMNS: dict[str, tuple[str, str, pa.DataType]] = {
    "bigint": ("bigint", "bigint", pa.int64()),
    "double": ("double", "double", pa.float64()),
    "string": ("text", "string", pa.string()),
    "boolean": ("tinyint(1)", "tinyint", pa.int8()),
    "json": ("json", "string", pa.string()),
}
"""Kind of a field → the source's type, Spark's, Arrow's; a decimal's are its own name."""

_WHOLE = re.compile(r"^-?\d{1,19}$")


def field_column(documents: Sequence[Any], path: str, kind: str, form: str) -> pa.Array:
    """Return the values at a path of documents; null where one lacks it or it is of another type.

    Args:
        documents: parsed values, None for none.
        path: names parted by dots.
        kind: bigint, double, string, boolean, decimal(p,s) or json.
        form: format of the documents: ProtoJSON has 64-bit integers as text.
    """
    steps = path.split(".")
    convert = (_OF_PROTOBUF if form == "protobuf" else _OF_AVRO if form == "avro" else {}).get(kind)
    convert = convert or _CONVERTERS.get(kind) or _decimal_converter(kind)
    target = FIELD_COLUMNS[kind][2] if kind in FIELD_COLUMNS else pa.decimal128(*_digits(kind))
    found = [_at(document, steps) for document in documents]
    return pa.array([None if value is None else convert(value) for value in found], target)


def _at(document: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


def _bigint(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and -(2**63) <= value < 2**63 else None


def _double(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and _encodable(value) else None


def _encodable(value: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in value)


def _boolean(value: Any) -> int | None:
    return int(value) if isinstance(value, bool) else None


def _document(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=_number)


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else float(value)


def _bigint_text(value: Any) -> int | None:
    return _bigint(int(value) if isinstance(value, str) and _WHOLE.match(value) else value)


def _shown(value: Any) -> str | None:
    """Return text, also of what is text in JSON: times, UUIDs, bytes; a decimal is a number."""
    try:
        return _text(value if isinstance(value, str | int | float | Decimal | list | Mapping) else plain(value))
    except TypeError:
        return None


_OF_PROTOBUF: dict[str, Callable[[Any], Any]] = {"bigint": _bigint_text, "json": json_of}
_OF_AVRO: dict[str, Callable[[Any], Any]] = {"string": _shown, "json": json_of}
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "bigint": _bigint,
    "double": _double,
    "string": _text,
    "boolean": _boolean,
    "json": _document,
}


def _digits(kind: str) -> tuple[int, int]:
    precision, _, scale = kind.removeprefix("decimal(").removesuffix(")").partition(",")
    return int(precision), int(scale)


def _decimal_converter(kind: str) -> Callable[[Any], Decimal | None]:
    precision, scale = _digits(kind)

    def convert(value: Any) -> Decimal | None:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return None
        number = Decimal(repr(value) if isinstance(value, float) else value)
        if not number.is_finite():
            return None
        exact = number == round(number, scale) and abs(number) < Decimal(10) ** (precision - scale)
        return round(number, scale) if exact else None

    return convert
