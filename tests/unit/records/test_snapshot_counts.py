"""Rows that a snapshot brought, and those the log superseded, in the records: stored, read in three ways, summed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa
from openlineage.client.serde import Serde

from databus.core.batches.counts import TableCounts
from databus.records import tables as t
from databus.records.ledger.reports import LedgerReports
from databus.records.lineage.datasets import recorded
from databus.records.provenance import Provenance
from databus.records.quality.result import evaluate_run
from databus.records.ranges import SOURCE
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.summary import summarize
from tests.contract.record_samples import NOON, report, report_of_chunks

FLOW = "orders_to_kafka"
COUNTS = {"shop.orders": TableCounts(14, 1, 1, 8, 4, 9), "shop.items": TableCounts(2, 0, 0, 2)}


def stored(store):
    with store.transaction() as connection:
        c = t.table_counts.c
        return connection.execute(sa.select(c.table_name, c.superseded, c.snapshot).order_by(c.table_name)).all()


def test_they_come_back_and_are_null_where_there_are_none(store, reader):
    SqlRecorder(store).record(report(1, "r", tables=COUNTS))
    assert stored(store) == [("shop.items", None, None), ("shop.orders", 4, 9)]
    (found,) = Reports(store).batches(FLOW, "r")
    assert found.tables == COUNTS
    assert [fact.tables for fact in LedgerReports(store).facts(FLOW)] == [COUNTS]
    provenance = Provenance(reader)
    (stream,) = provenance.streams(FLOW, SOURCE)
    assert provenance.read(FLOW, stream, provenance.bounds(FLOW, SOURCE, stream)[1]) == [found]


def test_they_add_up_in_summary_and_quality(store):
    SqlRecorder(store).record(report(1, "r", tables=COUNTS))
    SqlRecorder(store).record(report(2, "r", tables=COUNTS))
    summary = summarize(FLOW, "r", Reports(store).batches(FLOW, "r"))
    assert (str(summary.total), summary.total.snapshot, summary.reconciled) == (
        "read 32 = filtered 2 + quarantined 2 + dispatched 20 + superseded 8", 18, True,
    )  # fmt: skip
    rows = {"read": 32, "filtered": 2, "quarantined": 2, "dispatched": 20, "superseded": 8, "snapshot": 18}
    lineage = recorded(summary, "mysql://db:3306", {})
    assert Serde.to_dict(lineage.run_facets["databus"])["values"]["rows"] == rows
    quality = evaluate_run(store, FLOW, "r", NOON)
    assert [metric.violations for metric in quality.metrics if metric.kind == "reconciliation"] == [0, 0]
    assert quality.result["meta"]["databus"]["rows"] == rows


def test_a_batch_keeps_how_far_the_snapshot_was_behind_it(store, reader):
    first = report_of_chunks()
    chunks = first.plan.chunks
    assert chunks is not None
    orders, items = chunks.snapshot.tables
    later = replace(chunks.snapshot, tables=(replace(orders, rows=8), items))
    plan = replace(first.plan, batch=4, chunks=replace(chunks, snapshot=later))
    second = replace(first, plan=plan, committed_at=first.committed_at + timedelta(seconds=2))
    plain = report(5, first.run_id)
    SqlRecorder(store).record(first, second, plain)
    with store.transaction() as connection:
        kept = connection.execute(
            sa.text("SELECT snapshot_progress IS NULL FROM databus_batches ORDER BY id")
        ).scalars()
        assert list(kept) == [0, 0, 1]
    found = Reports(store).batches(FLOW, first.run_id)
    assert [batch.snapshot and batch.snapshot.rows for batch in found] == [4, 9, None]
    assert found[1].snapshot.text.startswith("snapshot 1: 0 of 2 tables, 9 of about 15 rows, 0 rows/s, about ")
    assert Provenance(reader).delivered(FLOW, 1, 1) == found[:2]
    # The run's own rate: five rows in two seconds, and six are left.
    assert summarize(FLOW, first.run_id, found).snapshot.text == (
        "snapshot 1: 0 of 2 tables, 9 of about 15 rows, 2 rows/s, about 2 s left"
    )
    assert summarize(FLOW, first.run_id, found[:1]).snapshot == found[0].snapshot
    assert summarize(FLOW, first.run_id, found[2:]).snapshot is None
