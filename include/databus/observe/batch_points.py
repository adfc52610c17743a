"""The points that a committed batch and a finished window give to a metrics system."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from databus.core.batches.report import BatchReport
from databus.core.state.snapshot_progress import progress_of
from databus.observe.metric_names import BY_NAME, MetricName

STAGES = ("plan", "read", "transform", "check", "dispatch", "commit", "record")
"""The path's stages in order; every list of stages follows it."""


@dataclass(frozen=True)
class Point:
    """Metric point; timers in milliseconds."""

    metric: MetricName
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def point(name: str, value: float, **labels: str) -> Point:
    """Return a point of `databus.<name>`.

    Raises:
        KeyError: no such metric, or not these labels: the table of names is the truth.
    """
    metric = BY_NAME[f"databus.{name}"]
    if set(labels) != set(metric.labels):
        raise KeyError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
    return Point(metric, value, labels)


def of_batch(report: BatchReport) -> Iterator[Point]:
    """Yield what a committed batch says."""
    flow = report.plan.flow
    yield point("batches", 1, flow=flow)
    for state in ("read", "filtered", "quarantined", "dispatched"):
        yield point(f"rows.{state}", sum(getattr(c, state) for c in report.tables.values()), flow=flow)
    for found in ("superseded", "snapshot"):
        if rows := sum(getattr(c, found) for c in report.tables.values()):
            yield point(f"rows.{found}", rows, flow=flow)
    if report.plan.chunks is not None:
        progress = progress_of(report.plan.chunks.snapshot, report.committed_at)
        yield point("snapshot.rows", progress.rows, flow=flow)
        yield point("snapshot.rows_left", progress.rows_left, flow=flow)
        yield point("snapshot.tables_left", progress.tables_left, flow=flow)
    yield point("bytes.read", report.bytes, flow=flow)
    written: dict[str, int] = {}
    for receipt in report.receipts:
        written[receipt.sink] = written.get(receipt.sink, 0) + receipt.written
    for sink, records in written.items():
        yield point("outputs.records", records, flow=flow, sink=sink)
    for result in report.checks:
        if result.violations:
            yield point("check.violations", result.violations, flow=flow, check=result.check, severity=result.severity)
    yield point("batch.duration", sum(report.durations_ms.values()), flow=flow)
    for stage, spent_ms in report.durations_ms.items():
        yield point("batch.stage", spent_ms, flow=flow, stage=stage)
    if report.watermark is not None and report.rows:
        delay_ms = (report.committed_at - report.watermark).total_seconds() * 1000
        yield point("batch.delay", max(0.0, delay_ms), flow=flow)


def of_window(summary: Mapping[str, Any]) -> Iterator[Point]:
    """Yield what a finished window says, by `WindowResult.summary`."""
    flow = str(summary["flow"])
    for name, key in (
        ("lag_seconds", "lag_seconds"),
        ("lag_bytes", "lag_bytes"),
        ("headroom_seconds", "headroom_seconds"),
        ("batches", "batches"),
    ):
        if summary.get(key) is not None:
            yield point(f"window.{name}", float(summary[key]), flow=flow)


@dataclass
class StageTimes:
    """Wall time per stage, in milliseconds, on the monotonic clock."""

    durations_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block; repeated blocks of one stage add up."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - started) * 1000
            self.durations_ms[name] = round(self.durations_ms.get(name, 0.0) + spent, 3)
