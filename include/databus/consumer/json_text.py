"""JSON without loss, numbers with a fraction as decimals; and keys of records, which are columns of the primary key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from databus.consumer.schema_values import values_of

if TYPE_CHECKING:
    from databus.consumer.change import Change


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


_MAXWELL = "pk."
_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refused)


def parsed(raw: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is none, or no UTF-8.
    """
    return _DECODER.decode(raw if isinstance(raw, str) else raw.decode())


def key_of(raw: bytes, change: Change) -> Mapping[str, Any] | None:
    """Return column → value of a record's key; None where it is no JSON object."""
    try:
        key = parsed(raw)
    except ValueError:
        return None
    if isinstance(key, dict) and "schema" in key and "payload" in key and change.form == "schema":
        key = values_of(key["payload"], key["schema"])
    if not isinstance(key, dict):
        return None
    if change.form == "maxwell":
        return {name.removeprefix(_MAXWELL): value for name, value in key.items() if name.startswith(_MAXWELL)}
    return key
