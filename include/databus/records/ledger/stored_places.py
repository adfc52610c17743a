"""Places of many partitions as pages and reports hold them: what differs from the place before, not all of it.

A batch over ten thousand partitions moves a few of them. A page holds where its batch ended as a JSON Merge Patch
(RFC 7396) of where it began, and that it began where the page before it ended; now and then a page is whole, so that
reading one does not read all. Places of other kinds, and of few partitions, are small and always whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WHOLE_EVERY = 256
"""A page that is this far from the last whole one is whole itself: as many are read at most to read one."""

FEW = 16
"""Places of so many partitions are not worth it."""

_PATCH = "patch"
_HERE, _BEFORE = "previous", "page before"

Json = Mapping[str, Any]


class PlacesError(ValueError):
    """Stored place that differs from one that is not at hand."""


def many(place: Json | None) -> bool:
    """Return whether a place in JSON is of so many partitions that differences are stored of it."""
    if place is None or place.get("kind") != "kafka":
        return False
    return sum(len(partitions) for partitions in place.get("positions", {}).values()) > FEW


def packed(entry: Json, *, chained: bool) -> tuple[dict[str, Any], bool]:
    """Return what is stored of a history entry, and whether it can be read only after the page before it.

    Args:
        entry: in JSON, whole.
        chained: whether it begins where the page before it ended, and may be read after that one only.
    """
    previous, offset = entry["previous"], entry["offset"]
    if not many(previous) or offset.get("kind") != "kafka":
        return dict(entry), False
    begins = {"from": _BEFORE} if chained else previous
    return {**entry, "previous": begins, "offset": {"from": _HERE, _PATCH: difference(previous, offset)}}, chained


def unpacked(stored: Json, before: Json | None) -> dict[str, Any]:
    """Return the entry that was stored, whole.

    Args:
        stored: what `packed` gave.
        before: where the page before it ended, whole; None where that is not known.

    Raises:
        PlacesError: it is needed and not known.
    """
    entry = dict(stored)
    previous, offset = entry.get("previous"), entry.get("offset")
    if isinstance(previous, Mapping) and previous.get("from") == _BEFORE:
        if before is None:
            raise PlacesError("it begins where the page before it ended, and that one cannot be read")
        entry["previous"] = previous = before
    if isinstance(offset, Mapping) and offset.get("from") == _HERE:
        entry["offset"] = patched(previous or {}, offset[_PATCH])
    return entry


def difference(one: Json, other: Json) -> dict[str, Any]:
    """Return the merge patch that makes one object of JSON, without nulls, another."""
    patch: dict[str, Any] = {name: None for name in one if name not in other}
    for name, value in other.items():
        known = one.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            if inner := difference(known, value):
                patch[name] = inner
        elif known != value or name not in one:
            patch[name] = value
    return patch


def patched(one: Json, patch: Json) -> dict[str, Any]:
    """Return an object of JSON after a merge patch; what was given is not changed."""
    found = dict(one)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            known = found.get(name)
            found[name] = patched(known if isinstance(known, Mapping) else {}, value)
        else:
            found[name] = value
    return found
