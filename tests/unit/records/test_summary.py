"""Sums of a run."""

from __future__ import annotations

from datetime import timedelta

from databus.core.batches.counts import SinkCounts, TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.offsets import BinlogOffset
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.summary import summarize
from tests.contract.record_samples import NOON, check, report

FACTS = {"retries": 2, "statements": 1}


def summary_of(store, *reports):
    for each in reports:
        SqlRecorder(store).record(each)
    return summarize("orders_to_kafka", "r", Reports(store).batches("orders_to_kafka", "r"))


def test_batches_add_up(store):
    total = summary_of(store, report(1, "r"), report(2, "r"), report(3, "another"))
    assert total.batches == (1, 2)
    assert (total.start, total.end) == (BinlogOffset("bin.000001", 100), BinlogOffset("bin.000001", 300))
    assert total.tables == {"shop.items": TableCounts(4, 0, 0, 4), "shop.orders": TableCounts(20, 2, 2, 16)}
    assert total.total == TableCounts(24, 2, 2, 20)
    assert total.state == "quarantined"
    assert total.reconciled
    assert total.bytes == 8192
    assert total.durations_ms == {"plan": 20.0, "read": 41.0}
    assert total.watermark == NOON + timedelta(minutes=2)
    assert total.run_url == "http://airflow/run"
    (sink,) = total.sinks
    assert (sink.written, sink.rows, sink.rejected) == (20, {"shop.orders": 16, "shop.items": 4}, 0)
    assert sink.outputs == {"cdc.orders[0]": {"first_offset": 20, "last_offset": 49, "records": 20}}
    assert [(c.check, c.evaluated, c.violations) for c in total.checks] == [
        ("not_null(email)", 20, 2),
        ("volume", 2, 0),
    ]


def test_statements_that_a_sink_took_are_told_apart_from_its_rows(store):
    rows, outputs = {"shop.orders": 8, "shop.items": 3}, {"orders": {"created": 10, "emptied": 1}}
    plain, truncated = (
        WriteReceipt("search", 0, 1, 10, rows, (), facts) for facts in (outputs, {**outputs, "": FACTS})
    )
    (sink,) = summary_of(store, report(1, "r", receipts=(plain,)), report(2, "r", receipts=(truncated,))).sinks
    assert sink.counts == SinkCounts(dispatched=21, rejected=0, statements=1)
    assert sink.counts.to_json() == {"dispatched": 21, "rejected": 0, "statements": 1}


def test_a_check_whose_severity_changed_counts_twice(store):
    changed = report(2, "r", checks=(check(3, severity="warn"),))
    total = summary_of(store, report(1, "r", checks=(check(1),)), changed)
    assert [(c.severity, c.violations) for c in total.checks] == [("quarantine", 1), ("warn", 3)]


def test_rows_not_accounted_for_show(store):
    assert not summary_of(store, report(1, "r", tables={"shop.orders": TableCounts(10, 1, 1, 7)})).reconciled


def test_an_idle_run_sums_to_nothing(store):
    total = summary_of(store)
    assert (total.batches, total.start, total.tables, total.watermark) == ((), None, {}, None)
    assert total.state == "ok"
    assert total.reconciled
