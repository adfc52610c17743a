"""Old results go, in small pieces; what the ledger and the trace rest on stays."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from databus.core.trace import Change
from databus.ops.trace.batches import BatchFinder
from databus.records import retention
from databus.records import tables as t
from databus.records.actions import ActionRequest, Actions
from databus.records.ledger.reports import LedgerReports
from databus.records.lineage.windows import WindowRun, WindowRuns
from databus.records.provenance import Provenance
from databus.records.quality.result import evaluate_run
from databus.records.quality.trend import newest_runs
from databus.records.recorder import SqlRecorder
from databus.records.retention import RecordRetention
from tests.contract.many_batches import fill, place
from tests.contract.record_samples import NOON, report

FLOW = "orders_to_kafka"
DAY = timedelta(days=1)
MINUTES = 1440
"""Of a day."""


def counts(store):
    with store.transaction() as connection:
        each = {name: sa.select(sa.func.count()).select_from(table) for name, table in t.metadata.tables.items()}
        return {name: connection.execute(wanted).scalar_one() for name, wanted in each.items()}


def window(store, run_id, began, *, sent=True):
    runs, run = WindowRuns(store), WindowRun(FLOW, run_id, 0, began)
    runs.begin(run)
    runs.end(run, "COMPLETE", began)
    if sent:
        runs.sent(run, "COMPLETE")


def test_old_results_go_and_what_proofs_rest_on_stays(store):
    SqlRecorder(store).record(report(1, "old"))
    for run_id, at in (("old", NOON), ("old-idle", NOON), ("new-idle", NOON + 10 * DAY)):
        evaluate_run(store, FLOW, run_id, at)
    window(store, "old", NOON)
    window(store, "old-untold", NOON, sent=False)
    window(store, "new", NOON + 10 * DAY)
    for key, at in (("old", NOON), ("new", NOON + 10 * DAY)):
        Actions(store).begin(ActionRequest(FLOW, key, "ada", "pause", {}), at)
    facts, had = LedgerReports(store).facts(FLOW), counts(store)
    kept = RecordRetention(store)
    surplus = kept.surplus(NOON + 5 * DAY)
    assert surplus == {
        "databus_check_results": had["databus_check_results"],
        "databus_quality_results": 2,
        "databus_lineage_runs": 1,
        "databus_offset_map": 0,
        "databus_actions": 1,
        "databus_runs": 1,
    }
    gone = kept.prune(NOON + 5 * DAY)
    assert gone == surplus
    assert counts(store) == {name: rows - gone.get(name, 0) for name, rows in had.items()}
    assert LedgerReports(store).facts(FLOW) == facts
    assert [run.run_id for run in newest_runs(store, FLOW, 5)] == ["new-idle"]
    assert [run.run_id for run in WindowRuns(store).unfinished(FLOW)] == ["old-untold"]
    assert set(kept.prune(NOON + 5 * DAY).values()) == {0}


def test_the_newest_quality_of_a_flow_is_kept_however_old(store):
    evaluate_run(store, FLOW, "only", NOON)
    assert set(RecordRetention(store).prune(NOON + 100 * DAY).values()) == {0}
    assert [run.run_id for run in newest_runs(store, FLOW, 5)] == ["only"]


@pytest.mark.parametrize(
    ("a_day", "chunk"), [(MINUTES // 15, 350), (MINUTES, 5_000)], ids=["each_quarter_hour", "each_minute"]
)
def test_thirty_days_of_runs_are_bounded_by_what_is_kept(store, reader, monkeypatch, a_day, chunk):
    """A quality result of each run; each transaction deletes a bounded piece, and traces find what they found."""
    server = fill(store, "orders", 50, 1000)
    evaluate_run(store, FLOW, "sample", NOON)
    with store.transaction() as connection:
        sample = dict(connection.execute(sa.select(t.quality_results)).mappings().one())
        del sample["id"]
        runs = [{"flow": FLOW, "run_id": f"r{n}", "run_url": ""} for n in range(30 * a_day)]
        connection.execute(t.runs.insert(), runs)
        results = [
            {**sample, "result": {}, "run_id": f"r{n}", "evaluated_at": NOON + n * DAY / a_day}
            for n in range(30 * a_day)
        ]
        connection.execute(t.quality_results.insert(), results)
    deleted: list[int] = []
    monkeypatch.setattr(retention, "_CHUNK", chunk)
    sa.event.listen(
        store.engine,
        "after_cursor_execute",
        lambda *call: deleted.append(call[1].rowcount) if call[2].startswith("DELETE") else None,
    )
    gone = RecordRetention(store).prune(NOON + 23 * DAY)
    # And the sample, whose run moved nothing either.
    assert gone["databus_quality_results"] == gone["databus_runs"] == 23 * a_day + 1
    assert max(deleted) == chunk
    assert counts(store)["databus_quality_results"] == 7 * a_day
    finder, at = BatchFinder("orders", Provenance(reader)), place(server, 25_500, 100)
    for change in (Change(gtid=f"{server}:25500"), Change(file=at.file, position=at.pos)):
        assert len(finder.read(change)) == 1
