"""What a flow did lately, and which outputs a run has written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from databus.core.alerts.flow_status import RejectedRows
from databus.core.batches.receipts import CHECK, WriteReceipt
from databus.core.times import SystemClock
from databus.records.activity import activity
from databus.records.ledger.reports import LedgerReports
from databus.records.outputs import written_outputs
from databus.records.quality.result import evaluate_run
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.recorder import SqlRecorder
from databus.records.run_ranges import RunRange
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, held, report

FLOW = "orders_to_kafka"


def test_nothing_is_known_of_a_flow_that_never_ran(store: RecordStore) -> None:
    seen = activity(store, FLOW, NOON)
    assert (seen.recent.batches, seen.run_id, seen.quarantine_rows, seen.quality_passed) == (0, "", 0, None)


def test_the_newest_batches_runs_and_held_rows(store: RecordStore) -> None:
    class Clock:
        def now(self) -> Any:
            return NOON

    recorder = SqlRecorder(store, Clock())
    for number, run in ((1, "r1"), (2, "r1"), (3, "r2")):
        recorder.record(report(number, run))
    recorder.record(report(9, "other", flow="another"))
    recorder.quarantine(FLOW, 1, [held(), held("srv:bin.000001:151:3:0")])
    seen = activity(store, FLOW, NOON - timedelta(minutes=1))
    assert (seen.recent.batches, seen.recent.rows, seen.recent.seconds) == (3, 36, 120.0)
    assert (seen.run_id, seen.run_url) == ("r2", "http://airflow/run")
    assert seen.recent.handover_seconds == 60.0
    assert seen.recent.delay_seconds == {"0.5": 1.0, "0.95": 1.0, "0.99": 1.0}
    assert (seen.quarantine_rows, seen.quarantine_new) == (2, 2)
    assert activity(store, FLOW, NOON + timedelta(seconds=1)).quarantine_new == 0
    graded = evaluate_run(store, FLOW, "r1", NOON)
    seen = activity(store, FLOW, NOON)
    assert (seen.quality.run_id, seen.quality_passed) == ("r1", graded.success)


def test_rows_that_sinks_refused_are_counted_by_sink_and_apart_from_those_of_checks(store: RecordStore) -> None:
    class Clock:
        now_is = NOON

        def now(self) -> Any:
            return self.now_is

    clock = Clock()
    recorder = SqlRecorder(store, clock)
    for number in (1, 2, 3):
        recorder.record(report(number, f"r{number}"))
    recorder.quarantine(FLOW, 1, [held("a", stage="search"), held("b", stage="search"), held("c")])
    clock.now_is = NOON + timedelta(hours=2)
    recorder.quarantine(FLOW, 2, [held("d", stage="search"), held("e", stage="topic")])
    recorder.quarantine(FLOW, 3, [held("f", stage="search"), held("a", stage="search")])  # "a" for the second time
    seen = activity(store, FLOW, NOON + timedelta(hours=1))
    assert (seen.quarantine_rows, seen.quarantine_new, seen.held) == (1, 0, RunRange())
    page, ranges = "http://airflow/run", [str(report(number).plan.range) for number in (2, 3)]
    assert seen.rejected["topic"] == RejectedRows(1, 1, "r2", page, ranges[0])
    both = f"{ranges[0].partition(', ')[0]}, {ranges[1].partition(', ')[2]}"
    assert seen.rejected["search"] == RejectedRows(2, 4, "r3", page, both)
    settled = HeldRows(store, FLOW)
    rows = settled.select(Selection(stage="topic"))
    settled.discard(rows, ("ada", "gone", NOON))
    later = activity(store, FLOW, NOON + timedelta(hours=3)).rejected
    assert later == {"search": RejectedRows(0, 4)}


def test_outputs_of_a_run_and_of_failed_ones_before_it(store: RecordStore) -> None:
    recorder = SqlRecorder(store)
    for number, run in ((1, "audited"), (2, "failed"), (3, "mine"), (4, "mine"), (5, "next")):
        recorder.record(report(number, run))
    evaluate_run(store, FLOW, "audited", NOON)
    # The batches were committed one a minute: "mine" started after the second.
    started = NOON + timedelta(minutes=2, seconds=30)
    assert written_outputs(store, FLOW, "mine", started) == {("kafka", "cdc.orders"): 30}
    assert written_outputs(store, FLOW, "mine", None) == {("kafka", "cdc.orders"): 20}
    evaluate_run(store, FLOW, "mine", NOON)
    assert written_outputs(store, FLOW, "mine", started) == {("kafka", "cdc.orders"): 30}  # a retry tells the same
    later = NOON + timedelta(minutes=4, seconds=30)
    assert written_outputs(store, FLOW, "next", later) == {("kafka", "cdc.orders"): 10}
    assert written_outputs(store, FLOW, "idle", later) == {}


def test_an_output_without_rows_is_none(store: RecordStore) -> None:
    receipt = WriteReceipt("search", 0, 1, 0, {}, (), {"orders": {"created": 0, "noop": 3}})
    SqlRecorder(store).record(report(1, "r", receipts=(receipt,)))
    assert written_outputs(store, FLOW, "r", None) == {}


def test_copies_of_a_row_that_sinks_refused_are_one_row_of_their_batch(store: RecordStore) -> None:
    recorder = SqlRecorder(store, SystemClock())
    head = "srv:mysql-bin.000001:645"
    ids = ("0:0.0", "0:0.1", "0:0.10", "1:0.0", "1:1.0", "2:0", "12:0.0")
    recorder.quarantine(FLOW, 1, [held(f"{head}:{each}", stage="search") for each in ids])
    recorder.quarantine(FLOW, 1, [held(f"{head}:0:0.1", stage="topic"), held(f"{head}:3:0")])
    recorder.quarantine(FLOW, 2, [held("a:5:0:0.0", stage="topic"), held("a:5:0:0.1", stage="topic")])

    assert LedgerReports(store).held_by_batch(FLOW) == {1: 6, 2: 1}
    assert LedgerReports(store).held_by_batch(FLOW, CHECK) == {1: 1}
