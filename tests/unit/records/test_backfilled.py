"""Under the name of a backfill DAG stand the batches of the pieces that its runs moved, and nobody else's."""

from __future__ import annotations

from databus.core.tables.column_lineage import TableLineage
from databus.records.outputs import columns_of_run, moved_outputs
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from tests.contract.record_samples import report

PIECES = ["my_orders.backfill-missing-0123456789ab-0", "my_orders.backfill-missing-0123456789ab-1"]
OTHERS = ("my_orders", "myXorders.backfill-missing-0123456789ab-0", "my_orders2.backfill-missing-0123456789ab-0")


def test_a_run_of_the_backfill_dag_has_the_batches_of_its_pieces(store):
    recorder, made_of = SqlRecorder(store), TableLineage("shop.orders", "kafka", "cdc.orders")
    for flow in (*PIECES, *OTHERS):
        recorder.record(report(1, "r1", flow=flow, columns=(made_of,)))
    recorder.record(report(2, "another", flow=PIECES[0]))
    reports = Reports(store)
    assert [batch.flow for batch in reports.batches("my_orders_backfill", "r1")] == PIECES
    assert [batch.flow for batch in reports.batches("my_orders", "r1")] == ["my_orders"]
    assert columns_of_run(store, "my_orders_backfill", "r1") == [made_of] * len(PIECES)
    assert columns_of_run(store, "my_orders_backfill", "another") == []
    assert moved_outputs(store, "my_orders_backfill", "r1") == {("kafka", "cdc.orders"): 20}
    assert moved_outputs(store, "my_orders_backfill", "another") == {("kafka", "cdc.orders"): 10}
    assert moved_outputs(store, "my_orders_backfill", "nobody") == {}


def test_a_flow_may_be_called_as_a_backfill_dag_is(store):
    SqlRecorder(store).record(report(1, "r1", flow="nightly_backfill"))
    (batch,) = Reports(store).batches("nightly_backfill", "r1")
    assert batch.flow == "nightly_backfill"
