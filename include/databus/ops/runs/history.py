"""Run history: what a run committed, from its flow's history and its reports: batch by batch, back to its first.

ZooKeeper keeps the newest entries of a flow; a run that commits eight times a second has more of them after two
minutes. What ZooKeeper has let go of stands in the ledger's pages, which are read a piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from databus.core.flow import Flow
from databus.core.state.checkpoint import HistoryEntry
from databus.ops.ledger.show import own_history
from databus.records.batch_record import BatchRecord
from databus.records.ledger.pages import LedgerPages
from databus.records.store import RecordStore
from databus.runtime.context import Services

_FIRST = 256
_TIMES = 4
"""ZooKeeper gives the newest entries only: asked for more, it gives those that are known once more."""

_PAGES = 500
_SKEW = timedelta(minutes=1)
"""Clocks of workers may be apart by so much."""

_TOLD = 20


@dataclass(frozen=True)
class HistoryComparison:
    """Comparison of a run's reports with the history.

    Attributes:
        batches: how many batches stand in both.
        entries: entries of the flow's history that were read for it.
        problems: a line for each disagreement, the first of them only where there are very many.
    """

    batches: int
    entries: int
    problems: tuple[str, ...]


@dataclass(frozen=True)
class AuditedRun:
    """A run, and what its reports hold.

    Attributes:
        run_id: the run.
        started: when it began.
        reports: its batch reports.
    """

    run_id: str
    started: datetime
    reports: Sequence[BatchRecord]

    def committed(self, entry: HistoryEntry) -> bool:
        """Return whether an entry is a commit of this run."""
        return entry.action == "commit" and entry.who == self.run_id


def compare(flow: Flow, services: Services, records: RecordStore, run: AuditedRun) -> HistoryComparison:
    """Compare a run's reports with the history, its own and that of sinks that were behind.

    Read is back to the first batch that a report records, and to the time at which the run began, for a batch may be
    committed and have no report; no more than a piece of the history is held at a time.

    Raises:
        CheckpointError, RecordingError: ZooKeeper or the records store does not answer.
    """
    found = _ReportMatching(run)
    alone, trimmed = _of_sinks(flow, services, run)
    first = min((*found.left, *alone), default=None)
    entries = 0
    for entry in entries_back(flow.name, services, records):
        entries += 1
        # A batch that both sides moved has one report, of the run that was first.
        own = alone.pop(entry.batch, None) if entry.action == "commit" else None
        if run.committed(entry):
            found.add(entry)
        elif own is not None and own.batch in found.left:
            found.add(own)
        elif entry.at < run.started - _SKEW and (first is None or entry.batch < first):
            break
    for own in alone.values():
        found.add(own)
    return found.told(entries, lambda report: _was_trimmed(report, trimmed))


def entries_back(flow: str, services: Services, records: RecordStore) -> Iterator[HistoryEntry]:
    """Yield a flow's history from its newest entry back: what ZooKeeper keeps, then pages of what it has let go of.

    Entries that are added meanwhile are not among them; those that are let go of meanwhile are, for they have pages.
    """
    last, oldest = _FIRST, 0
    while True:
        found = services.store.history(flow, last)
        for entry in found:
            if not oldest or entry.number < oldest:
                oldest = entry.number
                yield entry
        if len(found) < last:
            break
        last *= _TIMES
    pages = LedgerPages(records)
    while oldest > 1 and (more := pages.before(flow, oldest, _PAGES)):
        oldest = more[-1].number
        yield from (page.entry for page in more if page.entry is not None)


class _ReportMatching:
    """The state while a run's entries pass by."""

    def __init__(self, run: AuditedRun) -> None:
        self.left = {report.batch: report for report in run.reports}
        """Reports that no entry was found of yet."""
        self._batches = 0
        self._problems: list[str] = []

    def add(self, entry: HistoryEntry) -> None:
        """Compare a commit of the run with its report."""
        report = self.left.pop(entry.batch, None)
        if report is None:
            self._problems.append(f"batch {entry.batch} is committed and has no report")
            return
        self._batches += 1
        for table in sorted({*entry.counts, *report.tables}):
            theirs, ours = entry.counts.get(table), report.tables.get(table)
            if theirs != ours:
                self._problems.append(f"batch {entry.batch}, {table}: the history counts {theirs}, its report {ours}")

    def told(self, entries: int, excused: Callable[[BatchRecord], bool]) -> HistoryComparison:
        """Return what was found, once all entries have passed."""
        self._problems += [
            f"batch {number} has a report and is not in the history"
            for number, report in sorted(self.left.items())
            if not excused(report)
        ]
        shown, more = self._problems[:_TOLD], len(self._problems) - _TOLD
        return HistoryComparison(self._batches, entries, (*shown, *([f"and {more} more"] if more > 0 else [])))


def _of_sinks(flow: Flow, services: Services, run: AuditedRun) -> tuple[dict[int, HistoryEntry], dict[str, int]]:
    """Return the run's commits by sinks that were behind, and the first batch of each sink's history that was cut."""
    alone, trimmed = dict[int, HistoryEntry](), dict[str, int]()
    for spec in flow.sinks:
        own = own_history(flow, services, spec.sink_name)
        alone |= {entry.batch: entry for entry in own if run.committed(entry)}
        if own and own[0].number > 1:
            trimmed[spec.sink_name] = own[0].batch
    return alone, trimmed


def _was_trimmed(report: BatchRecord, trimmed: Mapping[str, int]) -> bool:
    """Return whether a report may be of a batch whose entry a sink's own history, which has no pages, let go of."""
    sinks = {str(receipt["sink"]) for receipt in report.receipts}
    return bool(sinks) and all(sink in trimmed and report.batch < trimmed[sink] for sink in sinks)
