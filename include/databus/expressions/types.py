"""Spark's types as text, and the type that two of them have in common, in ANSI mode (Spark 4.1, AnsiTypeCoercion)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pyarrow as pa

from databus.expressions.errors import NotCompiledError

VOID = "void"
"""Type of a NULL without a type."""

MAX_DIGITS = 38
"""Digits of a decimal."""

_ARROW: dict[str, pa.DataType] = {
    VOID: pa.null(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "decimal": "decimal(10,0)",
    "dec": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "timestamp_ltz": "timestamp",
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\((\d+)(?:,(\d+))?\)")
INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*INTEGERS, "float", "double")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Digits of the decimal that holds an integer type."""
_TIMES = ("date", "timestamp_ntz", "timestamp")


def type_named(text: str) -> str:
    """Return a type in the form used here, e.g. "decimal(10,2)" of "DECIMAL(10, 2)".

    Raises:
        NotCompiledError: not a type of compiled expressions.
    """
    name = re.sub(r"\s+", "", text.lower())
    name = _ALIASES.get(name, name)
    if found := _DECIMAL.fullmatch(name):
        digits, scale = int(found[1]), int(found[2] or 0)
        if 0 < digits <= MAX_DIGITS and scale <= digits:
            return decimal(digits, scale)
    if name not in _ARROW:
        raise NotCompiledError(f"type {text}")
    return name


@cache
def arrow_of(name: str) -> pa.DataType:
    """Return the Arrow type that values of a type have here."""
    return pa.decimal128(*decimal_of(name)) if is_decimal(name) else _ARROW[name]


def decimal(digits: int, scale: int) -> str:
    """Return the name of a decimal type."""
    return f"decimal({digits},{scale})"


def is_decimal(name: str) -> bool:
    """Return whether a type is a decimal."""
    return name.startswith("decimal(")


def is_number(name: str) -> bool:
    """Return whether a type is a number, decimals included."""
    return name in _NUMBERS or is_decimal(name)


@cache
def decimal_of(name: str) -> tuple[int, int]:
    """Return (digits, scale) of a decimal type, or of the decimal that holds an integer type."""
    if name in _DIGITS:
        return _DIGITS[name], 0
    digits, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
    return int(digits), int(scale)


def wider_decimal(one: str, other: str) -> str:
    """Return the decimal that holds both types; beyond 38 digits fraction digits go first."""
    (p1, s1), (p2, s2) = decimal_of(one), decimal_of(other)
    scale = max(s1, s2)
    digits = max(p1 - s1, p2 - s2) + scale
    if digits > MAX_DIGITS:
        scale, digits = max(0, scale - (digits - MAX_DIGITS)), MAX_DIGITS
    return decimal(digits, scale)


def tightest(one: str, other: str) -> str | None:
    """Return the type that two have in common without loss, as operators ask for it; None: there is none."""
    if other in (one, VOID):
        return one
    if one == VOID:
        return other
    if one in _TIMES and other in _TIMES:
        return _TIMES[max(_TIMES.index(one), _TIMES.index(other))]
    if is_decimal(one) and other in INTEGERS:
        one, other = other, one
    if one in INTEGERS and is_decimal(other):
        (p1, s1), (p2, s2) = decimal_of(one), decimal_of(other)
        return other if p2 - s2 >= p1 - s1 and s2 >= s1 else None
    if one in _NUMBERS and other in _NUMBERS:
        wider = _NUMBERS[max(_NUMBERS.index(one), _NUMBERS.index(other))]
        return "double" if wider == "float" else wider
    return None


def promoted(one: str, other: str) -> str | None:
    """Return the type that a string and another type meet in; None where neither or both are strings."""
    if (one == "string") == (other == "string"):
        return None
    other = one if other == "string" else other
    if other == VOID:
        return "string"
    if other in INTEGERS:
        return "bigint"
    return "double" if is_number(other) else other


def wider(one: str, other: str) -> str | None:
    """Return the type of branches and list elements of two types; None: there is none."""
    found = tightest(one, other)
    if found is None and is_number(one) and is_number(other) and (is_decimal(one) or is_decimal(other)):
        exact = all(is_decimal(each) or each in INTEGERS for each in (one, other))
        found = wider_decimal(one, other) if exact else "double"
    return found or promoted(one, other)


def widest(types: Sequence[str], what: str) -> str:
    """Return the type that all have in common.

    Args:
        types: types of branches or list elements, in text order.
        what: the function or operator, as errors name it.

    Raises:
        NotCompiledError: there is none, or it depends on their order.
    """
    found = {_folded(types), _folded(types[::-1]), _folded(sorted(types, key=lambda name: name != "string"))}
    if len(found) != 1 or None in found:
        raise NotCompiledError(f"{what} of {', '.join(types)}")
    return next(name for name in found if name is not None)


def _folded(types: Sequence[str]) -> str | None:
    found: str | None = VOID
    for name in types:
        found = None if found is None else wider(found, name)
    return found
