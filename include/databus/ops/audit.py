"""Audit a run: do its reports add up with the committed history, and what does its quality say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databus.core.checkpoint import HistoryEntry
from databus.core.errors import QualityGateError, ReconciliationError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.ops.expectations import judge_of
from databus.records.data_docs import DataDocs
from databus.records.quality import QualityResult, evaluate_run
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.records.summary import RunSummary, summarize
from databus.runtime.context import Services

_HISTORY = 1000


@dataclass(frozen=True)
class AuditResult:
    """What the audit of a run found.

    Attributes:
        summary: the run's sums.
        quality: the run's Great Expectations result.
        problems: a line for each disagreement between reports and history; empty when all adds up.
    """

    summary: RunSummary
    quality: QualityResult
    problems: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return what an operator reads in the task's log."""
        total = self.summary.total
        moved = f"{self.summary.start} → {self.summary.end}" if self.summary.start else "nothing"
        lines = [
            f"run {self.summary.run_id}: {len(self.summary.batches)} batches, {moved}",
            (
                f"read {total.read} = filtered {total.filtered} + quarantined {total.quarantined}"
                f" + dispatched {total.dispatched}: {'adds up' if self.summary.reconciled else 'DOES NOT ADD UP'}"
            ),
        ]
        lines += [
            f"sink {sink.sink}: {sink.written} records written, {sink.rejected} rejected" for sink in self.summary.sinks
        ]
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
            "rows": self.summary.total.to_json(),
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


def audit_run(flow: Flow, services: Services, run_id: str) -> AuditResult:
    """Compare a run's batch reports with the history in ZooKeeper and evaluate its quality; changes no checkpoint."""
    history = _history(flow, services)
    with RecordStore(services.settings.records_url) as records:
        summary = summarize(flow.name, run_id, Reports(records).batches(flow.name, run_id))
        now, docs = services.clock.now(), data_docs(services.settings)
        quality = evaluate_run(records, flow.name, run_id, now, judge_of(flow, services), docs)
    return AuditResult(summary, quality, tuple(_disagreements(summary, history, run_id)))


def data_docs(settings: Settings) -> DataDocs | None:
    """Return where Data Docs are built, None where they are turned off."""
    return DataDocs(Path(settings.data_docs), settings.data_docs_url) if settings.data_docs else None


def _history(flow: Flow, services: Services) -> Sequence[HistoryEntry]:
    """Return the flow's history and that of sinks that were behind, a batch that both sides moved once."""
    history = services.store.history(flow.name, _HISTORY)
    moved = {entry.batch for entry in history}
    own = (services.store.of_sink(spec.sink_name).history(flow.name, _HISTORY) for spec in flow.sinks)
    return (*history, *(entry for entries in own for entry in entries if entry.batch not in moved))


def _disagreements(summary: RunSummary, history: Sequence[HistoryEntry], run_id: str) -> list[str]:
    """Return a line for each committed batch that has no report, and for each count that differs."""
    committed = [entry for entry in history if entry.action == "commit" and entry.who == run_id]
    problems = [
        f"batch {entry.batch} is committed and has no report"
        for entry in committed
        if entry.batch not in summary.batches
    ]
    numbers = {entry.batch for entry in committed}
    oldest = min((entry.number for entry in history), default=1)
    if oldest == 1:
        problems += [f"batch {n} has a report and is not in the history" for n in summary.batches if n not in numbers]
    if not problems:
        read = sum(count.read for entry in committed for count in entry.counts.values())
        if oldest == 1 and read != summary.total.read:
            problems.append(f"the history counts {read} rows, the reports {summary.total.read}")
    if not summary.reconciled:
        problems.append("read ≠ filtered + quarantined + dispatched")
    return problems
