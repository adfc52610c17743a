"""Ledger pages: a flow's history entries in SQL, kept for good, with the reports that a kill left missing.

ZooKeeper keeps the newest entries only, and lets none go before it has a page. What pages say is never changed: an
entry that differs from its page is reported by `databus ledger --verify`, not smoothed over. Places of many partitions
are stored as differences (`stored_places`); pages are whole here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa

from databus.core.protocols.recorder import Clock
from databus.core.state.checkpoint import HistoryEntry
from databus.records import tables as t
from databus.records.ledger.entry_reports import put_reports
from databus.records.ledger.page_rows import Page, PageEnd, of_flow, page_end, page_row, whole
from databus.records.offset_map_rows import map_rows
from databus.records.run_ranges import run_number
from databus.records.store import RecordStore

log = logging.getLogger(__name__)

_CHUNK = 500


class LedgerPages:
    """The pages of all flows in a records store; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
        clock: gives the time at which a page was written; the system's by default.
    """

    def __init__(self, store: RecordStore, clock: Clock | None = None) -> None:
        self.store = store
        self._clock = clock

    def paged(self, flow: str) -> int:
        """Return the number of the newest page of the flow's newest generation, 0 without any."""
        with self.store.transaction() as connection:
            generation = newest_generation(connection, flow)
            return _newest(connection, flow, generation)

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        """Write pages of the entries that have none, and reports of commits that have none, in one transaction.

        Entries that have a page are compared with it; when one differs, nothing is written. But a first entry (`start`)
        that differs from the page of its number begins a new generation: the flow was made anew.

        Args:
            flow: flow name.
            entries: stretch of the history, in ascending order of their numbers.

        Returns:
            The greatest number up to which every given entry equals its page; 0 when the first one differs already.
        """
        if not entries:
            return 0
        with self.store.transaction() as connection:
            self._lock(connection, flow)
            generation = newest_generation(connection, flow)
            found = {page.number: page for page in _pages(connection, flow, generation, entries[0].number)}
            first = found.get(entries[0].number)
            if entries[0].action == "start" and first is not None and first.entry != entries[0]:
                generation, found = generation + 1, {}
                log.warning("flow %s: its history begins anew; its ledger goes on as generation %d", flow, generation)
            merged = {number for number, page in found.items() if page.first < page.number}
            alone = {number: page.entry for number, page in found.items() if number not in merged}
            differs = next((e for e in entries if e.number in alone and alone[e.number] != e), None)
            if differs is not None:
                log.error("flow %s: entry %d of the history differs from its ledger page", flow, differs.number)
                return differs.number - 1 if differs is not entries[0] else 0
            single = [entry for entry in entries if entry.number > max(merged, default=0)]
            self._insert(connection, flow, generation, [e for e in single if e.number not in found])
            self._refill(connection, flow, single)
        return entries[-1].number

    def pages(self, flow: str) -> list[Page]:
        """Return the pages of the flow's newest generation in ascending order of their numbers."""
        with self.store.transaction() as connection:
            return list(_pages(connection, flow, newest_generation(connection, flow), 0))

    def before(self, flow: str, number: int, last: int) -> list[Page]:
        """Return the newest pages of entries below a number, of the flow's newest generation, newest first."""
        with self.store.transaction() as connection:
            generation, c = newest_generation(connection, flow), t.ledger.c
            wanted = of_flow(flow, generation).where(c.number < number).order_by(c.number.desc()).limit(last)
            rows = connection.execute(wanted).all()
            return list(whole(connection, flow, generation, rows[::-1]))[::-1]

    def amendments(self, flow: str, generation: int) -> list[Page]:
        """Return the pages of a generation that hold something else than a commit, ascending; only these are read."""
        wanted = of_flow(flow, generation).where(t.AMENDED).order_by(t.ledger.c.number)
        with self.store.transaction() as connection:
            return list(whole(connection, flow, generation, connection.execute(wanted).all()))

    def last_before(self, flow: str, before: datetime, newest_kept: int) -> tuple[int, int] | None:
        """Return generation and number of the last page that was written before a time and is not of the newest."""
        c = t.ledger.c
        with self.store.transaction() as connection:
            generation = newest_generation(connection, flow)
            mine = (c.flow == flow) & (c.generation == generation)
            newest = sa.select(c.number).where(mine).order_by(c.number.desc()).offset(max(newest_kept, 1)).limit(1)
            number = connection.execute(newest).scalar_one_or_none()
            if number is None:
                return None
            old = sa.select(sa.func.max(c.number)).where(mine & (c.number <= number) & (c.paged_at < before))
            found = connection.execute(old).scalar_one()
            return None if found is None else (generation, found)

    def following(self, flow: str, generation: int, after: int, last: int, most: int) -> list[Page]:
        """Return the pages of a generation behind a number, up to another and no more than so many, ascending."""
        c = t.ledger.c
        wanted = of_flow(flow, generation).where((c.number > after) & (c.number <= last)).order_by(c.number).limit(most)
        with self.store.transaction() as connection:
            return list(whole(connection, flow, generation, connection.execute(wanted).all()))

    @contextmanager
    def locked(self, flow: str) -> Iterator[sa.Connection]:
        """Yield a connection in a transaction in which nobody else writes the flow's pages."""
        with self.store.transaction() as connection:
            self._lock(connection, flow)
            yield connection

    def within(self, flow: str, generation: int, first: int, last: int) -> list[Page]:
        """Return the pages of a generation from one number to another, both inclusive, ascending."""
        wanted = of_flow(flow, generation).where(t.ledger.c.number.between(first, last)).order_by(t.ledger.c.number)
        with self.store.transaction() as connection:
            return list(whole(connection, flow, generation, connection.execute(wanted).all()))

    def commits(self, flow: str, generation: int, before: int | None, most: int) -> list[Page]:
        """Return the oldest pages of commits of a generation, ascending, all below a number if one is given."""
        c = t.ledger.c
        wanted = of_flow(flow, generation).where(c.action == "commit").order_by(c.number).limit(most)
        wanted = wanted if before is None else wanted.where(c.number < before)
        with self.store.transaction() as connection:
            return list(whole(connection, flow, generation, connection.execute(wanted).all()))

    def from_on(self, flow: str, generation: int, number: int) -> Page | None:
        """Return the first page of a generation from a number on, None behind the newest."""
        c = t.ledger.c
        wanted = of_flow(flow, generation).where(c.number >= number).order_by(c.number).limit(1)
        with self.store.transaction() as connection:
            return next(whole(connection, flow, generation, connection.execute(wanted).all()), None)

    def newest(self, flow: str) -> Page | None:
        """Return the newest page of the flow's newest generation, None without any."""
        with self.store.transaction() as connection:
            generation = newest_generation(connection, flow)
            return next(_pages(connection, flow, generation, _newest(connection, flow, generation)), None)

    def _lock(self, connection: sa.Connection, flow: str) -> None:
        """Let one process write a flow's pages at a time: the end of a run and the next claim may overlap."""
        if self.store.sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            key = sa.func.hashtextextended(f"databus_ledger:{flow}", 0)
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))

    def _insert(self, connection: sa.Connection, flow: str, generation: int, entries: Sequence[HistoryEntry]) -> None:
        now = self._clock.now() if self._clock else datetime.now(UTC)
        rows = []
        before = page_end(connection, flow, generation, entries[0].number - 1) if entries else None
        for entry in entries:
            row = page_row(flow, generation, entry, before)
            before = PageEnd(entry.number, row["base"] or entry.number, entry.offset)
            rows.append({**row, "paged_at": now})
        if rows:
            connection.execute(t.ledger.insert(), rows)
        if moved := map_rows(flow, generation, entries, now):
            connection.execute(t.offset_map.insert(), moved)

    def _refill(self, connection: sa.Connection, flow: str, entries: Sequence[HistoryEntry]) -> None:
        """Write a report of each commit that has none: its run was killed after the commit, or SQL was away."""
        commits = {(e.batch, e.plan_hash): e for e in entries if e.action == "commit" and e.plan_hash and e.previous}
        b = t.batches.c
        numbers = sorted({batch for batch, _ in commits})
        for first in range(0, len(numbers), _CHUNK):
            mine = (b.flow == flow) & b.batch.in_(numbers[first : first + _CHUNK])
            for row in connection.execute(sa.select(b.batch, b.plan_hash).where(mine)):
                commits.pop((row.batch, row.plan_hash), None)
        lacking = list(commits.values())
        runs = {who: run_number(self.store, connection, flow, who, "") for who in dict.fromkeys(e.who for e in lacking)}
        for at in range(0, len(lacking), _CHUNK):
            some = lacking[at : at + _CHUNK]
            put_reports(connection, flow, [(e, {"run": runs[e.who], "refilled": True}) for e in some])
        if commits:
            log.warning(
                "flow %s: reports of %d committed batches were missing and are filled in from history: %s",
                flow,
                len(commits),
                ", ".join(str(batch) for batch, _ in sorted(commits)[:20]),
            )


def newest_generation(connection: sa.Connection, flow: str) -> int:
    """Return the number of a flow's newest generation, which begins where its history does; 1 without any page."""
    found = connection.execute(sa.select(sa.func.max(t.ledger.c.generation)).where(t.ledger.c.flow == flow))
    return found.scalar_one() or 1


def _newest(connection: sa.Connection, flow: str, generation: int) -> int:
    mine = (t.ledger.c.flow == flow) & (t.ledger.c.generation == generation)
    return connection.execute(sa.select(sa.func.max(t.ledger.c.number)).where(mine)).scalar_one() or 0


def _pages(connection: sa.Connection, flow: str, generation: int, first: int) -> Iterator[Page]:
    c = t.ledger.c
    wanted = of_flow(flow, generation).where(c.number >= first).order_by(c.number)
    return whole(connection, flow, generation, connection.execute(wanted).all())
