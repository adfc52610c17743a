"""A flow that is woken by its source's changes, and goes on when its worker dies, long before Airflow takes notice."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import psutil
import pytest
from confluent_kafka import KafkaException

from tests.e2e.airflow_world import FLOW_FILE, AirflowWorld, Run, until

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

NAME = "e2e_wake"
"""Economy mode, a run an hour by the timetable: what happens in between is what woke it."""


def write_flow(airflow: AirflowWorld) -> None:
    text = FLOW_FILE.format(
        name=NAME, engine="connect", max_rows=100, every_s=3600, backfill_s=86_400, sink={}, options={}, mode="economy"
    )
    woken = text.replace("flow, every=", "flow, wake=timedelta(0), every=")
    assert woken != text
    (airflow.dags / f"{NAME}.py").write_text(woken)
    airflow.knows({NAME})


def runs(airflow: AirflowWorld, kind: str) -> list[str]:
    return [run["dag_run_id"] for run in airflow.api.runs(NAME) if run["run_type"] == kind]


def idle(airflow: AirflowWorld) -> bool:
    """Every change has arrived, and no run is left that holds a worker."""
    states = {run["state"] for run in airflow.api.runs(NAME)}
    return bool(states) and states <= {"success"} and arrived(airflow)


def arrived(airflow: AirflowWorld) -> bool:
    try:
        return airflow.has_all(NAME)
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
def _flow(airflow: AirflowWorld) -> Iterator[None]:
    """The flow, until the test ends: rows of other tests are not to wake it."""
    airflow.writer.run(10)
    write_flow(airflow)
    try:
        yield
    finally:
        airflow.api.pause(NAME, paused=True)


@pytest.mark.usefixtures("_flow")
def test_it_is_woken_by_rows_and_taken_over_from_a_dead_worker(
    airflow: AirflowWorld, record_property: Callable[[str, object], None]
) -> None:
    until("all that was there is moved", lambda: idle(airflow))
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
        until("another run commits", lambda: (now := store.load(NAME)) is not None and now.epoch > epoch)
    taken_s = time.monotonic() - at
    assert dead.task("transfer")["state"] == "running"  # as far as Airflow knows
    until("all is moved", lambda: airflow.has_all(NAME))
    airflow.api.set_task_state(NAME, dead.run_id, "transfer", "failed")
    airflow.assert_all_arrived_once(NAME)
    figures = {"woken": fresh_s, "taken over from a dead worker": taken_s}
    for what, seconds in figures.items():
        record_property(what.replace(" ", "_"), round(seconds, 1))
        sys.stdout.write(f"{what}: {seconds:.1f} s (bar of the takeover: {timedelta(seconds=30)})\n")
