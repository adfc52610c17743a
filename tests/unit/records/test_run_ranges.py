"""Runs as alerts name them: range, address of the page, and whether they were audited."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from databus.core.positions.offsets import BinlogOffset
from databus.records.activity import activity
from databus.records.quality.result import evaluate_run
from databus.records.recorder import SqlRecorder
from databus.records.run_ranges import RunRange, audited, moved_by, run_number
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, held, report

FLOW = "orders_to_kafka"
PAGE = "http://airflow/run"


def batches(first: int, last: int) -> str:
    """The range from a batch of the samples to another."""
    return f"({BinlogOffset('bin.000001', first * 100)}, {BinlogOffset('bin.000001', last * 100 + 100)}]"


def recorded(store: RecordStore, now: Any = NOON) -> SqlRecorder:
    class Clock:
        def now(self) -> Any:
            return now

    recorder = SqlRecorder(store, Clock())
    for number, run in ((1, "r1"), (2, "r2"), (3, "r2"), (4, "r3")):
        recorder.record(report(number, run))
    recorder.record(report(2, "r2", flow="another"))
    return recorder


def test_a_run_moved_from_its_first_batch_to_its_last(store: RecordStore) -> None:
    recorded(store)
    with store.transaction() as connection:
        run_number(store, connection, FLOW, "idle", "http://airflow/idle")
    assert moved_by(store, FLOW, "r2") == RunRange("r2", PAGE, batches(2, 3))
    assert moved_by(store, FLOW, "idle") == RunRange("idle", "http://airflow/idle", "")
    assert moved_by(store, FLOW, "unknown") == RunRange("unknown", "", "")
    assert moved_by(store, "another", "r2").range == batches(2, 2)


def test_quality_is_of_the_run_that_was_audited_and_not_of_its_successors(store: RecordStore) -> None:
    recorded(store)
    assert activity(store, FLOW, NOON).quality == RunRange()
    evaluate_run(store, FLOW, "r2", NOON)
    assert activity(store, FLOW, NOON).quality == RunRange("r2", PAGE, batches(2, 3))


def test_held_rows_are_of_the_batches_that_held_them_back_since_a_moment(store: RecordStore) -> None:
    recorded(store).quarantine(FLOW, 1, [held("long ago")])
    later = recorded(store, NOON + timedelta(hours=2))
    later.quarantine(FLOW, 2, [held("one")])
    later.quarantine(FLOW, 4, [held("other")])
    since = NOON + timedelta(hours=1)
    assert activity(store, FLOW, since).held == RunRange("r3", PAGE, batches(2, 4))
    assert activity(store, FLOW, NOON + timedelta(hours=3)).held == RunRange()
    later.quarantine(FLOW, 5, [held("in a batch that is not reported yet")])
    assert activity(store, FLOW, since).held == RunRange()


def test_which_runs_were_audited(store: RecordStore) -> None:
    recorded(store)
    evaluate_run(store, FLOW, "r1", NOON)
    evaluate_run(store, "another", "r2", NOON)
    assert audited(store, FLOW, {"r1", "r2", "idle"}) == {"r1"}
    assert audited(store, FLOW, ()) == set()
