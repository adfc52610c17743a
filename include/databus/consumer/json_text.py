"""JSON without loss: numbers with a fraction are decimals."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refused)


def parsed(raw: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is none, or no UTF-8.
    """
    return _DECODER.decode(raw if isinstance(raw, str) else raw.decode())
