"""Figures of one flow: what is summed, what is marked, and how little the database is asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.core.state.plan import LostRange
from databus.core.tables.column_lineage import ColumnStep, FieldLineage, TableLineage
from databus.records.definitions import newest_definitions
from databus.records.flow_figures import LATELY, WINDOWS, SinkCount, flow_figures
from databus.records.ledger.pages import LedgerPages
from databus.records.outputs import masked_fields
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, held, report

FLOW = "orders_to_kafka"
NOW = NOON + timedelta(minutes=9)


class FixedClock:
    def now(self) -> Any:
        return NOON + timedelta(minutes=3)


@pytest.fixture
def recorder(store: RecordStore) -> SqlRecorder:
    return SqlRecorder(store, FixedClock())


def test_buckets_hold_what_was_committed_in_them(recorder: SqlRecorder) -> None:
    recorder.record(*(report(batch, "r1") for batch in (1, 2, 3)))
    recorder.record(report(4, "r1", watermark=None, committed_at=NOON + timedelta(minutes=3, seconds=59)))
    found = flow_figures(recorder.store, FLOW, WINDOWS["1h"], NOW, 2)
    assert [line.row.batch for line in found.batches] == [4, 3]
    assert found.batches[0].counts == {
        "read": 12, "filtered": 1, "quarantined": 1, "dispatched": 10, "superseded": 0,
    }  # fmt: skip
    first = int((NOON - found.start) / timedelta(minutes=1))
    assert {number: figures[:2] for number, figures in found.buckets.items()} == {
        first + 1: (1, 12), first + 2: (1, 12), first + 3: (2, 24),
    }  # fmt: skip
    assert [figures[2] for figures in found.buckets.values()] == [pytest.approx(1, abs=0.01)] * 3


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_window_ends_with_the_bucket_of_now(window: Any) -> None:
    for now in (NOW, NOON, NOON - timedelta(microseconds=1)):
        start, last = window.start(now), window.start(now) + window.width * (window.count - 1)
        assert last <= now < last + window.width
        assert start.timestamp() % window.width.total_seconds() == 0


def test_rates_are_of_the_last_minutes_and_of_this_flow(recorder: SqlRecorder) -> None:
    recorder.record(report(1, "r1"), report(1, "r1", flow="other"))
    recorder.record(report(9, "r2", committed_at=NOW - LATELY + timedelta(seconds=1)))
    found = flow_figures(recorder.store, FLOW, WINDOWS["24h"], NOW, 5)
    assert found.lately == {"read": 12, "filtered": 1, "quarantined": 1, "dispatched": 10, "superseded": 0}
    assert found.sinks == {"kafka": SinkCount(10, 0, 9)}
    assert {name: (c.evaluated, c.violations) for name, c in found.checks.items()} == {
        "not_null(email)": (20, 2), "volume": (2, 0),
    }  # fmt: skip
    nothing = flow_figures(recorder.store, "absent", WINDOWS["7d"], NOW, 5)
    assert (nothing.batches, nothing.buckets, nothing.marks, nothing.lately["read"]) == ([], {}, [], 0)


def test_what_happened_is_marked_in_order(recorder: SqlRecorder) -> None:
    at = BinlogOffset("bin.000001", 100)
    lost = LostRange(OffsetRange(at, BinlogOffset("bin.000001", 200)), "purged")
    recorder.record(report(1, "r1", definition={"name": FLOW}), report(2, "r1", lost=lost))
    recorder.record(report(5, "r2", definition={"name": FLOW, "mode": "live"}))
    recorder.quarantine(FLOW, 3, [held("a", stage="search"), held("b", stage="search"), held("c")])
    entries = [
        HistoryEntry(1, "start", "r1", "", None, at, 0, Epoch(1), {}, (), NOON),
        HistoryEntry(2, "rewind", "anna", "again", at, at, 0, Epoch(2), {}, (), NOON + timedelta(minutes=4)),
    ]
    LedgerPages(recorder.store).page(FLOW, entries)
    found = flow_figures(recorder.store, FLOW, WINDOWS["1h"], NOW, 1)
    assert [(mark.kind, mark.text) for mark in found.marks] == [
        ("gap", "batch 2 passed over a gap: purged"),
        ("refused", "search refused 2 rows"),
        ("rewind", "rewind by anna: again"),
        ("definition", "its definition changed with batch 5"),
    ]
    assert found.held == {"search": 2, "check": 1}
    later = flow_figures(recorder.store, FLOW, WINDOWS["1h"], NOW + timedelta(hours=2), 1)
    assert [mark.kind for mark in later.marks if mark.kind != "rewind"] == []
    assert [batch for batch, _, _ in later.definitions] == [5]


def test_a_definition_is_noted_when_it_changes_and_found_by_its_dag(recorder: SqlRecorder) -> None:
    url = "http://airflow/dags/nightly%20orders/runs/r1"
    first, second = {"name": FLOW}, {"name": FLOW, "mode": "live"}
    for batch, (definition, run_url) in enumerate(
        [(first, url), (first, url), (second, url), (second, ""), (first, url), ({}, url)], 1
    ):
        with SqlRecorder.open(recorder.store.url.render_as_string(), FixedClock()) as other:
            for one in (recorder, other):
                one.record(replace(report(batch, f"r{batch}", definition=definition), run_url=run_url))
    recorder.record(report(1, "r1", flow=f"{FLOW}.backfill-missing-0123456789ab-0", definition=first))
    (known,) = newest_definitions(recorder.store)
    assert (known.flow, known.dag_id, known.batch, known.definition) == (FLOW, "nightly orders", 5, first)
    assert [one.flow for one in newest_definitions(recorder.store, "nightly orders")] == [FLOW]
    assert newest_definitions(recorder.store, FLOW) == []  # of that name is a flow, and another DAG runs it


def test_what_was_not_stored_is_noted_again(recorder: SqlRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = report(1, "r1", definition={"name": FLOW})
    with monkeypatch.context() as patched:
        patched.setattr("databus.records.recorder._ReportBatch.flush", _fails)
        with pytest.raises(RuntimeError):
            recorder.record(noted)
    assert newest_definitions(recorder.store) == []
    recorder.record(noted)
    assert len(newest_definitions(recorder.store)) == 1


def _fails(*_: object) -> None:
    raise RuntimeError


def test_masked_fields_are_those_of_the_newest_run(recorder: SqlRecorder) -> None:
    def lineage(*steps: ColumnStep) -> tuple[TableLineage, ...]:
        return (TableLineage("shop.orders", "kafka", "cdc.orders", (FieldLineage("mail", "email", steps),)),)

    recorder.record(report(1, "r1", columns=lineage(ColumnStep("mask email", masking=True))))
    assert masked_fields(recorder.store, FLOW, "shop.orders", "kafka") == {"mail": "mask email"}
    assert masked_fields(recorder.store, FLOW, "shop.items", "kafka") == {}
    recorder.record(report(2, "r2", columns=lineage(ColumnStep("rename email"))))
    assert masked_fields(recorder.store, FLOW, "", "kafka") == {}
    (table,) = flow_figures(recorder.store, FLOW, WINDOWS["1h"], NOW, 1).tables
    assert table["fields"][0]["steps"] == [{"label": "rename email", "masking": False}]


def test_a_page_asks_three_statements_which_the_indexes_answer(recorder: SqlRecorder) -> None:
    recorder.record(*(report(batch, "r1") for batch in range(1, 50)))
    asked: list[tuple[str, Any]] = []
    sa.event.listen(recorder.store.engine, "before_cursor_execute", lambda *event: asked.append((event[2], event[3])))
    flow_figures(recorder.store, FLOW, WINDOWS["7d"], NOW, 10)
    assert len(asked) == 3
    with recorder.store.transaction() as connection:
        plans = [
            step[3]
            for statement, values in list(asked)
            for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]
    looked = [plan for plan in plans if "databus_batches" in plan or "databus_quarantine " in plan]
    assert any("COVERING INDEX ix_databus_batches_chart" in plan for plan in looked)
    assert [plan for plan in looked if plan.startswith("SCAN databus_")] == []
