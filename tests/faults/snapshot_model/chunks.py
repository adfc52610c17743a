"""Chunks of the snapshot model: bounds, reads in views, and which of the rows a range of the log supersedes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.faults.snapshot_model.entries import KEYS, ORDERS, RANKS, Entry, Key
from tests.faults.snapshot_model.replica import Replica
from tests.faults.snapshot_model.rules import Rules
from tests.faults.snapshot_model.server import Server
from tests.faults.snapshot_model.views import View, ViewLostError

RowRead = tuple[Key, int, int, tuple[int, int]]
"""Key, serial, number of the definition under which the row was read, number and run of the snapshot."""

BEFORE_ALL = -1


class Snapshot(NamedTuple):
    """Snapshot of the table as a checkpoint holds it.

    Attributes:
        number: of the snapshot.
        run: how often the table was begun anew.
        after: last key of the last chunk; None before the first.
        order: order of keys that the cursor is of.
        last: last key of the table as the snapshot was asked for.
        state: "reading", "done" or "cancelled".
    """

    number: int
    run: int = 0
    after: Key | None = None
    order: int = 0
    last: Key | None = None
    state: str = "reading"


class Chunks(NamedTuple):
    """Chunks that were read for a batch.

    Attributes:
        rows: their rows, once the superseded ones are left out.
        read: how many rows were read.
        superseded: how many of these were left out.
        snapshot: the snapshot once they are delivered.
        done: keys that are complete then.
        ranges: the chunks as (rank of the last key before, rank of the last key).
        names: snapshot's number and run, and range, of each.
        head: end of the log after the last read, or what a weakened rule takes for it.
        shown: newest place that a view showed.
    """

    rows: tuple[RowRead, ...]
    read: int
    superseded: int
    snapshot: Snapshot
    done: tuple[Key, ...]
    ranges: tuple[tuple[int, int], ...]
    names: frozenset[tuple[int, ...]]
    head: int
    shown: int


class ChunkReader:
    """Reads chunks of the table that cover a place.

    Args:
        server: has the table.
        rules: of the protocol.
        chance: draws from 0 to 1.
        pass_time: lets the server go on.
    """

    def __init__(
        self, server: Server, rules: Rules, chance: Callable[[], float], pass_time: Callable[[], None]
    ) -> None:
        self._server, self._rules, self._chance, self._pass_time = server, rules, chance, pass_time
        self._read_at = server.replica or server

    def read(self, place: int, snapshot: Snapshot) -> Chunks | None:
        """Read the next chunks, each in a view of its own; None where a view is lost."""
        server, outside = self._read_at, dict(self._server.engine)
        before_views = server.place if isinstance(server, Replica) else 0
        views: list[View] = []
        rows: list[RowRead] = []
        shown = 0
        if self._rules.wait == "first":
            early = [self._view(views, place, wait=False) for _ in range(2)]
        try:
            first = self._view(views, place, self._rules.wait != "none")
            seen = server.read(first)
            order = server.order
            if self._rules.key_order and order != snapshot.order and snapshot.after is not None:
                snapshot = snapshot._replace(run=snapshot.run + 1, after=None)
            ranks = RANKS[order]
            before = BEFORE_ALL if snapshot.after is None else ranks[snapshot.after]
            ranges, whole = self._bounds(outside if self._rules.bounds == "outside" else seen, ranks, before, snapshot)
            for number, (low, high) in enumerate(ranges):
                self._pass_time()
                if number == 0:
                    view = first
                elif self._rules.wait == "first":
                    view = early[number - 1]
                else:
                    view = self._view(views, place, self._rules.wait == "each")
                shown = max(shown, view.place)
                schema, of = server.schema, (snapshot.number, snapshot.run)
                found = server.read(view).items()
                rows += [(key, serial, schema, of) for key, serial in found if low < ranks[key] <= high]
                if self._chance() < 0.5:
                    server.close_view(view)
                self._pass_time()
        except ViewLostError:
            return None
        finally:
            for view in views:
                server.close_view(view)
        last = ranges[-1][1]
        done = tuple(key for key in KEYS if before < ranks[key] and (whole or ranks[key] <= last))
        after = ORDERS[order][last] if last > BEFORE_ALL else None
        state = "done" if whole else "reading"
        left = snapshot._replace(after=after, order=order, state=state)
        names = frozenset((left.number, left.run, *each) for each in ranges)
        head = {"log": self._server.head, "shown": self._server.shown, "replica": before_views}[self._rules.high]
        return Chunks(tuple(rows), len(rows), 0, left, done, tuple(ranges), names, max(place, head), shown)

    def read_again(self, place: int, chunks: Chunks) -> tuple[RowRead, ...]:
        """Read the same ranges of keys in another view."""
        server, views = self._read_at, []
        view = self._view(views, place, wait=True)
        ranks, schema = RANKS[chunks.snapshot.order], server.schema
        try:
            seen = dict(server.read(view))
        except ViewLostError:
            return chunks.rows
        finally:
            server.close_view(view)
        inside = [key for low, high in chunks.ranges for key in seen if low < ranks[key] <= high]
        of = (chunks.snapshot.number, chunks.snapshot.run)
        return tuple((key, seen[key], schema, of) for key in inside)

    def _view(self, views: list[View], place: int, wait: bool) -> View:
        if wait:
            self._read_at.show_up_to(place)
        view = self._read_at.open_view()
        views.append(view)
        if self._chance() < 0.6:
            self._pass_time()
        return view

    def _bounds(
        self, rows: Iterable[Key], ranks: dict[Key, int], before: int, snapshot: Snapshot
    ) -> tuple[list[tuple[int, int]], bool]:
        """Return ranges of keys, and whether the table ends with them."""
        left = sorted(ranks[key] for key in rows if ranks[key] > before)
        if self._rules.last == "asked":
            end = BEFORE_ALL if snapshot.last is None else ranks[snapshot.last]
            left = [rank for rank in left if rank <= end]
        size, most = 1 + int(self._chance() * 5), 1 + int(self._chance() * 3)
        ranges: list[tuple[int, int]] = []
        while len(ranges) < most:
            chunk, left = left[:size], left[size:]
            last = chunk[-1] if chunk else before
            ranges.append((before, last))
            before = last
            if not left:
                return ranges, True
        return ranges, False


def fitted(chunks: Chunks, log: list[Entry], start: int, end: int, rules: Rules) -> Chunks | None:
    """Leave out the rows that a range supersedes; None where a statement of the range throws the chunks away."""
    kinds = {entry.kind for entry in log[start + 1 : end + 1]}
    if (rules.truncates and "truncate" in kinds) or (rules.alters and "alter" in kinds):
        return None
    if rules.drop == "none":
        return chunks
    until = min(end, chunks.head) if rules.drop == "head" else end
    touched = touched_keys(log[start + 1 : until + 1], rules)
    rows = tuple(row for row in chunks.rows if row[0] not in touched)
    return chunks._replace(rows=rows, superseded=chunks.superseded + len(chunks.rows) - len(rows))


def touched_keys(entries: list[Entry], rules: Rules) -> set[Key | None]:
    """Return the keys that a range's images have."""
    touched: set[Key | None] = set()
    for entry in entries:
        if rules.touched == "emitted":
            touched.update(row.key for row in entry.rows if row.op != "h")
            continue
        changes = entry.changes
        if rules.xa == "prepare":
            changes = entry.prepared or (() if entry.of_xa else changes)
        for change in changes:
            touched.add(change.new)
            if rules.touched == "images":
                touched.add(change.old)
    return touched
