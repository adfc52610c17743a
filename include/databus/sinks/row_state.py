"""State of a row as canonical bytes: two texts of one row are equal here, whichever lane wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

_EXACT = Context(prec=2_000)
_MOST_DIGITS = 400
"""Digits up to which a whole number is written as one; a larger one keeps its exponent."""

NUMBER_MARK = "\u0000number "
"""Stands before a number that is not whole, which is a text in the canonical form: no row's own text begins so."""

_DECODER = json.JSONDecoder(parse_float=Decimal)


def parsed(text: bytes | str) -> Any:
    """Return a JSON text with all digits of its numbers.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(text, parse_float=Decimal)


def parsed_at(text: str, start: int) -> Any:
    """Return the JSON value that begins at a character of a text; what follows it is not looked at.

    Raises:
        ValueError: none begins there.
    """
    return _DECODER.raw_decode(text, start)[0]


def canonical(row: Mapping[str, Any]) -> bytes:
    """Return a row that `parsed` gave as JSON with sorted members; numbers of equal value are equal."""
    return _DUMPED(row).encode("utf-8", "surrogatepass")


def canonical_text(row: bytes | str | None) -> bytes | None:
    """Return the canonical form of a JSON object's text; None for None.

    Raises:
        ValueError: it is no JSON object.
    """
    if row is None:
        return None
    found = parsed(row)
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return canonical(found)


def shown(content: bytes | None) -> Any:
    """Return what a canonical row says, for people: numbers that are not whole as plain texts; None for None."""
    return None if content is None else _without_marks(json.loads(content))


def _number(value: Any) -> Any:
    if not isinstance(value, Decimal):
        raise TypeError(f"a row holds no {type(value).__name__}")
    plain = value.normalize(_EXACT)
    if plain.is_finite() and plain == plain.to_integral_value() and plain.adjusted() < _MOST_DIGITS:
        return int(plain)
    return f"{NUMBER_MARK}{plain}"


_DUMPED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_number).encode


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_marks(each) for each in value]
    return value.removeprefix(NUMBER_MARK) if isinstance(value, str) else value
