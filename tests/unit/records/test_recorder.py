"""What is recorded comes back, once."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from databus.core.errors import RecordingError
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports, quarantined
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, held, report

RUN = "scheduled__2026-11-21T12:00:00+00:00"


class Clock:
    def __init__(self):
        self.time = NOON

    def now(self):
        return self.time


@pytest.fixture
def recorder(store):
    return SqlRecorder(store, Clock())


def test_a_report_comes_back_whole(store, recorder):
    sent = report()
    recorder.record(sent)
    (found,) = Reports(store).batches("orders_to_kafka", RUN)
    assert (found.flow, found.batch, found.run_id, found.run_url) == ("orders_to_kafka", 1, RUN, "http://airflow/run")
    assert (found.start, found.end) == (sent.plan.range.start, sent.plan.range.end)
    assert (found.plan_hash, found.epoch, found.attempt, found.mode) == (sent.plan.hash, 3, 1, "live")
    assert (found.bytes, found.rows) == (4096, 12)
    assert found.tables == sent.tables
    assert found.checks == sent.checks
    assert found.durations_ms == sent.durations_ms
    assert (found.watermark, found.committed_at) == (sent.watermark, sent.committed_at)
    assert found.committed_at.tzinfo is not None
    (receipt,) = found.receipts
    assert {**receipt, "batch": 1} == sent.receipts[0].to_json()


def test_a_report_stored_twice_is_one(store, recorder):
    recorder.record(report())
    recorder.record(replace(report(), run_id="another", attempt=2))
    (found,) = Reports(store).newest("orders_to_kafka", last=10)
    assert (found.run_id, found.attempt) == (RUN, 1)
    assert len(found.checks) == 2
    assert Reports(store).batches("orders_to_kafka", "another") == []


def test_a_plan_that_two_sinks_took_apart_is_one_report_with_the_receipts_of_both(store, recorder):
    """A sink that fell behind takes the plan in flight by itself, later than the others."""
    later = replace(report(), receipts=tuple(replace(r, sink="search", written=5) for r in report().receipts))
    for sent in (report(), later, later, report()):
        recorder.record(sent)
    (found,) = Reports(store).newest("orders_to_kafka", last=10)
    wanted = [(r.sink, r.slot, r.written) for r in (*report().receipts, *later.receipts)]
    assert [(r["sink"], r["slot"], r["written"]) for r in found.receipts] == wanted


def test_a_flow_that_numbers_its_batches_anew_keeps_both_reports(store, recorder):
    recorder.record(report())
    recorder.record(report(clock=NOON + timedelta(days=1), run_id="after the reset"))
    assert [b.run_id for b in Reports(store).newest("orders_to_kafka", last=10)] == ["after the reset", RUN]


def test_a_failed_report_leaves_nothing_behind(store, recorder):
    with pytest.raises(RecordingError):
        recorder.record(replace(report(), checks=(replace(report().checks[0], kind=None),)))
    assert Reports(store).newest("orders_to_kafka") == []
    recorder.record(report())
    assert len(Reports(store).newest("orders_to_kafka")) == 1


def test_newest_batches_by_flow(store, recorder):
    for batch in (1, 2, 3):
        recorder.record(report(batch))
    recorder.record(report(9, flow="other"))
    assert [b.batch for b in Reports(store).newest("orders_to_kafka", last=2)] == [3, 2]


def test_a_row_held_back_again_updates_its_entry(store, recorder):
    recorder.quarantine("f", 1, [held(), held(stage="search", cause="mapper: no")])
    recorder._clock.time += timedelta(hours=1)
    recorder.quarantine("f", 2, [held(cause="in_range(n)"), held(cause="in_range(m)")])
    recorder.quarantine("g", 1, [held()])
    rows = Reports(store).quarantined("f")
    assert [(row.stage, row.cause) for row in rows] == [("check", "in_range(m)"), ("search", "mapper: no")]
    assert rows[0] == held(cause="in_range(m)")
    with store.transaction() as connection:
        times = connection.exec_driver_sql(
            "SELECT first_held_at, last_held_at, batch FROM databus_quarantine WHERE cause = 'in_range(m)'"
        ).one()
    assert times[0] < times[1]
    assert times[2] == 2
    assert quarantined(str(store.url), "g") == [held()]


def test_many_rows_are_held_back_in_chunks(store, recorder):
    recorder.quarantine("f", 1, [held(f"srv:{n}") for n in range(1201)])
    assert len(Reports(store).quarantined("f", limit=5000)) == 1201


def test_nothing_held_back_touches_no_database(tmp_path):
    with SqlRecorder.open(f"sqlite:///{tmp_path}/none/records.db") as recorder:
        recorder.quarantine("f", 1, [])
    assert list(tmp_path.iterdir()) == []


def test_writers_wait_for_each_other(store):
    def write(first):
        with RecordStore(str(store.url)) as own:
            for batch in range(first, first + 10):
                SqlRecorder(own).record(report(batch))

    threads = [threading.Thread(target=write, args=(first,)) for first in (1, 11, 21, 31)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Reports(store).batches("orders_to_kafka", RUN)) == 40
