"""JSON with numbers as they are written: a DECIMAL or BIGINT that a double rounds is not the value that is held."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_LARGEST = 2**53 - 1
"""Largest whole number that a browser keeps."""

_MOST_DIGITS = 40


class ExactNumber(str):
    """Number as it is written."""

    __slots__ = ()


def loads(text: str) -> Any:
    """Return what a text holds, its numbers as `ExactNumber`.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(text, parse_float=ExactNumber, parse_int=ExactNumber)


def dumps(found: Any) -> str:
    """Return the text of what `loads` gave, its numbers as they were written."""
    if isinstance(found, ExactNumber):
        return str(found)
    if isinstance(found, Mapping):
        return (
            f"{{{','.join(f'{json.dumps(name, ensure_ascii=False)}:{dumps(each)}' for name, each in found.items())}}}"
        )
    if isinstance(found, list):
        return f"[{','.join(map(dumps, found))}]"
    return json.dumps(found, ensure_ascii=False)


def number(written: ExactNumber) -> int | float | str:
    """Return a number; its text where a reader that takes numbers as doubles would round it."""
    if len(written) > _MOST_DIGITS:
        return str(written)
    if written.lstrip("-").isdecimal():
        whole = int(written)
        return whole if abs(whole) <= _LARGEST else str(written)
    near = float(written)
    return near if Decimal(repr(near)) == Decimal(written) else str(written)
