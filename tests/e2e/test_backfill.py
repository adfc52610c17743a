"""Backfills by a real Airflow: from its REST API with data intervals, by trigger with a range, cleared and marked."""

from __future__ import annotations

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
from tests.integration.shop_flow import assert_arrived_once

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

FLOW, DAG = "e2e_backfill", "e2e_backfill_backfill"
INTERVAL = timedelta(seconds=20)


@pytest.fixture(scope="module", autouse=True)
def unpaused(airflow: AirflowWorld) -> Iterator[None]:
    """Airflow starts runs of this DAG, scheduled ones as well, which move nothing."""
    airflow.api.pause(DAG, paused=False)
    yield
    airflow.api.pause(DAG, paused=True)


def ids(airflow: AirflowWorld, topic: str) -> Counter[str]:
    """Event ids that a read_committed consumer sees."""
    messages = consume(airflow.sandbox.address("kafka"), topic)
    return Counter(event_id(m) for m in messages if m.value() is not None)


def backfilled(airflow: AirflowWorld) -> list[dict[str, Any]]:
    """Runs of Airflow's backfills: made by them, or scheduled ones of the interval that were taken up again."""
    return [r for r in airflow.runs(DAG) if r["run_type"] == "backfill"]


def live(airflow: AirflowWorld) -> tuple[Any, int]:
    with airflow.store() as store:
        return store.load(FLOW), store.epoch(FLOW)


def test_the_form_explains_each_field_and_refuses_other_choices(airflow: AirflowWorld) -> None:
    params = airflow.api.params(DAG)
    assert {"from", "to", "mode", "order", "suffix", "into_live", "name", "accept"} == set(params)
    assert all(param["schema"]["type"] and param["schema"]["description_md"] for param in params.values())
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        airflow.trigger(DAG, {"from": "earliest", "to": "latest", "mode": "everything"})


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


def test_a_bad_range_fails_at_once_and_says_why(airflow: AirflowWorld) -> None:
    run = airflow.trigger(DAG, {"from": "2026-01-02", "to": "2026-01-01"})
    assert run.reaches("backfill", "failed")["try_number"] == 1
    assert "[backfill_range]" in run.log("backfill")
    run = airflow.trigger(DAG, {"from": "2026-01-02"})
    assert run.reaches("backfill", "failed")["try_number"] == 1
    assert "needs both from and to" in run.log("backfill")


def test_data_intervals_of_a_native_backfill(airflow: AirflowWorld) -> None:
    begin = datetime.now(UTC).replace(microsecond=0)
    with airflow.writing():
        while datetime.now(UTC) < begin + 2 * INTERVAL + timedelta(seconds=2):
            time.sleep(0.5)
    airflow.catch_up(FLOW)
    stands = live(airflow)
    conf = {"mode": "replay", "suffix": ".intervals", "order": "parallel"}
    interval = (begin.isoformat(), (begin + INTERVAL).isoformat())
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
