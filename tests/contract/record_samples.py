"""Batch reports and quarantined rows for the tests of the records store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.batches.report import BatchReport, CheckResult
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.checkpoint import Epoch
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.snapshot import ChunkFile, PlannedChunks, Snapshot, TableProgress

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def check(violations: int = 0, name: str = "not_null(email)", **fields: Any) -> CheckResult:
    values = {"kind": "not_null", "column": "email", "table": "shop.orders", "severity": "quarantine", "evaluated": 10}
    return CheckResult(check=name, violations=violations, **{**values, **fields})


def report(batch: int = 1, run_id: str = "scheduled__2026-11-21T12:00:00+00:00", **fields: Any) -> BatchReport:
    """A batch of 12 rows: 1 filtered, 1 held back, 10 dispatched to a topic."""
    flow = fields.pop("flow", "orders_to_kafka")
    moved = OffsetRange(BinlogOffset("bin.000001", batch * 100), BinlogOffset("bin.000001", batch * 100 + 100))
    plan = Plan("test", flow, batch, moved, {"kafka": SinkPlan()}, "spec", fields.pop("clock", NOON))
    outputs = {"cdc.orders[0]": {"first_offset": batch * 20, "last_offset": batch * 20 + 9, "records": 10}}
    receipt = WriteReceipt("kafka", 0, batch, 10, {"shop.orders": 8, "shop.items": 2}, (), outputs)
    values: dict[str, Any] = {
        "tables": {"shop.orders": TableCounts(10, 1, 1, 8), "shop.items": TableCounts(2, 0, 0, 2)},
        "receipts": (receipt,),
        "checks": (check(1), check(0, "volume", kind="volume", column=None, table="*", severity="warn", evaluated=1)),
        "rejected": (held(),),
        "durations_ms": {"plan": 10.0, "read": 20.5},
        "watermark": NOON + timedelta(minutes=batch),
        "committed_at": NOON + timedelta(minutes=batch, seconds=1),
        **fields,
    }
    return BatchReport(plan=plan, epoch=Epoch(3), run_id=run_id, run_url="http://airflow/run", bytes=4096, **values)


def held(event_id: str = "srv:bin.000001:150:3:0", cause: str = "not_null(email)", stage: str = "check") -> RejectedRow:
    return RejectedRow(
        event_id, "shop.orders", '{"id":7}', cause, stage, "bin.000001:150", '{"op":"c","after":{"id":7}}'
    )


def report_of_chunks() -> BatchReport:
    """A batch that brought four rows of a snapshot along, of which one was superseded; one more table is to be read."""
    counts = TableCounts(read=9, dispatched=8, superseded=1, snapshot=4)
    nothing: dict[str, Any] = {"receipts": (), "checks": (), "rejected": (), "durations_ms": {}}
    found = report(3, tables={"shop.orders": counts}, watermark=None, **nothing)
    tables = (TableProgress("shop.orders", "reading", ("4",), 1, 3, 1, 10), TableProgress("shop.items", estimate=5))
    chunks = PlannedChunks(
        Snapshot(1, "initial", NOON, tables), (ChunkFile("chunk-1-1", "ab" * 32, "shop.orders", 3, 1),)
    )
    return replace(found, plan=replace(found.plan, chunks=chunks))
