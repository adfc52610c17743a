"""Audit a run: do its reports add up with the committed history, and what does its quality say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from databus.core.errors.batch import QualityGateError, ReconciliationError
from databus.core.flow import Flow
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import OffsetRange, Ordering
from databus.core.settings import Settings
from databus.ops.runs.expectations import judge_of
from databus.ops.runs.history import AuditedRun, HistoryComparison, compare
from databus.records.batch_record import BatchRecord
from databus.records.ledger.entry_reports import tell_lost
from databus.records.quality.data_docs import DataDocs
from databus.records.quality.result import QualityResult, evaluate_run
from databus.records.reports import Reports
from databus.records.run_ranges import run_number
from databus.records.store import RecordStore
from databus.records.summary import RunSummary, summarize
from databus.runtime.context import Services


@dataclass(frozen=True)
class AuditResult:
    """Audit result of a run.

    Attributes:
        summary: the run's sums.
        quality: the run's Great Expectations result.
        compared: what comparing its reports with the history found.
        gaps: gaps that begin where it ended or end where it began, as they are decided now.
    """

    summary: RunSummary
    quality: QualityResult
    compared: HistoryComparison
    gaps: tuple[Gap, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each disagreement between reports and history; empty when all adds up."""
        unbalanced = (
            f"the reports of {table} do not add up: {counts}"
            for table, counts in self.summary.tables.items()
            if not counts.reconciled
        )
        return (*self.compared.problems, *unbalanced)

    def lines(self) -> list[str]:
        """Return what an operator reads in the task's log."""
        moved = f"{self.summary.start} → {self.summary.end}" if self.summary.start else "nothing"
        lines = [
            f"run {self.summary.run_id}: {len(self.summary.batches)} batches, {moved}",
            f"{self.summary.total}: {'adds up' if self.summary.reconciled else 'DOES NOT ADD UP'}",
            (
                f"history: {self.compared.batches} of {len(self.summary.batches)} batches compared, in"
                f" {self.compared.entries} entries: {'DISAGREES' if self.compared.problems else 'agrees'}"
            ),
        ]
        lines += [
            f"sink {sink.sink}: {sink.written} records written, {sink.counts.dispatched} rows dispatched, "
            + (f"{sink.counts.statements} statements, " if sink.counts.statements else "")
            + f"{sink.rejected} rejected{': NOT WELL' if sink.rejected else ''}"
            for sink in self.summary.sinks
        ]
        lines += [f"a gap was passed over: {why}: NOT WELL" for why in self.summary.gaps_passed]
        lines += [f"beside it lies gap {gap.number}: {gap}" for gap in self.gaps]
        lines += [
            f"check {m.check} ({m.severity}) on {m.table}: {m.violations} of {m.evaluated} violate"
            for m in self.quality.metrics
        ]
        lines += [judged.line() for judged in self.quality.judged]
        lines.append(f"quality: {'passed' if self.quality.success else f'violated, worst {self.quality.worst}'}")
        if self.quality.data_docs:
            lines.append(f"Data Docs: {self.quality.data_docs}")
        return lines + [f"PROBLEM {problem}" for problem in self.problems]

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON."""
        return {
            "batches": len(self.summary.batches),
            "compared": self.compared.batches,
            "rows": self.summary.total.figures,
            "state": self.summary.state,
            "sinks": {s.sink: s.counts.to_json() for s in self.summary.sinks},
            "gaps_passed": list(self.summary.gaps_passed),
            **({"gaps_beside": [f"{gap.number}: {gap}" for gap in self.gaps]} if self.gaps else {}),
            "quality": self.quality.success,
            "problems": list(self.problems),
            "data_docs": self.quality.data_docs,
        }

    def require_passed(self) -> None:
        """Fail the audit when figures disagree or a check of severity `fail` was violated.

        Raises:
            ReconciliationError: reports and history disagree.
            QualityGateError: a `fail` check was violated in a committed batch.
        """
        if self.problems:
            raise ReconciliationError(f"flow {self.summary.flow}: {'; '.join(self.problems)}")
        if self.quality.worst == "fail":
            raise QualityGateError(
                f"flow {self.summary.flow}: run {self.summary.run_id} violates a check that must hold"
            )


def audit_run(
    flow: Flow, services: Services, run_id: str, started: datetime | None = None, run_url: str = ""
) -> AuditResult:
    """Compare a run's batch reports with the history, all of them, and evaluate its quality; changes no checkpoint.

    Args:
        flow: the flow.
        services: where to connect.
        run_id: the run.
        started: when it began; None where that is not known: a batch that it committed before the first of its reports
            is then not looked for.
        run_url: address of the run's page; stored with the run, which may have moved nothing.
    """
    now = services.clock.now()
    with RecordStore(services.settings.records_url) as records:
        with records.transaction() as connection:
            run_number(records, connection, flow.name, run_id, run_url)
        reports = [_with_gap(report, services, records) for report in Reports(records).batches(flow.name, run_id)]
        summary = summarize(flow.name, run_id, reports)
        compared = compare(flow, services, records, AuditedRun(run_id, started or now, reports))
        docs = data_docs(services.settings)
        quality = evaluate_run(records, flow.name, run_id, now, judge_of(flow, services), docs)
    return AuditResult(summary, quality, compared, _beside(summary, services.store.gaps(flow.name)))


def _beside(summary: RunSummary, gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Return the gaps next to what a run moved: it stopped before them, or went on behind them."""
    start, end = summary.start, summary.end
    if start is None or end is None:
        return ()
    same = Ordering.EQUAL
    return tuple(gap for gap in gaps if gap.start.compare(end) is same or gap.end.compare(start) is same)


def _with_gap(report: BatchRecord, services: Services, records: RecordStore) -> BatchRecord:
    """Return a report; one that was filled in, since a run was killed, with the gap that its batch passed over."""
    if not report.refilled or report.lost:
        return report
    moved = OffsetRange(report.start, report.end)
    why = "; ".join(gap.why for gap in services.store.gaps(report.flow) if gap.within(moved))
    if not why:
        return report
    told = replace(report, lost=why)
    with records.transaction() as connection:
        tell_lost(connection, told)
    return told


def data_docs(settings: Settings) -> DataDocs | None:
    """Return where Data Docs are built, None where they are turned off."""
    return DataDocs(Path(settings.data_docs), settings.data_docs_url) if settings.data_docs else None
