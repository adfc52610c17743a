"""The summary of a window tells what a person must know: figures by sink, and statements that no row event tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Flow, Mock, Noop
from databus.cli.terminal.output import Format, show_one
from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import LostRange, Plan, SourcePlan
from databus.core.tables.unlogged import UnloggedChange
from databus.runtime import batch
from databus.runtime.check import evaluate_batch_checks
from databus.runtime.plan import PlannedBatch
from databus.runtime.window_result import WindowResult

NOW = datetime(2026, 11, 25, 10, tzinfo=UTC)
START, END = BinlogOffset("mysql-bin.000001", 4), BinlogOffset("mysql-bin.000001", 900)
DROPPED = "ALTER TABLE orders DROP PARTITION p2025"
FLOW = Flow(name="orders", source=Mock(rows=1), sinks=(Noop(),))


def window() -> WindowResult:
    return WindowResult("orders", Checkpoint(END, 1, Epoch(1), "local", "hash", {}, None, NOW))


def report(*changes: UnloggedChange, receipts: tuple[WriteReceipt, ...] = (), **tables: int) -> BatchReport:
    planned = SourcePlan(OffsetRange(START, END), (), 0, 896, unlogged=changes)
    return BatchReport(
        plan=Plan("test", "orders", 1, planned.range, {}, "hash", NOW),
        epoch=Epoch(1),
        run_id="local",
        run_url="",
        tables={table: TableCounts(read=rows, dispatched=rows) for table, rows in tables.items()},
        receipts=receipts,
        checks=evaluate_batch_checks(FLOW, planned, NOW),
        rejected=(),
        durations_ms={},
        bytes=896,
        watermark=None,
        committed_at=NOW,
    )


def test_statements_on_partitions_stand_in_the_summary(capsys: Any) -> None:
    result = window()
    assert result.summary()["changed_without_row_events"] == {}
    change = UnloggedChange(("shop.orders",), DROPPED, "mysql-bin.000001", 500, 620)
    for _ in range(2):
        result.add(report(change))
    told = f"{DROPPED} (mysql-bin.000001:500)"
    assert result.summary()["changed_without_row_events"] == {"shop.orders": [told, told]}
    for _ in range(11):
        result.add(report(change))
    assert result.summary()["changed_without_row_events"]["shop.orders"][9:] == [told, "and those of 3 more batches"]
    show_one(window_of(change).summary(), Format.TABLE)
    assert " ".join(capsys.readouterr().out.split()).endswith(f"changed without row events shop.orders: {told}")


def window_of(*changes: UnloggedChange) -> WindowResult:
    result = window()
    result.add(report(*changes))
    return result


def test_the_summary_says_which_rows_went_through_spark() -> None:
    result = window()
    assert "through_spark" not in result.summary()
    for through in (("shop.a",), (), ("shop.a",)):
        result.add(replace(report(**{"shop.a": 3, "shop.b": 4}), through_spark=through))
    assert result.summary()["through_spark"] == {"shop.a": 6}
    assert result.summary()["tables"] == {"shop.a": 9, "shop.b": 12}


def test_statements_that_search_takes_are_no_documents_of_the_summary() -> None:
    result = window()
    took = WriteReceipt("search", 0, 1, 2, {"shop.orders": 3}, outputs={"": {"statements": 1}})
    wrote = WriteReceipt("kafka", 0, 1, 3, {"shop.orders": 3}, outputs={"orders[0]": {"records": 3}})
    result.add(report(receipts=(took, wrote), **{"shop.orders": 2, "(statements)": 1}))
    summary = result.summary()
    assert summary["tables"] == {"shop.orders": 2, "(statements)": 1}
    assert summary["sinks"] == {
        "kafka": {"dispatched": 3, "rejected": 0},
        "search": {"dispatched": 2, "rejected": 0, "statements": 1},
    }
    assert all(summary["rows"] == sum(counts.values()) for counts in summary["sinks"].values())


def test_ranges_that_committed_batches_pass_over_are_counted_each_once_also_where_a_sink_comes_after() -> None:
    gone, part = OffsetRange(START, END), OffsetRange(START, BinlogOffset("mysql-bin.000001", 100))
    passed = SourcePlan(gone, (), 0, 0, passed="on_gap=latest: t[0]").passes_over
    left = SourcePlan(gone, (), 1, 1, lost=LostRange(part, "on_gap=earliest: t[1]")).passes_over
    assert SourcePlan(gone, (), 1, 1).passes_over is None
    result = window_of()
    assert (result.state, result.summary()["gaps_passed"]) == ("ok", [])
    result.add(replace(report(), lost=passed))
    result.add(replace(report(), lost=left))
    result.add_of_sink("search", replace(report(), lost=passed))
    assert result.state == "lost"
    assert result.summary()["gaps_passed"] == ["on_gap=latest: t[0]", "on_gap=earliest: t[1]"]


def test_the_report_of_a_committed_batch_tells_what_it_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the gap is new, was noted by another run, or the plan was left by one that was killed."""
    gone = SourcePlan(OffsetRange(START, END), (), 0, 0, passed="on_gap=latest: t[0]")
    left = PlannedBatch(report().plan, gone, window().checkpoint, 2)
    nothing: Any = SimpleNamespace(record=lambda *_: None, release=lambda *_: None, of=lambda *_: ())
    session: Any = SimpleNamespace(
        flow=FLOW, sinks={}, split=(), slots=None, hidden=None, snapshots=None, recorder=nothing, source=nothing,
        column_lineage=nothing, identity=SimpleNamespace(run_id="local", run_url="", code_version="1"),
        sink_views=dict, memories=dict, definition={},
    )  # fmt: skip
    monkeypatch.setattr(batch, "next_plan", lambda *_, **__: left)
    monkeypatch.setattr(batch, "commit", lambda *_: window().checkpoint)
    lease: Any = SimpleNamespace(epoch=Epoch(2))
    moved = batch.run_batch(session, lease, window().checkpoint)
    assert moved is not None
    assert moved.lost == LostRange(gone.range, gone.passed)
