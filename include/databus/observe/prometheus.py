"""Figures of flows in Prometheus' text format (Prometheus, "Exposition formats", version 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime

from databus.core.alerts.flow_status import FlowFigures
from databus.observe.batch_points import Point, point
from databus.observe.metric_names import WATCH_METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def of_flow(f: FlowFigures) -> Iterator[Point]:
    """Yield what is known of a flow; what could not be measured is left out, so that it goes stale."""
    room, recent, snapshot = f.headroom, f.recent, f.snapshot
    values = {
        "lag_seconds": f.lag_seconds,
        "lag_bytes": f.lag_bytes,
        "lag_rows": f.lag_rows,
        "headroom_seconds": room.seconds if room else None,
        "headroom_low": room.low if room else None,
        "headroom_bytes": room.bytes if room else None,
        "checkpoint_age_seconds": _age(f.at, f.committed_at),
        "last_run_age_seconds": _age(f.at, f.last_run_at),
        "window_seconds": (f.window_seconds or 0.0) if f.epoch is not None else None,
        "batch": f.batch,
        "gaps": None if f.gaps is None else len(f.gaps),
        "quarantine_rows": f.quarantine_rows,
        "quarantine_new_rows": f.quarantine_new,
        "quality_violations": f.quality_violations,
        "quality_failed": None if f.quality_passed is None else not f.quality_passed,
        "sinks_behind": None if f.behind is None else len(f.behind),
        "paused": bool(f.paused) if f.epoch is not None else None,
        "lease_claims_total": f.epoch,
        "recent_rows_per_second": recent.rows / recent.seconds if recent and recent.seconds else None,
        "recent_bytes_per_second": recent.bytes / recent.seconds if recent and recent.seconds else None,
        "handover_seconds": recent.handover_seconds if recent else None,
        "snapshot_rows": snapshot.rows if snapshot else None,
        "snapshot_rows_left": snapshot.rows_left if snapshot else None,
        "snapshot_tables_left": snapshot.tables_left if snapshot else None,
        "snapshot_rows_per_second": snapshot.rows_per_second if snapshot and not snapshot.ended else None,
        "snapshot_seconds_left": snapshot.seconds_left if snapshot else None,
    }
    for name, value in values.items():
        if value is not None:
            yield point(name, float(value), flow=f.flow)
    if recent is not None:
        for quantile, seconds in recent.delay_seconds.items():
            yield point("delay_seconds", seconds, flow=f.flow, quantile=quantile)
        for stage, seconds in recent.stage_seconds.items():
            yield point("stage_seconds", seconds, flow=f.flow, stage=stage)
    for sink, rows in (f.rejected or {}).items():
        yield point("rejected_rows", rows.held, flow=f.flow, sink=sink)
        yield point("rejected_new_rows", rows.new, flow=f.flow, sink=sink)
    for lag in f.partitions:
        place = {"flow": f.flow, "topic": lag.topic, "partition": str(lag.partition)}
        yield point("partition_lag_records", lag.records, **place)
        if lag.seconds is not None:
            yield point("partition_lag_seconds", lag.seconds, **place)
        yield point("partition_held_back_records", lag.held_back, **place)
    if snapshot is not None:
        yield point("snapshot_state", 1, flow=f.flow, state=snapshot.state)
    for what in f.unreachable:
        yield point("unreachable", 1, flow=f.flow, what=what)


def render(points: Iterable[Point]) -> str:
    """Return the text of an answer: each metric's help, type and samples."""
    by_name: dict[str, list[Point]] = {}
    for one in points:
        by_name.setdefault(one.metric.name, []).append(one)
    lines: list[str] = []
    for metric in WATCH_METRICS:
        found = by_name.get(metric.name)
        if found:
            lines += [f"# HELP {metric.prometheus} {metric.text}", f"# TYPE {metric.prometheus} {metric.kind}"]
            lines += [f"{metric.prometheus}{_labels(one)} {_number(one.value)}" for one in found]
    return "\n".join([*lines, ""])


def _labels(one: Point) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(one.labels.items()))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) else repr(value)


def _age(at: datetime, when: datetime | None) -> float | None:
    return max(0.0, (at - when).total_seconds()) if when else None
