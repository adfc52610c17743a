"""Ledger page rows in SQL: rows that are whole, and rows stored as a difference to the whole one before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.positions.offsets import Offset
from databus.core.state.checkpoint import HistoryEntry
from databus.records import tables as t
from databus.records.ledger.stored_places import WHOLE_EVERY, Json, packed, unpacked


@dataclass(frozen=True)
class Page:
    """Ledger page.

    Attributes:
        generation: raised each time the flow started from scratch.
        number: number of the entry it holds, also its own.
        entry: the entry; None when what is stored cannot be read.
        problem: why not.
    """

    generation: int
    number: int
    entry: HistoryEntry | None
    problem: str = ""

    @property
    def first(self) -> int:
        """Number of the first entry that it stands for; its own where it holds that one alone."""
        return self.entry.first if self.entry else self.number


_Row = sa.Row[int, int | None, Any]
"""Number, base and entry of a page as they are stored."""


def of_flow(flow: str, generation: int) -> sa.Select[int, int | None, Any]:
    """Return the query for the rows of a generation's pages."""
    c = t.ledger.c
    return sa.select(c.number, c.base, c.entry).where((c.flow == flow) & (c.generation == generation))


def whole(connection: sa.Connection, flow: str, generation: int, rows: Sequence[_Row]) -> Iterator[Page]:
    """Yield stored pages, ascending; those that they are differences to are read too, unless they are among them."""
    at, place = 0, None
    for number, base, stored in rows:
        if base is not None and at != number - 1:
            at, place = 0, None
            between = of_flow(flow, generation).where(t.ledger.c.number.between(base, number - 1))
            for earlier, _, row in connection.execute(between.order_by(t.ledger.c.number)):
                at, place = earlier, _place(row, place if at == earlier - 1 else None)
        page, place = _read(generation, number, stored, place if at == number - 1 else None)
        at = number
        yield page


def _place(stored: Any, before: Json | None) -> Json | None:
    """Return where a stored page ends, None where that cannot be read; the page is not made of it, which takes long."""
    try:
        offset: Json = unpacked(stored, before)["offset"]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return offset


def _read(generation: int, number: int, stored: Any, before: Json | None) -> tuple[Page, Json | None]:
    """Return a page, and where it ends; None where that cannot be read."""
    try:
        found = unpacked(stored, before)
        return Page(generation, number, HistoryEntry.from_json(found)), found["offset"]
    except (CheckpointFormatError, KeyError, TypeError, ValueError, AttributeError) as error:
        return Page(generation, number, None, f"{type(error).__name__}: {error}"), None


@dataclass(frozen=True)
class PageEnd:
    """Page end, for the next page to be stored as a difference to.

    Attributes:
        number: number of the page.
        base: number of the whole page that it is read from on; its own when it is whole.
        offset: where it ends.
    """

    number: int
    base: int
    offset: Offset


def page_end(connection: sa.Connection, flow: str, generation: int, number: int) -> PageEnd | None:
    """Return where a page ends; None where there is none, or it cannot be read."""
    rows = connection.execute(of_flow(flow, generation).where(t.ledger.c.number == number)).all()
    page = next(whole(connection, flow, generation, rows), None)
    return PageEnd(number, rows[0].base or number, page.entry.offset) if page and page.entry else None


def page_row(flow: str, generation: int, entry: HistoryEntry, before: PageEnd | None) -> dict[str, Any]:
    """Return what is stored of an entry, but for the time.

    Args:
        flow: flow name.
        generation: of the flow's ledger.
        entry: the entry.
        before: the page before it; None to store one that can be read by itself.
    """
    near = before is not None and before.number == entry.number - 1 and entry.number - before.base < WHOLE_EVERY
    follows = near and before is not None and entry.action == "commit" and before.offset == entry.previous
    stored, chained = packed(entry.to_json(), chained=follows)
    return {
        "flow": flow,
        "generation": generation,
        "number": entry.number,
        "action": entry.action,
        "batch": entry.batch,
        "base": before.base if chained and before is not None else None,
        "entry": stored,
    }
