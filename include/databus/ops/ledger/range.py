"""The part of a flow's ledger that bears on a range of its log: found by search, without reading all pages.

Between two set-backs (rewind, restore, adopt) a history only goes forward: what touches a range stands in one stretch
of numbers, whose ends are found by bisection. Amendments have an index, and are read all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from databus.core.errors.source import OffsetInvalidError, SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import overlap
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.checkpoint_store import History
from databus.core.state.ledger import LedgerSpan
from databus.core.state.ledger_chain import build
from databus.ops.ledger.show import read_ledger
from databus.records.ledger.page_rows import Page
from databus.records.ledger.pages import LedgerPages
from databus.records.store import RecordStore
from databus.runtime.context import Services

_ROUNDS = 10
_FORWARD = {Ordering.EQUAL, Ordering.AFTER}


class _UnorderedError(Exception):
    """A page cannot be read, or places of the history cannot be ordered: a search would pass over something."""


@dataclass(frozen=True)
class _PageRun:
    """Pages between which the flow only went forward.

    Attributes:
        first: number of the first.
        last: number of the last.
        start: where the first begins.
        end: where the last ends.
    """

    first: int
    last: int
    start: Offset
    end: Offset


def spans_over(flow: Flow, services: Services, wanted: OffsetRange) -> tuple[LedgerSpan, ...]:
    """Return the spans of a flow's ledger; what has nothing in common with a range may be left out, or be UNKNOWN.

    Read are the pages of that range, those of amendments, and some twenty more for each set-back; all of them only
    where places cannot be ordered, or pages and history do not agree.

    Raises:
        CheckpointConflictError: the flow commits faster than its history can be read.
        CheckpointError, RecordingError: ZooKeeper or the records store does not answer.
    """
    entries = None
    with RecordStore(services.settings.records_url) as records:
        pages = LedgerPages(records)
        newest = pages.newest(flow.name)
        tail = _tail(services.store, flow.name, newest)
        if tail is not None:
            try:
                paged = _Search(pages, flow.name, newest, wanted).found() if newest is not None else {}
                entries = paged | {entry.number: entry for entry in tail}
            except (_UnorderedError, OffsetInvalidError, SourceDivergedError):
                entries = None
    if entries is None:
        return read_ledger(flow, services).ledger.spans
    ordered = [entries[number] for number in sorted(entries)]
    return build(flow.name, ordered, services.store.gaps(flow.name)).spans


def _tail(store: History, flow: str, newest: Page | None) -> list[HistoryEntry] | None:
    """Return what ZooKeeper has from the newest page on, ascending; None where that page is not of this history."""
    for _ in range(_ROUNDS):
        head = store.history(flow, 1)
        if not head:
            return [] if newest is None else None
        if newest is None:
            return list(reversed(store.history(flow, head[0].number)))
        if head[0].number < newest.number:
            return None
        found = list(reversed(store.history(flow, head[0].number - newest.number + 1)))
        if found[0].number == newest.number:
            return found if found[0] == newest.entry else None
    return None


class _Search:
    def __init__(self, pages: LedgerPages, flow: str, newest: Page, wanted: OffsetRange) -> None:
        self._pages, self._flow, self._newest, self._wanted = pages, flow, newest, wanted
        self._known: dict[int, HistoryEntry] = {}

    def found(self) -> dict[int, HistoryEntry]:
        """Return the pages that bear on the range, with each set-back and the one before it, by number."""
        entries: dict[int, HistoryEntry] = {}
        for run in self._runs(entries):
            if not self._touches(run.start, run.end):
                continue
            first = self._least(run.first, run.last, partial(self._touches, run.start))
            last = self._least(first, run.last, partial(self._leaves, run.end))
            stretch = self._pages.within(self._flow, self._newest.generation, first, last)
            entries |= {page.number: page.entry for page in stretch if page.entry is not None}
        return entries

    def _runs(self, entries: dict[int, HistoryEntry]) -> list[_PageRun]:
        """Cut the pages where the flow was set back, and take the pages of amendments in."""
        oldest, runs = self._at(1), list[_PageRun]()
        first, place = oldest.number, oldest.previous or oldest.offset
        for page in self._pages.amendments(self._flow, self._newest.generation):
            entry = _read(page)
            entries[entry.number] = self._known[entry.number] = entry
            if entry.number == first and not runs:
                place = entry.offset
                continue
            before = self._at(entry.number - 1)
            if before.number >= entry.number:
                raise _UnorderedError  # the page before it is missing
            entries[before.number] = before
            if not _goes_on(before, entry):
                runs.append(_PageRun(first, before.number, place, before.offset))
                first, place = entry.number, entry.offset
        newest = _read(self._newest)
        return [*runs, _PageRun(first, newest.number, place, newest.offset)]

    def _least(self, first: int, last: int, holds: Callable[[Offset], bool]) -> int:
        """Return the number of the first page of a run of which something holds; it holds of the last."""
        while first < last:
            middle = (first + last) // 2
            entry = self._at(middle)
            if holds(entry.offset):
                last = middle
            else:
                first = entry.number + 1
        return self._at(first).number

    def _at(self, number: int) -> HistoryEntry:
        if number not in self._known:
            page = self._pages.from_on(self._flow, self._newest.generation, number)
            if page is None:
                raise _UnorderedError
            self._known[number] = _read(page)
        return self._known[number]

    def _touches(self, start: Offset, end: Offset) -> bool:
        return overlap(self._wanted, OffsetRange(start, end))

    def _leaves(self, end: Offset, start: Offset) -> bool:
        return not self._touches(start, end)


def _goes_on(before: HistoryEntry, entry: HistoryEntry) -> bool:
    here = entry.previous
    return here is not None and here.compare(before.offset) is Ordering.EQUAL and entry.offset.compare(here) in _FORWARD


def _read(page: Page) -> HistoryEntry:
    if page.entry is None:
        raise _UnorderedError
    return page.entry
