"""Assets, sensors, triggers and alerts of a flow in a real Airflow: scheduler, triggerer, callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.airflow_world import AirflowWorld, Run, until
from tests.unit.observe.receivers import Hooks, http_receiver

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

FLOW = """
from datetime import timedelta

from databus import AlertWhen, Flow, Kafka, MysqlBinlog, Webhook
from databus.airflow import flow_dag

flow = Flow(
    name={name!r},
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="earliest"),
    sinks=(Kafka(conn_id="kafka_east", topic={name!r}, **{sink!r}),),
    alerts=(AlertWhen(lag_seconds=86400, run_minutes=30), Webhook(conn_id="alert_hook")),
)
dag = flow_dag(
    flow, every=timedelta(seconds=5), schedule=None, default_args={{"retries": 1, "retry_delay": timedelta(seconds=1)}}
)
"""
DOWNSTREAM = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
from databus.airflow.assets import output_asset

with DAG("e2e_downstream", schedule=[output_asset("kafka_east", "e2e_told")]):
    EmptyOperator(task_id="went")
"""
SENSORS = """
from airflow.sdk import DAG
from databus import Flow, Kafka, MysqlBinlog
from databus.airflow.sensors import ChangesSensor, LagSensor

told = Flow(
    name="e2e_told",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="earliest"),
    sinks=(Kafka(conn_id="kafka_east", topic="e2e_told"),),
)
with DAG("e2e_sensors", schedule=None):
    changes = ChangesSensor(task_id="changes", flow=told, poll_s=0.5)
    changes >> LagSensor(task_id="lag", flow=told, max_bytes=0, poll_s=0.5)
"""
WOKEN = """
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.providers.standard.operators.empty import EmptyOperator
from databus import Flow, Kafka, MysqlBinlog
from databus.airflow.triggers import ChangesTrigger

told = Flow(
    name="e2e_told",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="earliest"),
    sinks=(Kafka(conn_id="kafka_east", topic="e2e_told"),),
)
watcher = AssetWatcher(name="changes of e2e_told", trigger=ChangesTrigger(told, poll_s=0.5))
with DAG("e2e_woken", schedule=[Asset("e2e_told_changes", watchers=[watcher])]):
    EmptyOperator(task_id="woke")
"""


@dataclass
class Plane:
    """Airflow with flows of this module's, and where their alerts go."""

    airflow: AirflowWorld
    hooks: Hooks

    def alerts(self, flow: str) -> list[dict[str, Any]]:
        return [posted.body for posted in self.hooks.requests if posted.body["flow"] == flow]

    def moved(self, rows: int) -> Run:
        self.airflow.writer.run(rows)
        return self.airflow.trigger("e2e_told").succeeds()


@pytest.fixture(scope="module")
def plane(airflow: AirflowWorld) -> Iterator[Plane]:
    with http_receiver() as hooks:
        body = {
            "connection_id": "alert_hook", "conn_type": "http", "host": "127.0.0.1", "port": hooks.port,
            "schema": "http",
        }  # fmt: skip
        airflow.api._client.post("/connections", json=body).raise_for_status()
        texts = {
            "e2e_told": FLOW.format(name="e2e_told", sink={}),
            "e2e_told_refused": FLOW.format(name="e2e_told_refused", sink={"replication_factor": 3}),
            "e2e_downstream": DOWNSTREAM,
            "e2e_sensors": SENSORS,
            "e2e_woken": WOKEN,
        }
        for name, text in texts.items():
            (airflow.dags / f"{name}.py").write_text(text)
        until("all DAGs are known", lambda: set(texts) <= set(airflow.api.dags()) or _refuse_errors(airflow))
        yield Plane(airflow, hooks)


def _refuse_errors(airflow: AirflowWorld) -> None:
    errors = airflow.api.import_errors()
    assert not errors, errors


def test_an_output_starts_what_waits_for_it_and_an_idle_run_does_not(plane: Plane) -> None:
    run = plane.moved(30)
    started = until("the downstream DAG starts", lambda: plane.airflow.runs("e2e_downstream"))
    assert [r["run_type"] for r in started] == ["asset_triggered"]
    assert "asset databus://kafka_east/e2e_told" in run.log("audit")
    idle = plane.airflow.trigger("e2e_told").succeeds()
    assert "asset databus" not in idle.log("audit")
    plane.moved(5)
    until("it starts again", lambda: len(plane.airflow.runs("e2e_downstream")) == 2)


def test_sensors_wait_in_the_triggerer(plane: Plane) -> None:
    plane.moved(1)
    waiting = plane.airflow.trigger("e2e_sensors")
    waiting.reaches("changes", "deferred")
    plane.airflow.writer.run(3)
    waiting.reaches("changes", "success")
    waiting.reaches("lag", "deferred")
    plane.airflow.trigger("e2e_told").succeeds()
    waiting.reaches("lag", "success")


def test_an_asset_watcher_wakes_a_dag_when_rows_come(plane: Plane) -> None:
    plane.moved(1)
    before = len(plane.airflow.runs("e2e_woken"))
    plane.airflow.writer.run(3)
    until("the DAG is woken", lambda: len(plane.airflow.runs("e2e_woken")) > before)


def test_a_failure_is_told_once_with_its_run_and_its_end_once(plane: Plane) -> None:
    runs = [plane.airflow.trigger("e2e_told_refused") for _ in range(2)]
    for run in runs:
        run.reaches("preflight", "failed")
    (alert,) = until("it is told", lambda: plane.alerts("e2e_told_refused"))
    assert (alert["kind"], alert["subject"], alert["event"]) == ("failure", "preflight", "raised")
    first = next(run for run in runs if run.run_id == alert["run_id"])
    assert alert["run_url"] == plane.airflow.api.run_address(first.dag, first.run_id)
    assert "replication" in alert["summary"]
    assert alert["runbook"].endswith("failure.md")
    file = plane.airflow.dags / "e2e_told_refused.py"
    file.write_text(FLOW.format(name="e2e_told_refused", sink={}))

    def mended() -> bool:
        run = plane.airflow.trigger("e2e_told_refused")
        until("the run ends", lambda: plane.airflow.api.run(run.dag, run.run_id)["state"] in {"success", "failed"})
        return bool(plane.airflow.api.run(run.dag, run.run_id)["state"] == "success")

    until("the flow runs", mended)
    until("its end is told", lambda: len(plane.alerts("e2e_told_refused")) > 1)
    events = [(a["subject"], a["event"]) for a in plane.alerts("e2e_told_refused")]
    assert events == [("preflight", "raised"), ("preflight", "recovered")]
    assert plane.alerts("e2e_told") == []
