"""Flows view for its page: all flows that a person may see, from the records alone."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from databus.core.batches.receipts import CHECK
from databus.core.settings import Settings
from databus.records.definitions import dag_of
from databus.records.overview import LATELY, FlowOverview, overview
from databus.records.store import RecordStore


def flows_view(readable: Collection[str], settings: Settings | None = None) -> dict[str, Any]:
    """Return plain JSON of the flows whose DAG a person may see, by flow name.

    Args:
        readable: ids of these DAGs. A flow's DAG is the one of its newest run's page, or that of its own name.
        settings: the installation's; from the environment by default.

    Raises:
        RecordingError: the records cannot be read.
    """
    now = datetime.now(UTC)
    with RecordStore((settings or Settings.from_environment()).records_url) as store:
        found = overview(store, now)
    shown = [_flow(flow, now) for flow in found]
    return {"as_of": now.isoformat(), "flows": [flow for flow in shown if flow["dag_id"] in readable]}


def _flow(flow: FlowOverview, now: datetime) -> dict[str, Any]:
    late = flow.watermark and max(0.0, (flow.committed_at - flow.watermark).total_seconds())
    return {
        "flow": flow.flow,
        "dag_id": dag_of(flow.run_url) or flow.flow,
        "mode": flow.mode,
        "watermark": flow.watermark and flow.watermark.isoformat(),
        "delay_seconds": late,
        "rows_per_second": flow.recent_rows / LATELY.total_seconds(),
        "last_batch": {
            "number": flow.batch,
            "rows": flow.rows,
            "committed_at": flow.committed_at.isoformat(),
            "age_seconds": max(0.0, (now - flow.committed_at).total_seconds()),
            "seconds": flow.seconds,
            "run_id": flow.run_id,
            "gap_passed": flow.lost,
        },
        "held_rows": flow.held_rows,
        "refused_rows": {stage: rows for stage, rows in sorted(flow.held.items()) if rows and stage != CHECK},
        "gaps_passed": flow.gaps_passed,
        "snapshot": flow.snapshot and flow.snapshot.to_json(),
    }
