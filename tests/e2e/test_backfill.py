"""Backfills by a real Airflow: from its REST API with data intervals, by trigger with a range, cleared and marked."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from databus.demo.consumers import topic_records
from databus.demo.oracle import fold
from tests.e2e.airflow_world import AirflowWorld, Run, until
from tests.integration.kafka_target import consume, event_id
from tests.integration.runbook import typed
from tests.integration.shop_flow import assert_arrived_once

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

FLOW, DAG = "e2e_backfill", "e2e_backfill_backfill"
INTERVAL = timedelta(seconds=20)


@pytest.fixture(scope="module")
def unpaused(airflow: AirflowWorld) -> Iterator[None]:
    """Airflow starts runs of this DAG, scheduled ones as well, which move nothing."""
    airflow.api.pause(DAG, paused=False)
    yield
    airflow.api.pause(DAG, paused=True)


@pytest.fixture(scope="module")
def since(airflow: AirflowWorld) -> datetime:
    """A time from which on the shop was changed for two intervals and some seconds."""
    begin = datetime.now(UTC).replace(microsecond=0)
    with airflow.writing():
        while datetime.now(UTC) < begin + 2 * INTERVAL + timedelta(seconds=5):
            time.sleep(0.5)
    airflow.catch_up(FLOW)
    return begin


def ids(airflow: AirflowWorld, topic: str) -> Counter[str]:
    """Event ids that a read_committed consumer sees."""
    messages = consume(airflow.sandbox.address("kafka"), topic)
    return Counter(event_id(m) for m in messages if m.value() is not None)


def backfilled(airflow: AirflowWorld) -> list[dict[str, Any]]:
    """Runs of Airflow's backfills: made by them, or scheduled ones of the interval that were taken up again."""
    return [r for r in airflow.runs(DAG) if r["run_type"] == "backfill"]


def committed(airflow: AirflowWorld, start: datetime, end: datetime) -> Counter[str]:
    """Event ids in the live topic of changes that committed in an interval."""
    first, last = start.timestamp() * 1000, end.timestamp() * 1000
    messages = [m for m in consume(airflow.sandbox.address("kafka"), FLOW) if m.value() is not None]
    return Counter(event_id(m) for m in messages if first <= json.loads(m.value())["source"]["ts_ms"] < last)


def begins(run: dict[str, Any]) -> datetime:
    """Where a run's data interval begins."""
    return datetime.fromisoformat(run["data_interval_start"])


def type_into_a_shell(airflow: AirflowWorld, block: str, **values: str) -> None:
    """Type a page's block as an operator would: again while Airflow says that it is busy, having done nothing."""

    def taken() -> bool:
        told = subprocess.run(
            ["bash", "-euc", block], env=airflow.shell(**values), capture_output=True, text=True, check=False
        )
        busy = "Another backfill is running" in told.stderr or "database is locked" in told.stderr
        assert told.returncode == 0 or busy, told.stdout + told.stderr
        return told.returncode == 0

    until("Airflow takes the backfill", taken)


def live(airflow: AirflowWorld) -> tuple[Any, int]:
    with airflow.store() as store:
        return store.load(FLOW), store.epoch(FLOW)


def test_the_form_explains_each_field_and_refuses_other_choices(airflow: AirflowWorld) -> None:
    params = airflow.api.params(DAG)
    assert {"from", "to", "mode", "order", "suffix", "into_live", "name", "accept"} == set(params)
    assert all(param["schema"]["type"] and param["schema"]["description_md"] for param in params.values())
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        airflow.trigger(DAG, {"from": "earliest", "to": "latest", "mode": "everything"})


@pytest.mark.usefixtures("unpaused")
def test_a_triggered_range_arrives_once_beside_the_live_topic(airflow: AirflowWorld) -> None:
    airflow.writer.run(20)
    airflow.catch_up(FLOW)
    stands = live(airflow)
    conf = {"from": "earliest", "to": "latest", "mode": "replay", "order": "parallel"}
    first = airflow.trigger(DAG, conf).succeeds()
    assert "is done" in first.log("backfill")
    seen = fold(topic_records(airflow.sandbox.address("kafka"), f"{FLOW}.replay"))
    assert_arrived_once(airflow.connection, airflow.writer.written, seen)
    # Cleared, it runs again, finds all done, and moves nothing.
    airflow.api.clear(DAG, first.run_id)
    until("it runs again", lambda: airflow.api.tasks(DAG, first.run_id)["backfill"]["try_number"] > 1)
    first.succeeds()
    seen = fold(topic_records(airflow.sandbox.address("kafka"), f"{FLOW}.replay"))
    assert_arrived_once(airflow.connection, airflow.writer.written, seen)
    assert live(airflow) == stands


@pytest.mark.usefixtures("unpaused")
def test_cancelled_and_started_twice_at_once_each_row_arrives_once(airflow: AirflowWorld) -> None:
    airflow.writer.run(20)
    airflow.catch_up(FLOW)
    stands = live(airflow)
    conf = {"from": "earliest", "to": "latest", "mode": "replay", "suffix": ".cancelled"}
    run = airflow.trigger(DAG, conf)
    process = run.process("backfill")
    airflow.api.set_task_state(DAG, run.run_id, "backfill", "failed")
    process.wait(30)
    # The same range by two runs at the same time, as two schedulers would start it.
    other = airflow.trigger(DAG, conf)
    airflow.api.clear(DAG, run.run_id)
    until("it runs again", lambda: run.task("backfill")["try_number"] > 1)
    for each in (run, other):
        assert each.succeeds().task("backfill")["state"] == "success"
    seen = fold(topic_records(airflow.sandbox.address("kafka"), f"{FLOW}.cancelled"))
    assert_arrived_once(airflow.connection, airflow.writer.written, seen)
    assert live(airflow) == stands


@pytest.mark.usefixtures("unpaused")
def test_a_bad_range_fails_at_once_and_says_why(airflow: AirflowWorld) -> None:
    airflow.writer.run(20)
    airflow.catch_up(FLOW)  # of a flow that never ran that is told first
    run = airflow.trigger(DAG, {"from": "2026-01-02", "to": "2026-01-01"})
    assert run.reaches("backfill", "failed")["try_number"] == 1
    assert "[backfill_range]" in run.log("backfill")
    run = airflow.trigger(DAG, {"from": "2026-01-02"})
    assert run.reaches("backfill", "failed")["try_number"] == 1
    assert "needs both from and to" in run.log("backfill")


@pytest.mark.usefixtures("unpaused")
def test_data_intervals_of_a_native_backfill(airflow: AirflowWorld, since: datetime) -> None:
    stands = live(airflow)
    conf = {"mode": "replay", "suffix": ".intervals", "order": "parallel"}
    interval = (since.isoformat(), (since + INTERVAL).isoformat())
    airflow.api.backfill(DAG, interval, conf, max_active_runs=2)

    until("both intervals are over", lambda: [r["state"] for r in backfilled(airflow)].count("success") == 2)
    expected = ids(airflow, FLOW)
    found = ids(airflow, f"{FLOW}.intervals")
    assert found
    assert set(found.values()) == {1}
    assert set(found) <= set(expected)
    # Marked failed by a person, then cleared: the ledger knows better.
    run = Run(airflow.api, DAG, backfilled(airflow)[0]["dag_run_id"])
    airflow.api.set_task_state(DAG, run.run_id, "backfill", "failed")
    airflow.api.clear(DAG, run.run_id)
    until("it runs again", lambda: airflow.api.tasks(DAG, run.run_id)["backfill"]["try_number"] > 1)
    run.succeeds()
    assert ids(airflow, f"{FLOW}.intervals") == found
    assert live(airflow) == stands


@pytest.mark.usefixtures("unpaused")
def test_in_order_intervals_wait_without_a_worker_and_go_one_after_the_other(
    airflow: AirflowWorld, since: datetime
) -> None:
    # Intervals of its own: neither another test's nor those of scheduled runs, which lie on a grid of full intervals.
    on_grid = (since + timedelta(seconds=1)).timestamp() % INTERVAL.total_seconds() == 0
    begin = since + timedelta(seconds=2 if on_grid else 1)
    time.sleep(max(0.0, (begin + 3 * INTERVAL - datetime.now(UTC)).total_seconds()))
    airflow.writer.run(1)
    known = {r["dag_run_id"] for r in backfilled(airflow)}
    with airflow.store() as store:
        turn = store.claim(f"{FLOW}.backfill-order", "somebody", 60)
        conf = {"mode": "replay", "suffix": ".in_order"}
        airflow.api.backfill(DAG, (begin.isoformat(), (begin + 2 * INTERVAL).isoformat()), conf, max_active_runs=3)
        waited = set[str]()

        def all_have_waited() -> list[Run]:
            runs = [Run(airflow.api, DAG, r["dag_run_id"]) for r in backfilled(airflow)]
            mine = sorted((run for run in runs if run.run_id not in known), key=lambda run: run.run_id)
            waited.update(run.run_id for run in mine if run.task("backfill")["state"] == "deferred")
            return mine if len(waited) == 3 else []

        runs = until("all three wait without a worker", all_have_waited)
        turn.release()
        for run in runs:
            assert run.succeeds().task("backfill")["try_number"] == 1
        logs = [run.log("backfill", 1) for run in runs]
        assert f"{FLOW}.backfill-order: another run is at it" in logs[0]
        assert f"in order: {runs[0].run_id} (running) is earlier" in logs[1]
        assert f"in order: {runs[1].run_id} (running) is earlier" in logs[2]
        asked = [b for b in store.backfills().backfills(FLOW) if b.aim.suffix == ".in_order"]
        pieces = [b.piece_name(0) for b in sorted(asked, key=lambda b: b.wanted[0]) if b.pieces]
        moved = [[e.at for e in store.history(piece, 1000) if e.action == "commit"] for piece in pieces]
    assert len(moved) == 3
    assert max(moved[0]) < min(moved[1])
    assert max(moved[1]) < min(moved[2])
    found = ids(airflow, f"{FLOW}.in_order")
    assert set(found.values()) == {1}
    assert set(found) <= set(ids(airflow, FLOW))


@pytest.mark.usefixtures("unpaused")
def test_where_nothing_is_missing_nothing_is_moved(airflow: AirflowWorld) -> None:
    begin = datetime.now(UTC).replace(microsecond=0)
    airflow.writer.run(10)
    time.sleep(max(0.0, (begin + INTERVAL - datetime.now(UTC)).total_seconds() + 1))
    airflow.writer.run(1)
    airflow.catch_up(FLOW)
    stands, had = live(airflow), ids(airflow, FLOW)
    known = {r["dag_run_id"] for r in backfilled(airflow)}
    airflow.api.backfill(DAG, (begin.isoformat(), begin.isoformat()), {})

    def over() -> list[dict[str, Any]]:
        mine = [r for r in backfilled(airflow) if r["dag_run_id"] not in known]
        return [r for r in mine if r["state"] in {"success", "failed"}]

    (ended,) = until("the interval is over", over)
    run = Run(airflow.api, DAG, ended["dag_run_id"])
    assert "is done: nothing was missing" in run.succeeds().log("backfill")
    assert ids(airflow, FLOW) == had
    assert live(airflow) == stands


@pytest.mark.usefixtures("unpaused")
def test_the_runbooks_commands_move_their_intervals_also_where_there_were_runs(airflow: AirflowWorld) -> None:
    airflow.writer.run(5)
    airflow.catch_up(FLOW)  # a flow that never ran has nothing to look at
    began = datetime.now(UTC)

    def looked(since: datetime = began) -> list[dict[str, Any]]:
        mine = [r for r in airflow.runs(DAG) if r["run_type"] == "scheduled" and r["state"] == "success"]
        return sorted((r for r in mine if begins(r) >= since), key=begins)

    with airflow.writing():
        # What the unpaused DAG makes of an interval by itself: a run that moves nothing, and stands in the way.
        former = until("a scheduled run of an interval with changes", looked)[0]
        start, last, end = (begins(former) + number * INTERVAL for number in range(3))
        while datetime.now(UTC) < end + INTERVAL + timedelta(seconds=2):  # the interval after the last is over as well
            time.sleep(0.5)
    airflow.catch_up(FLOW)
    until("no run is under way", lambda: all(r["state"] in {"success", "failed"} for r in airflow.runs(DAG)))
    stands, had = live(airflow), ids(airflow, f"{FLOW}.replay")
    times = {"FROM": f"{start:%Y-%m-%dT%H:%M:%S}", "LAST": f"{last:%Y-%m-%dT%H:%M:%S}"}
    type_into_a_shell(airflow, typed("backfill-a-day.md", "In Airflow"), FLOW=FLOW, **times)

    made = sorted((r for r in backfilled(airflow) if begins(r) >= start), key=begins)
    assert [begins(run) for run in made] == [start, last]
    assert made[0]["dag_run_id"] == former["dag_run_id"]
    for run in made:
        assert "is done" in Run(airflow.api, DAG, run["dag_run_id"]).succeeds().log("backfill")
    moved = ids(airflow, f"{FLOW}.replay") - had
    assert moved
    assert moved == committed(airflow, start, end)
    assert live(airflow) == stands
