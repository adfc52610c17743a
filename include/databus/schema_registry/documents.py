"""Decoded values as JSON documents: what has no JSON form of its own stands as text."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


def json_of(document: Any) -> str:
    """Return a document's JSON: bytes in base64, decimals with all their digits, times in ISO 8601, all as text.

    A number that JSON does not have is the text "NaN", "Infinity" or "-Infinity", as in ProtoJSON.

    Raises:
        TypeError: it holds something else.
    """
    try:
        return _dumped(document)
    except ValueError:
        return _dumped(_finite(document))


def plain(value: Any) -> Any:
    """Return the JSON form of one value that is not JSON's own.

    Raises:
        TypeError: there is none.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def _dumped(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=plain)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
