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

FOREIGN = b"\0"
"""Stands before a content that is no row's: a value that somebody else wrote, as it came."""


def parsed(text: bytes | str) -> Any:
    """Return a JSON text with all digits of its numbers.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(text, parse_float=Decimal)


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


def settled(content: bytes | None) -> bytes | None:
    """Return the canonical form of a content as it was written: contents of one state are equal then.

    One that is no JSON object is foreign, and marked so.
    """
    if content is None or content.startswith(FOREIGN):
        return content
    try:
        return canonical_text(content)
    except ValueError:
        return FOREIGN + content


def shown(content: bytes | None) -> Any:
    """Return what a canonical row says, for people: numbers that are not whole as plain texts; None for None.

    A foreign content is a text.
    """
    if content is None:
        return None
    if content.startswith(FOREIGN):
        return content.removeprefix(FOREIGN).decode(errors="replace")
    return _without_marks(json.loads(content))


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
