"""Two schedulers on one database, one of them killed: Airflow may start what it likes, each row comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from databus.demo.airflow_api import AirflowApi
from databus.demo.shop import ShopWriter, create_shop
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.connections import postgres_url
from tests.e2e.airflow_world import AirflowWorld, flow_file, shop_connection, until
from tests.e2e.conftest import ENVIRONMENT
from tests.integration.kafka_target import consume, event_id, forget_kept
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

FIRST, THEN = ("zookeeper", "kafka", "mysql", "postgres"), ("spark", "airflow")
FLOW, BACKFILL = "two_schedulers", "two_schedulers_backfill"
INTERVAL = timedelta(seconds=10)
LOST_AFTER = {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowWorld]:
    home, dags = tmp_path_factory.mktemp("two_schedulers"), tmp_path_factory.mktemp("dags")
    flow_file(dags, FLOW, max_rows=400, every_s=10, backfill_s=INTERVAL.total_seconds())
    sandbox = Sandbox(home, ports_from=ports_from(26_500))
    try:
        sandbox.up(FIRST)
        url = postgres_url(sandbox.status_of("postgres"))
        environment = {
            **ENVIRONMENT, **LOST_AFTER,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": url,
        }  # fmt: skip
        options = SandboxOptions(dags_folder=dags, airflow_env=environment, airflow_schedulers=2)
        sandbox = Sandbox(home, ports_from=ports_from(26_500), options=options)
        with shop_connection(sandbox) as connection:
            create_shop(connection)
            sandbox.up(THEN)
            with AirflowApi(sandbox.address("airflow")) as api:
                world = AirflowWorld(sandbox, home, dags, api, connection, ShopWriter(connection, seed=7))
                world.knows({FLOW})
                yield world
    finally:
        forget_kept()
        sandbox.destroy()


def schedulers(airflow: AirflowWorld) -> list[tuple[int, str]]:
    """Return (id, state) of the schedulers that the database knows."""
    query = "SELECT id, state FROM job WHERE job_type = 'SchedulerJob' ORDER BY id"
    return [(int(number), str(state)) for number, state in asked(airflow, query)]


def asked(airflow: AirflowWorld, query: str) -> list[tuple[Any, ...]]:
    url = postgres_url(airflow.sandbox.status_of("postgres")).replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def ids(airflow: AirflowWorld, topic: str) -> Counter[str]:
    messages = consume(airflow.sandbox.address("kafka"), topic)
    return Counter(event_id(m) for m in messages if m.value() is not None)


def test_each_row_comes_once_whichever_scheduler_starts_what(airflow: AirflowWorld) -> None:
    until("both schedulers run", lambda: [state for _, state in schedulers(airflow)] == ["running"] * 2)
    begin = datetime.now(UTC).replace(microsecond=0)
    airflow.api.pause(FLOW, paused=False)
    airflow.api.pause(BACKFILL, paused=False)
    with airflow.writing():
        until("there is a range to move again", lambda: datetime.now(UTC) > begin + 4 * INTERVAL)
        conf = {"mode": "replay", "suffix": ".again", "order": "parallel"}
        airflow.api.backfill(BACKFILL, (begin.isoformat(), (begin + 3 * INTERVAL).isoformat()), conf, 4)
        same = {
            "from": begin.isoformat(),
            "to": (begin + 3 * INTERVAL).isoformat(),
            "mode": "replay",
            "order": "parallel",
        }
        triggered = [airflow.trigger(BACKFILL, {**same, "suffix": ".triggered"}) for _ in range(2)]
        until("both schedulers have started tasks", lambda: len(started_by(airflow)) == 2)
        airflow.sandbox.kill("airflow", "scheduler-2")
        until("it is given up", lambda: "failed" in [state for _, state in schedulers(airflow)])
        for run in triggered:
            run.succeeds()
        until("the intervals are over", lambda: states(airflow)["success"] >= 3)
    until("all has arrived", lambda: airflow.has_all(FLOW))
    airflow.api.pause(FLOW, paused=True)
    airflow.assert_all_arrived_once(FLOW)
    live, again, whole = (ids(airflow, FLOW + suffix) for suffix in ("", ".again", ".triggered"))
    assert (set(again.values()), set(whole.values())) == ({1}, {1})
    assert set(whole) <= set(live)
    assert set(again) <= set(live)
    # Intervals lie on the timetable's grid: all but the first and the last are of the triggered range as well.
    assert set(again) & set(whole)


def started_by(airflow: AirflowWorld) -> set[int]:
    """Return the schedulers that have started tasks."""
    return {
        row[0] for row in asked(airflow, "SELECT DISTINCT queued_by_job_id FROM task_instance") if row[0] is not None
    }


def states(airflow: AirflowWorld) -> Counter[str]:
    return Counter(str(r["state"]) for r in airflow.runs(BACKFILL) if r["run_type"] == "backfill")
