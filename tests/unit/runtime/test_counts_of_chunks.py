"""Counts of a batch that takes chunks of a snapshot along: rows that the log superseded are read, and go nowhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from databus import Flow, Mock, Noop
from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.errors import ReconciliationError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan, SourcePlan
from databus.core.state.snapshot import ChunkFile
from databus.observe.batch_points import of_batch
from databus.runtime.counts import reconcile, with_chunks
from databus.runtime.record import log_batch
from databus.runtime.window_result import WindowResult

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
FLOW = Flow(name="orders", source=Mock(tables=("shop.orders", "shop.items"), rows=1), sinks=(Noop(name="kafka"),))
COVERED = OffsetRange(SequenceOffset(0), SequenceOffset(9))
CHUNKS = (
    ChunkFile("a", "0" * 64, "shop.orders", 5, 2),
    ChunkFile("b", "0" * 64, "shop.orders", 4, 1),
    ChunkFile("c", "0" * 64, "shop.items", 0, 3),
    ChunkFile("d", "0" * 64, "shop.empty", 0),
)
MOVED = {"shop.orders": TableCounts(12, 2, 0, 10)}
"""What a pass sees: nine rows of the chunks, three of the log."""

FINAL = {"shop.orders": TableCounts(15, 2, 0, 10, 3, 12), "shop.items": TableCounts(3, 0, 0, 0, 3, 3)}


def final(planned: SourcePlan, changes: int, confirmed: int = 10) -> Mapping[str, TableCounts]:
    receipt = WriteReceipt("kafka", 0, 1, confirmed, {"shop.orders": confirmed})
    given = {"shop.orders": 10}
    return reconcile(FLOW, planned, {"changes": changes}, MOVED, {"kafka": (given, [receipt])})


def report(tables: Mapping[str, TableCounts]) -> BatchReport:
    plan = Plan("test", "orders", 1, COVERED, {}, "spec", NOON)
    return BatchReport(plan, Epoch(1), "run", "", tables, (), (), (), {"read": 5.0}, 100, None, NOON)


def test_superseded_rows_are_added_once_what_was_read_is_what_was_planned() -> None:
    planned = SourcePlan(COVERED, (), 12, 100, chunks=CHUNKS)
    assert final(planned, 12) == FINAL
    assert all(counts.reconciled for counts in FINAL.values())
    with pytest.raises(ReconciliationError, match="the log holds 12 row changes, 15 were read"):
        final(planned, 15)
    with pytest.raises(ReconciliationError):
        final(planned, 12, confirmed=9)


def test_a_batch_without_chunks_counts_as_before() -> None:
    assert final(SourcePlan(COVERED, (), 12, 100), 12) == MOVED
    assert with_chunks({}, SourcePlan(COVERED, (), 0, 100)) == {}


def test_a_batch_whose_chunks_were_superseded_whole_counts_them() -> None:
    assert with_chunks({}, SourcePlan(COVERED, (), 0, 100, chunks=CHUNKS[2:])) == {"shop.items": FINAL["shop.items"]}


def test_the_window_sums_them_and_says_so_only_where_there_are_any() -> None:
    result = WindowResult("orders", Checkpoint(SequenceOffset(0), 0, Epoch(1), "r", "", {}, None, NOON))
    result.add(report(MOVED))
    assert not {"superseded", "snapshot"} & result.summary().keys()
    result.add(report(FINAL))
    assert str(result.counts) == "read 30 = filtered 4 + quarantined 0 + dispatched 20 + superseded 6"
    summary = result.summary()
    assert (summary["rows"], summary["superseded"], summary["snapshot"], summary["state"]) == (30, 6, 15, "ok")


def test_metrics_tell_them_only_where_there_are_any() -> None:
    def points(tables: Mapping[str, TableCounts]) -> dict[str, Any]:
        return {point.metric.prometheus: point.value for point in of_batch(report(tables))}

    assert not [name for name in points(MOVED) if "superseded" in name or "snapshot" in name]
    told = points(FINAL)
    assert (told["databus_rows_read"], told["databus_rows_superseded"], told["databus_rows_snapshot"]) == (18, 6, 15)


def test_the_line_of_a_batch_tells_them(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_batch(report(MOVED))
        log_batch(report(FINAL))
    before, after = caplog.messages
    assert "12 rows (10 dispatched, 2 filtered, 0 quarantined), 100 bytes" in before
    assert "18 rows (10 dispatched, 2 filtered, 0 quarantined, 6 superseded), 100 bytes" in after
