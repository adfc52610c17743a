"""Pages of a list, each with a cursor that leads to the next: rows that come meanwhile move nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from databus.web.problems import refused

MOST = 500
"""Rows of a page at most."""


def cursor_of(place: Sequence[Any]) -> str:
    """Return a place in a list as text for an address."""
    return base64.urlsafe_b64encode(json.dumps(list(place)).encode()).decode().rstrip("=")


def place_of(cursor: str, kinds: Sequence[type]) -> list[Any] | None:
    """Return the place that a cursor names; None for the first page.

    Args:
        cursor: what `cursor_of` made; "" for the first page.
        kinds: type of each part of the place.

    Raises:
        RequestRefusedError: it is no cursor of this list.
    """
    if not cursor:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, UnicodeDecodeError):
        found = None
    if not isinstance(found, list) or [type(part) for part in found] != list(kinds):
        raise refused(400, f"cursor {cursor!r} is none of this list", "Leave it out for the first page.")
    return found


def page(items: Sequence[dict[str, Any]], limit: int, places: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a page of a list that was read one item too far.

    Args:
        items: up to `limit` + 1 items.
        limit: items of a page.
        places: place of each item.

    Returns:
        `items`, and `next`: the cursor of the next page, null on the last.
    """
    more = len(items) > limit
    return {"items": list(items[:limit]), "next": cursor_of(places[limit - 1]) if more else None}
