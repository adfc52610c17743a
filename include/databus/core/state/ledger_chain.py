"""Chain of a history: entries followed one after the other into the spans of a ledger, and where it does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from databus.core.batches.counts import LEFT_OUT, TableCounts
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import BinlogOffset, Offset, Ordering
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.ledger import Discrepancy, Ledger, LedgerSpan, SpanState
from databus.core.state.sink_shares import SinkShares

_FIRST = ("start", "adopt")
"""Actions that can begin a history; "adopt" does so where ZooKeeper had lost the flow."""


def build(
    flow: str,
    entries: Sequence[HistoryEntry],
    gaps: Sequence[Gap] = (),
    alone: Sequence[HistoryEntry] = (),
    copies: int = 1,
) -> Ledger:
    """Follow a chain of history entries, and say where it does not hold.

    Args:
        flow: flow name.
        entries: history in ascending order of their numbers; those before the first may be missing.
        gaps: the flow's named gaps; each move forward without reading must be one of them.
        alone: own histories of sinks that are behind, or were.
        copies: the most copies of a row that the flow makes; sinks confirm each, and a row counts once.
    """
    chain = _SpanChain(flow, gaps, SinkShares(alone), none_behind=not alone, copies=copies)
    for entry in entries:
        chain.add(entry)
    return chain.ledger()


class _SpanChain:
    """The state while following: spans so far, and the last entry."""

    def __init__(self, flow: str, gaps: Sequence[Gap], shares: SinkShares, *, none_behind: bool, copies: int) -> None:
        self._flow = flow
        self._copies = copies
        self._none_behind = none_behind
        self._sinks: set[str] = set()
        self._shares = shares
        self._gaps = gaps
        self._spans: list[LedgerSpan] = []
        self._problems: list[Discrepancy] = []
        self._start: Offset | None = None
        self._last: HistoryEntry | None = None
        self._replayed = 0
        self._batch = 0

    def ledger(self) -> Ledger:
        end = self._last.offset if self._last else None
        pending = end.prepared if isinstance(end, BinlogOffset) else ()
        spans, problems = tuple(self._spans), tuple(self._problems)
        return Ledger(self._flow, self._start, end, spans, pending, problems, self._replayed, self._shares.totals())

    def add(self, entry: HistoryEntry) -> None:
        if entry.action == "adopt":
            entry = self._remembered(entry)
        self._follow(entry)
        if entry.action in _FIRST and entry.previous is None:
            self._spans, self._start = [], entry.offset
            self._shares.begin()
        elif entry.action == "commit":
            self._commit(entry)
        else:
            self._amend(entry)
        self._last = entry
        self._batch = max(self._batch, entry.batch)

    def _remembered(self, entry: HistoryEntry) -> HistoryEntry:
        """Let an adoption go on from what pages know: ZooKeeper came back from a copy that was older than they are."""
        last, before = self._last, entry.previous
        if last is None or before is None or last.offset.compare(before) is not Ordering.AFTER:
            return entry
        beyond = last.offset.compare(entry.offset) in (Ordering.AFTER, Ordering.DIVERGED)
        return entry if beyond else replace(entry, previous=last.offset)

    def _follow(self, entry: HistoryEntry) -> None:
        """Compare an entry with the one before it."""
        last = self._last
        if entry.previous is None and entry.action not in _FIRST:
            self._wrong(entry, "has no offset before it, and is not the start")
        if last is None:
            self._start = entry.previous or entry.offset
            return
        if entry.first <= last.number:
            self._wrong(entry, f"comes after entry {last.number}")
        elif entry.first != last.number + 1:
            self._wrong(entry, f"follows {last.number}: entries {last.number + 1}–{entry.first - 1} are missing")
        if entry.epoch < last.epoch and entry.action != "adopt":  # a restored ZooKeeper counts again from the copy's
            self._wrong(entry, f"is of epoch {entry.epoch}, the one before it of {last.epoch}")
        if entry.action == "start":
            if entry.number != 1:
                self._wrong(entry, f"starts the flow anew at {entry.offset}; it stood at {last.offset}")
            return
        order = entry.previous.compare(last.offset) if entry.previous else Ordering.EQUAL
        if entry.previous is None or order is Ordering.EQUAL:
            return
        self._wrong(entry, f"goes on from {entry.previous}, the one before it ended at {last.offset}")
        if order is Ordering.BEFORE:
            self._rewind(entry.previous)
        else:
            self._spans.append(LedgerSpan(last.offset, entry.previous, SpanState.UNKNOWN, None, 0))

    def _commit(self, entry: HistoryEntry) -> None:
        before = entry.previous
        if before is None:
            return
        if entry.batch <= self._batch and self._last is not None:
            self._wrong(entry, f"commits batch {entry.batch} after batch {self._batch}")
        if entry.offset.compare(before) not in (Ordering.EQUAL, Ordering.AFTER):
            self._wrong(entry, f"commits ({before}, {entry.offset}], which goes back")
        for table, counts in sorted(entry.counts.items()):
            if not counts.reconciled:
                self._wrong(entry, f"table {table}: {counts}")
        self._compare_receipts(entry)
        self._shares.commit(entry)
        state, first = _state(entry.counts), entry.merged.batch if entry.merged else 0
        self._spans.append(
            LedgerSpan(
                before, entry.offset, state, entry.number, entry.batch, entry.bytes, dict(entry.counts),
                first_batch=first,
            )
        )  # fmt: skip

    def _compare_receipts(self, entry: HistoryEntry) -> None:
        """Compare what each sink confirmed with what the batch counts as dispatched or refused."""
        confirmed: dict[str, int] = {}
        refused: dict[str, int] = {}
        left_out: dict[str, int] = {}
        for receipt in entry.receipts:
            sink = str(receipt.get("sink"))
            confirmed[sink] = confirmed.get(sink, 0) + sum(dict(receipt.get("rows", {})).values())
            refused[sink] = refused.get(sink, 0) + int(receipt.get("rejected", 0))
            whole = dict(receipt.get("outputs") or {}).get("", {})
            left_out[sink] = left_out.get(sink, 0) + int(whole.get(LEFT_OUT, 0))
            if receipt.get("batch") != entry.batch:
                self._wrong(entry, f"holds a receipt of sink {sink} for batch {receipt.get('batch')}")
        total = TableCounts()
        for counts in entry.counts.values():
            total = total.plus(counts)
        for sink, rows in sorted(confirmed.items()):
            if rows > self._copies * (total.dispatched + total.quarantined):
                self._wrong(entry, f"sink {sink} confirms {rows} rows, the counts hold {total.dispatched} dispatched")
        self._sinks |= confirmed.keys()
        # Where there are several sinks, what one that is behind takes counts as dispatched too.
        if self._none_behind and len(confirmed) == 1 and self._sinks == confirmed.keys():
            ((sink, rows),) = confirmed.items()
            due = total.dispatched - left_out[sink]
            if rows < due or (self._copies == 1 and rows > due):
                own = f", of which its own transforms leave {left_out[sink]} out" if left_out[sink] else ""
                counted = f"the counts hold {total.dispatched} dispatched{own}"
                self._wrong(entry, f"sink {sink} confirms {rows} rows, {counted}")
        if not confirmed and total.dispatched:
            self._wrong(entry, f"counts {total.dispatched} rows as dispatched, and no sink confirms any")

    def _amend(self, entry: HistoryEntry) -> None:
        """Follow a move of the checkpoint by a person, or by a repair."""
        before = entry.previous
        if before is None:
            return
        order = entry.offset.compare(before)
        if order is Ordering.AFTER and entry.action == "adopt":
            self._wrong(
                entry,
                f"adopts ({before}, {entry.offset}] from the sinks' markers: they hold its rows, but the entries that "
                "counted them were lost with a former state of ZooKeeper",
            )
            unknown = LedgerSpan(before, entry.offset, SpanState.UNKNOWN, entry.number, entry.batch, cause=entry.action)
            self._spans.append(unknown)
        elif order is Ordering.AFTER:
            gap = _named(self._gaps, before, entry.offset)
            if gap is None:
                self._wrong(entry, f"moves from {before} on to {entry.offset}, and no named gap covers that")
            cause = gap.cause if gap else entry.action
            self._spans.append(LedgerSpan(before, entry.offset, SpanState.GAP, entry.number, entry.batch, cause=cause))
        elif order is Ordering.BEFORE:
            self._rewind(entry.offset)
        elif order is Ordering.DIVERGED:
            self._wrong(entry, f"moves from {before} to {entry.offset}, which is another log")

    def _rewind(self, to: Offset) -> None:
        """Take back the coverage behind a place; what was dispatched there is going to be read again."""
        self._shares.rewind(to, self._batch)
        while self._spans and self._spans[-1].end.compare(to) is Ordering.AFTER:
            span = self._spans.pop()
            self._replayed += sum(counts.dispatched for counts in span.tables.values())
            if span.start.compare(to) is Ordering.BEFORE:
                # Which of the batch's rows lie before the place is not known: all of them count where they stay.
                self._spans.append(replace(span, end=to, bytes=None, partial=True))
                return
        if not self._spans and self._start is not None and to.compare(self._start) is Ordering.BEFORE:
            self._start = to

    def _wrong(self, entry: HistoryEntry, problem: str) -> None:
        self._problems.append(Discrepancy("history", f"entry {entry.number} ({entry.action}) {problem}"))


def _state(tables: Mapping[str, TableCounts]) -> SpanState:
    total = TableCounts.total(tables.values())
    if total.quarantined:
        return SpanState.PARTLY_QUARANTINED if total.dispatched else SpanState.QUARANTINED
    return SpanState.DISPATCHED if total.dispatched else SpanState.FILTERED


def _named(gaps: Sequence[Gap], start: Offset, end: Offset) -> Gap | None:
    """Return the named gap from exactly here to exactly there."""
    return next(
        (g for g in gaps if g.start.compare(start) is Ordering.EQUAL and g.end.compare(end) is Ordering.EQUAL), None
    )
