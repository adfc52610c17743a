"""Flow view for its page: graph with rates, chart, marks, batches, settings and schemas, from the records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from databus.core.batches.receipts import CHECK
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.positions.offsets import offset_from_json
from databus.core.settings import Settings
from databus.core.state.snapshot_progress import SnapshotProgress
from databus.core.tables.column_lineage import TableLineage
from databus.records.definitions import Definition, dag_of, newest_definitions
from databus.records.flow_figures import LATELY, WINDOWS, BatchLine, FlowPageFigures, Window, flow_figures
from databus.records.store import RecordStore
from databus.registry import flow_from_json

MOST_BATCHES = 30
"""Newest batches listed."""

_MOST_NAMED = 20
"""Tables or topics of a source that the graph names; the settings have all."""

STAGES = ("plan", "read", "transform", "check", "dispatch", "commit", "record")


def flow_view(
    dag_id: str, window: str, settings: Settings | None = None, *, details: bool = False
) -> dict[str, Any] | None:
    """Return plain JSON of the flow that a DAG runs; None where nothing is recorded of one.

    Args:
        dag_id: the DAG. Its flow is the one that was recorded with it; of batches from before DAGs were recorded, the
            flow of its name, unless the newest of them was run by another DAG.
        window: of the chart: "1h", "24h" or "7d".
        settings: the installation's; from the environment by default.
        details: whether the flow's settings and schemas are told too, which may be long.

    Raises:
        KeyError: no such window.
        RecordingError: the records cannot be read.
    """
    now, shown = datetime.now(UTC), WINDOWS[window]
    with RecordStore((settings or Settings.from_environment()).records_url) as store:
        known = max(newest_definitions(store, dag_id), key=lambda found: found.since, default=None)
        figures = flow_figures(store, known.flow if known else dag_id, shown, now, MOST_BATCHES, tables=details)
    if not figures.batches:
        return None
    last = figures.batches[0].row
    if known is None and (figures.definitions or dag_of(last.run_url) not in {"", dag_id}):
        return None  # a flow of that name, which another DAG runs
    rate = figures.lately["read"] / LATELY.total_seconds()
    late = last.watermark and max(0.0, (last.committed_at - last.watermark).total_seconds())
    return {
        "as_of": now.isoformat(),
        "flow": known.flow if known else dag_id,
        "dag_id": dag_id,
        "window": window,
        "mode": last.mode,
        "epoch": last.epoch,
        "watermark": last.watermark and last.watermark.isoformat(),
        "delay_seconds": late,
        "rows_per_second": rate,
        "place": str(offset_from_json(last.range_end)),
        "last_batch": _batch(figures.batches[0]),
        "age_seconds": max(0.0, (now - last.committed_at).total_seconds()),
        "held_rows": figures.held.get(CHECK, 0),
        "refused_rows": {stage: rows for stage, rows in sorted(figures.held.items()) if rows and stage != CHECK},
        "gaps_passed": sum(mark.kind == "gap" and mark.at >= now - LATELY for mark in figures.marks),
        "snapshot": _snapshot(figures.batches),
        "graph": _graph(known, figures),
        "chart": _chart(figures, shown, now),
        "marks": [{"kind": m.kind, "at": m.at.isoformat(), "text": m.text} for m in figures.marks],
        "batches": [_batch(batch) for batch in figures.batches],
        "definition": known and {"since": known.since.isoformat(), "batch": known.batch},
        "settings": dict(known.definition) if known and details else None,
        "tables": sorted(map(_table, figures.tables), key=lambda found: (found["table"], found["sink"])),
    }


def _batch(line: BatchLine) -> dict[str, Any]:
    row, counts = line.row, line.counts
    kept = sum(counts[name] for name in ("filtered", "quarantined", "dispatched", "superseded"))
    known = [stage for stage in STAGES if stage in row.durations_ms]
    return {
        "batch": row.batch,
        "first_batch": row.first_batch,
        "mode": row.mode,
        "attempt": row.attempt,
        "run_id": row.run_id,
        "dag_id": dag_of(row.run_url),
        "from": str(offset_from_json(row.range_start)),
        "to": str(offset_from_json(row.range_end)),
        "bytes": row.bytes,
        **counts,
        "adds_up": counts["read"] == kept,
        "lost": row.lost or "",
        "durations_ms": {stage: row.durations_ms[stage] for stage in [*known, *sorted({*row.durations_ms} - {*known})]},
        "committed_at": row.committed_at.isoformat(),
        "refilled": row.refilled,
        "code_version": row.code_version,
    }


def _snapshot(batches: Sequence[BatchLine]) -> dict[str, Any] | None:
    newest = next((batch.row for batch in batches if batch.row.snapshot_progress), None)
    return SnapshotProgress.from_json(newest.snapshot_progress).to_json() if newest is not None else None


def _chart(figures: FlowPageFigures, window: Window, now: datetime) -> dict[str, Any]:
    """Return rows/s of buckets, 0 where no batch was committed, and the longest delay, null where none was."""
    width_s = window.width.total_seconds()
    found = [figures.buckets.get(number, (0, 0, None)) for number in range(window.count)]
    # The last bucket goes on: its rows are of the time that has passed of it.
    seconds = [width_s] * (window.count - 1)
    seconds.append(max(1.0, (now - figures.start).total_seconds() - width_s * (window.count - 1)))
    return {
        "from": figures.start.isoformat(),
        "width_seconds": width_s,
        "rows_per_second": [round(rows / passed, 3) for (_, rows, _), passed in zip(found, seconds, strict=True)],
        "delay_seconds": [None if delay is None else round(delay, 3) for _, _, delay in found],
    }


def _graph(known: Definition | None, figures: FlowPageFigures) -> dict[str, Any]:
    """Return the steps of a flow; where its definition is not known or not readable, those that its figures name."""
    flow = readable(known)
    seconds = LATELY.total_seconds()
    names = [sink.sink_name for sink in flow.sinks] if flow else sorted(figures.sinks)
    specs = {sink.sink_name: sink for sink in flow.sinks} if flow else {}
    conns = {name: next((conn for conn, _ in spec.conn_ids()), "") for name, spec in specs.items()}
    judged = {check.check_name: check for check in flow.checks} if flow else {}
    checks = [*judged, *sorted(figures.checks.keys() - judged.keys())]
    return {
        "source": {
            "kind": flow.source.kind if flow else "",
            "conn_id": next((conn for conn, _ in flow.source.conn_ids()), "") if flow else "",
            "datasets": _few(flow.source.datasets()) if flow else [],
        },
        "transforms": [{"kind": step.kind, "label": step.label()} for step in flow.transforms] if flow else [],
        "checks": [
            {
                "name": name,
                "severity": judged[name].severity if name in judged else "",
                "evaluated": figures.checks[name].evaluated if name in figures.checks else 0,
                "violations": figures.checks[name].violations if name in figures.checks else 0,
            }
            for name in checks
        ],
        "counts": dict(figures.lately),
        "seconds": seconds,
        "sinks": [
            {
                "name": name,
                "kind": specs[name].kind if name in specs else "",
                "conn_id": conns.get(name, ""),
                "datasets": list(specs[name].datasets()) if name in specs else [],
                "rows_per_second": figures.sinks[name].written / seconds if name in figures.sinks else 0.0,
                "rejected": figures.sinks[name].rejected if name in figures.sinks else 0,
                "held": figures.held.get(name, 0),
                "last_batch": figures.sinks[name].batch if name in figures.sinks else None,
            }
            for name in names
        ],
    }


def _few(names: Sequence[str]) -> list[str]:
    more = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], *([f"and {more:,} more"] if more > 0 else [])]


def readable(known: Definition | None) -> Flow | None:
    """Return the flow of a definition; None where this version cannot read it, or a package of its kinds is missing."""
    try:
        return flow_from_json(known.definition) if known else None
    except (DatabusError, ImportError):
        return None


def _table(stored: Mapping[str, Any]) -> dict[str, Any]:
    lineage = TableLineage.from_json(stored)
    return {
        "table": lineage.table,
        "sink": lineage.sink,
        "output": lineage.output,
        "fields": [
            {"field": f.field, "column": f.column, "steps": [step.label for step in f.steps]} for f in lineage.fields
        ],
        "unknown": lineage.unknown,
    }
