"""Row images of a record: what a value in one of our forms holds of the row before and after its change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from databus.core.trace import RowImages

LARGEST_BYTES = 1 << 20
"""A value with more is not taken apart for a page."""


def images_of(value: bytes | None) -> RowImages:
    """Return the images in a record's value; empty with a note where it holds none that can be shown."""
    if value is None:
        return RowImages(note="a tombstone: it has no row")
    if len(value) > LARGEST_BYTES:
        return RowImages(note=f"its value has {len(value):,} bytes: too many to show here")
    try:
        found = json.loads(value, parse_float=WrittenNumber, parse_int=WrittenNumber)
    except ValueError:
        return RowImages(note="its value is no JSON")
    return _in_form(found) if isinstance(found, dict) else RowImages(note="its value is no JSON object")


def _in_form(found: Mapping[str, Any]) -> RowImages:
    if found.keys() == {"schema", "payload"} and isinstance(found["payload"], dict):
        found = found["payload"]
    if "after" in found or "before" in found:  # Debezium's
        return RowImages(_row(found.get("before")), _row(found.get("after")))
    if isinstance(found.get("data"), dict):  # Maxwell's
        return _changed(str(found.get("type")).startswith("delete"), found["data"], found.get("old"))
    if isinstance(found.get("data"), list) and found["data"]:  # Canal's
        old = found.get("old")
        first = old[0] if isinstance(old, list) and old else None
        return _changed(found.get("type") == "DELETE", found["data"][0], first)
    row = {name: each for name, each in found.items() if not name.startswith("__")}
    gone = found.get("__op") == "d" or found.get("__deleted") in {True, "true"}
    return RowImages(before=row) if gone else RowImages(after=row, note="this form has no row before the change")


class WrittenNumber(str):
    """Number as it is written: a page must not round it."""

    __slots__ = ()


def _changed(deleted: bool, row: Any, old: Any) -> RowImages:
    """Return the images of a form with a row and the former values of what changed in it."""
    shown = _row(row)
    if shown is None or deleted:
        return RowImages(before=shown)
    return RowImages(before={**shown, **old} if isinstance(old, Mapping) and old else None, after=shown)


def _row(image: Any) -> Mapping[str, Any] | None:
    return image if isinstance(image, dict) else None
