"""A flow that is woken by its source's changes, and goes on when its worker dies, long before Airflow takes notice.

A takeover has to come within a minute: the flow's next run by the timetable is up to an hour away, and Airflow's notice
of a dead worker 300 s. The seconds themselves are a figure (bar of the takeover: 30 s), printed and recorded.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import psutil
import pytest
from confluent_kafka import KafkaException

from databus.airflow.dags import AGAIN_S
from databus.sandbox.connections import airflow_connections
from tests.e2e.airflow_world import FLOW_FILE, AirflowWorld, Run, until

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

NAME, CROWDED, POOL = "e2e_wake", "e2e_wake_crowded", "e2e_wake_pool"
EARLY, LATER = "e2e_wake_early", "mysql_later"
"""Economy mode, a run an hour by the timetable: what happens in between is what woke it."""

TAKEN_OVER_WITHIN_S = 60.0


def write_flow(airflow: AirflowWorld, name: str, pool: str, source: str = "mysql_shop") -> None:
    text = FLOW_FILE.format(
        name=name, engine="connect", max_rows=100, every_s=3600, backfill_s=86_400, sink={}, options={}, mode="economy"
    )
    woken = text.replace("flow, every=", "flow, wake=timedelta(0), every=")
    assert woken != text
    pooled = woken.replace("default_args={", f"default_args={{'pool': {pool!r}, ")
    assert pooled != woken
    (airflow.dags / f"{name}.py").write_text(pooled.replace("mysql_shop", source))
    airflow.knows({name})


def runs(airflow: AirflowWorld, kind: str, name: str = NAME) -> list[str]:
    return [run["dag_run_id"] for run in airflow.api.runs(name) if run["run_type"] == kind]


def idle(airflow: AirflowWorld, name: str = NAME) -> bool:
    """Every change has arrived, and no run is left that holds a worker."""
    states = {run["state"] for run in airflow.api.runs(name)}
    return bool(states) and states <= {"success"} and arrived(airflow, name)


def arrived(airflow: AirflowWorld, name: str = NAME) -> bool:
    try:
        return airflow.has_all(name)
    except KafkaException:  # its first row makes the topic
        return False


def kill_worker(run: Run) -> None:
    """SIGKILL the executor's worker process and the task's in it: nobody is left to report the task's end."""
    task = run.process()
    worker = task.parent()
    assert worker is not None
    assert "LocalExecutor" in " ".join(worker.cmdline()), worker.cmdline()
    worker.kill()
    task.kill()
    psutil.wait_procs([task, worker], timeout=30)


def assert_all_three_were_done(run: Run) -> None:
    """An economy run is one task; what it found, moved and audited is in its log."""
    assert set(run.api.graph(run.dag)) == {"transfer"}
    log = run.log("transfer")
    assert "OK: " in log
    assert f"asset databus://kafka_east/{NAME}" in log


@pytest.fixture
def flow(airflow: AirflowWorld) -> Iterator[Callable[[str, str], None]]:
    """Make flows that are paused when the test ends: rows of other tests are not to wake them."""
    made: list[str] = []

    def make(name: str, pool: str) -> None:
        airflow.writer.run(10)
        write_flow(airflow, name, pool)
        made.append(name)
        until("all that was there is moved", lambda: idle(airflow, name))

    try:
        yield make
    finally:
        for name in made:
            airflow.api.pause(name, paused=True)


def test_it_is_woken_by_rows_and_taken_over_from_a_dead_worker(
    airflow: AirflowWorld, flow: Callable[[str, str], None], record_property: Callable[[str, object], None]
) -> None:
    flow(NAME, "default_pool")
    woken = len(runs(airflow, "asset_triggered"))
    assert len(runs(airflow, "scheduled")) <= 1

    airflow.writer.run(10)
    at = time.monotonic()
    until("the rows arrive", lambda: arrived(airflow))
    fresh_s = time.monotonic() - at
    until("its run ends", lambda: idle(airflow))
    assert len(runs(airflow, "asset_triggered")) == woken + 1
    assert_all_three_were_done(next(Run(airflow.api, NAME, run) for run in runs(airflow, "asset_triggered")))

    with airflow.store() as store:
        before = store.load(NAME)
        airflow.writer.run(400)
        # A run that dies before its first commit is followed after a minute only: its place is the one that woke it.
        until("a woken run commits", lambda: (now := store.load(NAME)) is not None and now.batch > before.batch)
        epoch = store.epoch(NAME)
        airflow.in_mid_batch(NAME)
        dead = next(Run(airflow.api, NAME, run) for run in runs(airflow, "asset_triggered"))
        kill_worker(dead)
        at = time.monotonic()
        until(
            "another run commits",
            lambda: (now := store.load(NAME)) is not None and now.epoch > epoch,
            TAKEN_OVER_WITHIN_S,
        )
    taken_s = time.monotonic() - at
    assert dead.task("transfer")["state"] == "running"  # as far as Airflow knows
    until("all is moved", lambda: airflow.has_all(NAME))
    airflow.api.set_task_state(NAME, dead.run_id, "transfer", "failed")
    airflow.assert_all_arrived_once(NAME)
    figures = {"woken": fresh_s, "taken over from a dead worker": taken_s}
    for what, seconds in figures.items():
        record_property(what.replace(" ", "_"), round(seconds, 1))
        sys.stdout.write(f"{what}: {seconds:.1f} s (bar of the takeover: {timedelta(seconds=30)})\n")


def test_while_its_run_waits_for_a_slot_no_other_is_begun(
    airflow: AirflowWorld, flow: Callable[[str, str], None]
) -> None:
    airflow.api.pool(POOL, slots=1)
    flow(CROWDED, POOL)
    before = set(runs(airflow, "asset_triggered", CROWDED))
    airflow.api.pool(POOL, slots=0)
    airflow.writer.run(10)

    def woken() -> set[str]:
        return set(runs(airflow, "asset_triggered", CROWDED)) - before

    (run,) = until("it is woken", woken)
    time.sleep(AGAIN_S + 15)
    assert woken() == {run}
    assert Run(airflow.api, CROWDED, run).task("transfer")["state"] == "scheduled"
    airflow.api.pool(POOL, slots=1)
    until("the rows arrive", lambda: arrived(airflow, CROWDED))
    until("its run ends", lambda: idle(airflow, CROWDED))
    assert woken() == {run}
    airflow.assert_all_arrived_once(CROWDED)


def test_a_flow_may_be_deployed_before_its_connection(airflow: AirflowWorld) -> None:
    """Its first run and its watcher have asked for the connection in vain; both find it once it is there."""
    airflow.writer.run(10)
    try:
        write_flow(airflow, EARLY, "default_pool", LATER)
        (first,) = until("its first run begins", lambda: runs(airflow, "scheduled", EARLY))
        Run(airflow.api, EARLY, first).retries("transfer")
        missing = f"flow {EARLY}: [connection_missing]"
        until("its watcher has looked", lambda: missing in airflow.sandbox.logs("airflow", 2000, "triggerer"), 60)
        shop = json.loads(airflow_connections(airflow.sandbox.status())["AIRFLOW_CONN_MYSQL_SHOP"])
        airflow.api.add_connection(LATER, shop)
        until("its first run moves all that was there", lambda: idle(airflow, EARLY))
        before = len(runs(airflow, "asset_triggered", EARLY))
        airflow.writer.run(10)
        until("the rows arrive", lambda: arrived(airflow, EARLY))
        until("its run ends", lambda: idle(airflow, EARLY))
        assert len(runs(airflow, "asset_triggered", EARLY)) > before
        airflow.assert_all_arrived_once(EARLY)
    finally:
        airflow.api.pause(EARLY, paused=True)
