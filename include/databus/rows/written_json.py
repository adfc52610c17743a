"""JSON whose numbers keep the digits that they were written with."""

from __future__ import annotations

import json
from typing import Any


class JsonNumber(str):
    """Number of a JSON text, with its digits."""

    __slots__ = ()


def loads_written(text: str | bytes) -> Any:
    """Return a JSON text's value, with its numbers as `JsonNumber`.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(text, parse_int=JsonNumber, parse_float=JsonNumber)


def written(value: Any) -> str:
    """Return the text of such a value, with the blanks that PostgreSQL's jsonb and MySQL's JSON have."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(name, ensure_ascii=False)}: {written(each)}" for name, each in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
