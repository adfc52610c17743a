"""Keys of records: the columns of the primary key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from databus.consumer.json_text import parsed
from databus.consumer.schema_values import values_of

if TYPE_CHECKING:
    from databus.consumer.change import Change

_MAXWELL = "pk."


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
