"""Canonical JSON: one text for each content, whatever the order of members and the spelling of numbers and characters.

Numbers keep all their digits: 1.50 and 1.5 are one, 12345678901234567890.1 and 12345678901234567890.2 are two.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


class Digits(str):
    """Digits of a number that neither an int nor a float holds exactly."""

    __slots__ = ()


def _number(text: str) -> float | Digits:
    number = float(text)
    spelled = repr(number)
    if spelled == text or (number - number == 0 and Decimal(spelled) == Decimal(text)):
        return number
    if "e" in text or "E" in text:
        return Digits(text.lower())
    return Digits(text.rstrip("0").removesuffix("."))


_EXACT = json.JSONDecoder(parse_float=_number)
_LONGEST = json.JSONDecoder(parse_float=_number, parse_int=Digits)
_FAST = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_PLAIN = json.JSONEncoder(ensure_ascii=False)


def parsed(text: str | bytes) -> Any:
    """Return a JSON text's value, whose numbers `canonical` writes with all their digits.

    Raises:
        ValueError: it is no JSON.
    """
    text = text if isinstance(text, str) else text.decode()
    try:
        return _EXACT.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python refuses to make an int of more than 4,300 digits
        return _LONGEST.decode(text)


def canonical(value: Any) -> bytes:
    """Return the canonical text of what `parsed` returned, UTF-8."""
    try:
        text = _FAST.encode(value) if not _has_digits(value) else _written(value)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    return text.encode("utf-8", "surrogatepass")


def _has_digits(value: Any) -> bool:
    if isinstance(value, dict):
        return any(type(each) is not str and _has_digits(each) for each in value.values())
    if isinstance(value, list):
        return any(map(_has_digits, value))
    return type(value) is Digits


def _written(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_PLAIN.encode(name)}:{_written(value[name])}" for name in sorted(value))
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return str(value) if type(value) is Digits else _PLAIN.encode(value)
