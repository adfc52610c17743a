"""Run view for its page: inputs, outputs, counts, quality and lineage, from the records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from databus.core.batches.report import CheckResult
from databus.core.expectations import BY_ROW, MISSING
from databus.core.flow import FLOW_NAME
from databus.core.settings import Settings
from databus.records.batch_record import BatchRecord
from databus.records.definitions import dag_of, newest_definitions
from databus.records.quality.data_docs import DataDocs
from databus.records.quality.findings import expectation_findings, worst
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.records.summary import RunSummary, SinkTotal, summarize

MOST_BATCHES = 500
"""Batches listed; sums are over all."""

STAGES = ("plan", "read", "transform", "check", "dispatch", "commit", "record")


def flow_of_run(dag_id: str, run_id: str, settings: Settings | None = None) -> str | None:
    """Return the name of the flow that a run of a DAG moved; None where it is another DAG's.

    Args:
        dag_id: the DAG. Its flow is the one that was recorded with it, whatever its name; else the flow of its name, or
            the backfill of its name, unless another DAG runs that.
        run_id: Airflow's run id.
        settings: the installation's; from the environment by default.

    Raises:
        RecordingError: the records cannot be read.
    """
    with RecordStore((settings or Settings.from_environment()).records_url) as store:
        known = max(newest_definitions(store, dag_id), key=lambda found: found.since, default=None)
        flow = known.flow if known else dag_id
        dags = {dag_of(url) for url in Reports(store).run_urls(flow, run_id)} - {""}
        if not dags and known is None and any(found.flow == flow for found in newest_definitions(store)):
            return None
    return flow if dags <= {dag_id} else None


def docs_page(flow: str, run_id: str, settings: Settings | None = None) -> Path | None:
    """Return the file of a run's Data Docs; None where none was built, or it is not kept any more.

    Args:
        flow: flow name; anything else has no page.
        run_id: Airflow's run id.
        settings: the installation's; from the environment by default.
    """
    folder = (settings or Settings.from_environment()).data_docs
    if not folder or not FLOW_NAME.fullmatch(flow):
        return None
    page = DataDocs(Path(folder)).page(flow, run_id)
    return page if page.is_file() else None


def run_view(flow: str, run_id: str, settings: Settings | None = None) -> dict[str, Any] | None:
    """Return plain JSON of a run; None when nothing is recorded of it.

    Args:
        flow: flow name, or of a backfill's run the name of its DAG: then its batches are those of its pieces, whose
            names they carry.
        run_id: Airflow's run id.
        settings: the installation's; from the environment by default.

    Raises:
        RecordingError: the records cannot be read.
    """
    with RecordStore((settings or Settings.from_environment()).records_url) as store:
        reports = Reports(store)
        batches = reports.batches(flow, run_id)
        quality = reports.quality(flow, run_id)
    if not batches and quality is None:
        return None
    summary = summarize(flow, run_id, batches)
    return {
        "flow": flow,
        "run_id": run_id,
        "from": str(summary.start) if summary.start else None,
        "to": str(summary.end) if summary.end else None,
        "watermark": summary.watermark.isoformat() if summary.watermark else None,
        "bytes": summary.bytes,
        "counts": {**summary.total.figures, "reconciled": summary.reconciled},
        "state": summary.state,
        "gaps_passed": list(summary.gaps_passed),
        "snapshot": summary.snapshot and summary.snapshot.to_json(),
        "sinks": [{"sink": s.sink, **s.counts.to_json()} for s in summary.sinks],
        "code": sorted({(b.code_version, b.spec_hash) for b in batches if b.code_version or b.spec_hash}),
        "inputs": [{"table": table, **counts.figures} for table, counts in summary.tables.items()],
        "outputs": [
            _output(sink, name, facts) for sink in summary.sinks for name, facts in sorted(sink.outputs.items())
        ],
        "expectations": expectation_findings(quality) if quality else _expected_so_far(summary),
        "checks": [_check(check) for check in summary.checks if check.kind not in (BY_ROW, MISSING)],
        "quality": quality and {"success": quality.get("success"), "worst": worst(quality), "result": quality},
        "data_docs": docs_page(flow, run_id, settings) is not None,
        "durations_ms": {stage: summary.durations_ms[stage] for stage in _stages(summary)},
        "batch_count": len(batches),
        "batches": [_batch(batch) for batch in batches[-MOST_BATCHES:]],
        "graph": _graph(summary),
    }


def _stages(summary: RunSummary) -> list[str]:
    known = [stage for stage in STAGES if stage in summary.durations_ms]
    return [*known, *sorted(set(summary.durations_ms) - set(known))]


def _output(sink: SinkTotal, name: str, facts: Any) -> dict[str, Any]:
    return {"sink": sink.sink, "output": name, **facts}


def _check(check: CheckResult) -> dict[str, Any]:
    return {
        "check": check.check,
        "table": check.table,
        "severity": check.severity,
        "evaluated": check.evaluated,
        "violations": check.violations,
        "observed": check.observed,
    }


def _expected_so_far(summary: RunSummary) -> list[dict[str, Any]]:
    """Return what a run that is not audited yet has counted of its expectations, in the form of findings."""
    return [
        {
            "name": check.check,
            "table": check.table,
            "action": check.severity,
            "met": None,
            "evaluated": check.evaluated,
            "violations": check.violations,
            "observed": None,
            "judged_by": "every row so far",
            "error": "",
        }
        for check in summary.checks
        if check.kind == BY_ROW
    ]


def _batch(batch: BatchRecord) -> dict[str, Any]:
    return {
        "flow": batch.flow,
        "batch": batch.batch,
        "mode": batch.mode,
        "attempt": batch.attempt,
        "from": str(batch.start),
        "to": str(batch.end),
        "rows": batch.rows,
        "duration_ms": sum(batch.durations_ms.values()),
        "committed_at": batch.committed_at.isoformat(),
        "refilled": batch.refilled,
    }


def _graph(summary: RunSummary) -> dict[str, Sequence[dict[str, Any]]]:
    """Return nodes in three columns (tables, flow, outputs) and the edges between them, with rows moved."""
    nodes: list[dict[str, Any]] = [{"id": "flow", "kind": "flow", "label": summary.flow, "column": 1}]
    edges: list[dict[str, Any]] = []
    for table, counts in summary.tables.items():
        if "." not in table:  # statements belong to no table
            continue
        nodes.append({"id": f"in:{table}", "kind": "table", "label": table, "column": 0})
        edges.append({"from": f"in:{table}", "to": "flow", "rows": counts.read})
    for sink in summary.sinks:
        totals: dict[str, int] = {}
        for output, facts in sink.outputs.items():
            name = output.rpartition("[")[0] or output
            written = sum(facts.get(fact, 0) for fact in ("records", "created", "updated", "deleted"))
            totals[name] = totals.get(name, 0) + written
        for name, written in sorted(totals.items()):
            if name:
                nodes.append({"id": f"{sink.sink}:{name}", "kind": sink.sink, "label": name, "column": 2})
                edges.append({"from": "flow", "to": f"{sink.sink}:{name}", "rows": written})
    if summary.total.quarantined:
        nodes.append({"id": "quarantine", "kind": "quarantine", "label": "quarantine", "column": 2})
        edges.append({"from": "flow", "to": "quarantine", "rows": summary.total.quarantined})
    return {"nodes": nodes, "edges": edges}
