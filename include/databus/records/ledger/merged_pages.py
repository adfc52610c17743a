"""Merging old ledger pages and reports: one part stands for many batches, and proves their range and their sums.

Before anything is merged it is proved: pages that go on from one another, each with a report that says the same. What
does not, what holds rows back or passed over what is gone, what no batch moved (amendments, gaps), and what a sink that
was behind moved by itself stays as it is. So does what ZooKeeper may still hold. A part may become part of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from databus.core.positions.offsets import Offset, Ordering
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.merging import goes_on, mergeable, merged
from databus.records import tables as t
from databus.records.ledger.entry_reports import put_reports
from databus.records.ledger.page_rows import Page, of_flow, page_row, whole
from databus.records.ledger.pages import LedgerPages
from databus.records.ledger.reports import LedgerReports, ReportFact
from databus.records.ledger.runs_left import RunsLeft, reports_of
from databus.records.store import RecordStore

NEWEST_KEPT = 1_000
"""Pages of a flow that are never merged: as many entries as ZooKeeper keeps."""

_CHUNK = 2_000
"""Pages merged in one transaction."""

_IDS = 500

SEVERAL = "several"
"""The spec hash of a merged report, where definition or code changed in between."""

_FORWARD = {Ordering.EQUAL, Ordering.AFTER}


@dataclass
class Merge:
    """Merge result: what merging did, or would do.

    Attributes:
        gone: pages, and as many reports, whose content another one has from then on.
        single: pages of commits that are old enough and stay as they are.
        runs: runs on which nothing hangs any more: their batches are in another run's part.
    """

    gone: int = 0
    single: int = 0
    runs: int = 0


class MergedPages:
    """Merges the old pages of all flows; all methods raise RecordingError when the database refuses.

    Args:
        store: the records store; the caller closes it.
        newest_kept: pages of each flow that stay, however old.
    """

    def __init__(self, store: RecordStore, newest_kept: int = NEWEST_KEPT) -> None:
        self._store, self._newest_kept = store, newest_kept
        self._pages, self._reports = LedgerPages(store), LedgerReports(store)

    def surplus(self, before: datetime, results: sa.Select[int] | None = None) -> Merge:
        """Return what `merge` would do, also after quality results of some ids are deleted: they hold no run then."""
        return self._each(before, results, execute=False)

    def merge(self, before: datetime) -> Merge:
        """Merge what was paged before a time, aware UTC, in transactions of some pages; a second call does nothing.

        A kill leaves whole pages or whole parts; flows go on meanwhile.
        """
        return self._each(before, None, execute=True)

    def _each(self, before: datetime, results: sa.Select[int] | None, *, execute: bool) -> Merge:
        done = Merge()
        with self._store.transaction() as connection:
            flows = list(connection.execute(sa.select(t.ledger.c.flow).distinct().order_by(t.ledger.c.flow)).scalars())
        for flow in flows:
            last = self._pages.last_before(flow, before, self._newest_kept)
            if last is None:
                continue
            generation, number = last
            back = _set_back_to(self._pages.amendments(flow, generation))
            left = RunsLeft(self._store, results)
            for group in self._groups(flow, generation, number, back):
                if len(group) > 1 and execute:
                    done.runs += self._write(flow, generation, group)
                elif len(group) > 1:
                    left.add(flow, group)
                done.gone += len(group) - 1
                done.single += len(group) == 1 and group[0].merged is None
            done.runs += left.count()
        return done

    def _groups(
        self, flow: str, generation: int, last: int, back: Sequence[Offset]
    ) -> Iterator[Sequence[HistoryEntry]]:
        """Yield stretches of pages that become one, in the order of the log; single pages that stay."""
        group: list[HistoryEntry] = []
        number, replaced = 0, 0
        while pages := self._pages.following(flow, generation, number, last, _CHUNK):
            number = pages[-1].number
            entries = [page.entry for page in pages if page.entry is not None]
            reported = self._reported(flow, entries)
            for entry in entries:
                if entry.replaced:
                    replaced = entry.replaced.upto
                # A batch that was in flight then may have written to a topic and to its successor: it stays alone.
                joins = mergeable(entry) and entry.number in reported and entry.batch > replaced
                if group and (not joins or not goes_on(group[-1], entry) or _inside(back, group[0], entry)):
                    yield group
                    group = []
                if joins:
                    group.append(entry)
                elif entry.action == "commit":
                    yield [entry]
            if len(group) > 1:
                yield group
                group = [merged(group)]
        if group:
            yield group

    def _reported(self, flow: str, entries: Sequence[HistoryEntry]) -> set[int]:
        """Return the numbers of the entries that have one report, which says the same."""
        commits = [entry for entry in entries if entry.action == "commit"]
        if not commits:
            return set()
        facts: dict[tuple[int, str], list[ReportFact]] = {}
        for fact in self._reports.facts(flow, (commits[0].batch, commits[-1].batch)):
            facts.setdefault((fact.batch, fact.plan_hash), []).append(fact)
        found = set()
        for entry in commits:
            mine = facts.get((entry.batch, entry.plan_hash), [])
            if len(mine) == 1 and mine[0].mode == "live" and not mine[0].lost and not mine[0].compared(entry):
                found.add(entry.number)
        return found

    def _write(self, flow: str, generation: int, group: Sequence[HistoryEntry]) -> int:
        """Put one part in the place of pages and their reports; return how many runs went with them."""
        part, first = merged(group), group[0].number
        c = t.ledger.c
        mine = (c.flow == flow) & (c.generation == generation)
        with self._pages.locked(flow) as connection:
            pages = mine & c.number.between(first, part.number)
            there = connection.execute(sa.select(c.number, c.paged_at).where(pages).order_by(c.number)).all()
            if [row.number for row in there] != [entry.number for entry in group]:
                return 0  # another process has merged them
            # What follows may be stored as a difference to what goes.
            after = of_flow(flow, generation).where(c.number == part.number + 1)
            rows = connection.execute(after).all()
            behind = next(whole(connection, flow, generation, rows), None)
            connection.execute(t.ledger.delete().where(pages))
            row = page_row(flow, generation, part, None)
            connection.execute(t.ledger.insert(), [{**row, "paged_at": there[-1].paged_at}])
            if behind is not None and behind.entry is not None and rows[0].base is not None:
                own = page_row(flow, generation, behind.entry, None)
                at = mine & (c.number == behind.number)
                connection.execute(t.ledger.update().where(at).values(entry=own["entry"], base=None))
                chained = mine & (c.base == rows[0].base) & (c.number > behind.number)
                connection.execute(t.ledger.update().where(chained).values(base=behind.number))
            return self._merge_reports(connection, flow, group, part)

    def _merge_reports(
        self, connection: sa.Connection, flow: str, group: Sequence[HistoryEntry], part: HistoryEntry
    ) -> int:
        b, r, q = t.batches.c, t.runs.c, t.quality_results.c
        found = reports_of(connection, flow, group)
        for begin in range(0, len(found), _IDS):
            ids = [row.id for row in found[begin : begin + _IDS]]
            connection.execute(t.batches.delete().where(b.id.in_(ids)))
        specs, codes = {row.spec_hash for row in found}, {row.code_version for row in found}
        known = {
            "run": found[-1].run,
            "spec_hash": specs.pop() if len(specs) == 1 else SEVERAL,
            "code_version": codes.pop() if len(codes) == 1 else "",
            "first_batch": part.merged.batch if part.merged else None,
        }
        put_reports(connection, flow, [(part, known)])
        runs = sorted({row.run for row in found} - {found[-1].run})
        judged = sa.exists().where((q.flow == r.flow) & (q.run_id == r.run_id))
        moved = sa.exists().where(b.run == r.id)
        gone = 0
        for begin in range(0, len(runs), _IDS):
            free = r.id.in_(runs[begin : begin + _IDS]) & ~judged & ~moved
            gone += connection.execute(t.runs.delete().where(free)).rowcount
        return gone


def _set_back_to(amendments: Sequence[Page]) -> list[Offset]:
    """Return the places that the flow was set back to: none lies inside a part, so that what is left of it is exact."""
    entries = [page.entry for page in amendments if page.entry is not None]
    return [
        entry.offset
        for entry in entries
        if entry.previous is not None and entry.offset.compare(entry.previous) not in _FORWARD
    ]


def _inside(places: Sequence[Offset], first: HistoryEntry, last: HistoryEntry) -> bool:
    return first.previous is not None and any(
        place.compare(first.previous) not in (Ordering.BEFORE, Ordering.EQUAL)
        and place.compare(last.offset) not in _FORWARD
        for place in places
    )
