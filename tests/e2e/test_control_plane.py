"""Assets, sensors, triggers, callbacks and deadlines in a real Airflow; rows are moved from here, without Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.demo.airflow_api import AirflowApi
from databus.demo.shop import ShopWriter
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections
from tests.e2e.airflow_world import AirflowWorld, Run, until
from tests.integration.one_process import OneProcess
from tests.unit.observe.receivers import Hooks, http_receiver

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

TOLD = Flow(
    name="e2e_told",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="latest"),
    sinks=(Kafka(conn_id="kafka_east", topic="e2e_told"),),
    batching=Batching(max_wait=timedelta(seconds=1)),
)
HEAD = f"""
from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.providers.standard.operators.empty import EmptyOperator
from databus.airflow.assets import output_asset
from databus.airflow.operators.audit import AuditOperator
from databus.airflow.sensors import ChangesSensor, LagSensor
from databus.airflow.triggers import ChangesTrigger
from databus.registry import flow_from_json

told = flow_from_json({TOLD.to_json()!r})
again = {{"retries": 3, "retry_delay": 1}}  # on a busy machine Airflow gives a task up that starts late
"""
FILES = {
    "e2e_waiting": """
with DAG("e2e_waiting", schedule=None, default_args=again):
    changes = ChangesSensor(task_id="changes", flow=told, poll=timedelta(seconds=0.5))
    lag = LagSensor(task_id="lag", flow=told, max_bytes=0, poll=timedelta(seconds=0.5))
    changes >> lag >> AuditOperator(task_id="audit", flow=told)
""",
    "e2e_audited": """
with DAG("e2e_audited", schedule=None, default_args=again):
    AuditOperator(task_id="audit", flow=told)
""",
    "e2e_downstream": """
with DAG("e2e_downstream", schedule=[output_asset("kafka_east", "e2e_told")]):
    EmptyOperator(task_id="went")
""",
    "e2e_woken": """
watcher = AssetWatcher(name="changes of e2e_told", trigger=ChangesTrigger(told, poll=timedelta(seconds=0.5)))
with DAG("e2e_woken", schedule=[Asset("e2e_told_changes", watchers=[watcher])]):
    EmptyOperator(task_id="woke")
""",
}
FAILING = """
from datetime import timedelta

from databus import AlertWhen, Flow, Kafka, MysqlBinlog, Webhook
from databus.airflow import flow_dag

flow = Flow(
    name="e2e_failing",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="earliest"),
    sinks=(Kafka(conn_id="kafka_east", topic="e2e_failing", **{sink!r}),),
    alerts=(AlertWhen(run_time=timedelta(seconds=1.2)), Webhook(conn_id="alert_hook")),
)
dag = flow_dag(
    flow, schedule=None, spark_conn_id="no_such_spark",
    default_args={{"retries": 1, "retry_delay": timedelta(seconds=3)}},
)
"""


@dataclass
class Plane:
    """Airflow with this module's DAGs, a shop, and where alerts go."""

    sandbox: Sandbox
    home: Path
    dags: Path
    api: AirflowApi
    writer: ShopWriter
    hooks: Hooks

    def trigger(self, dag: str) -> Run:
        return Run(self.api, dag, self.api.trigger(dag))

    def mark_failed(self, run: Run) -> None:
        """Say that a run has failed, as a person does in the UI."""
        path = f"/dags/{run.dag}/dagRuns/{run.run_id}"
        self.api._client.patch(path, json={"state": "failed"}).raise_for_status()

    def alerts(self) -> list[tuple[str, str, str]]:
        return [(p.body["kind"], p.body["subject"], p.body["event"]) for p in self.hooks.requests]

    def move(self, run_id: str) -> int:
        """Move what is there, as the transfer task of a run would; return the rows."""
        settings = Settings("default", str(self.home / "segments"), f"sqlite:///{self.home / 'records.db'}")
        connections = EnvironmentConnections(airflow_connections(self.sandbox.status()))
        control = WindowControl(WindowLimits(max_seconds=240, until_caught_up=True))
        with open_services(TOLD, connections, settings) as services:
            return run_flow(TOLD, services, OneProcess(), RunIdentity(run_id, "", __version__), control).rows


@pytest.fixture(scope="module")
def plane(airflow: AirflowWorld) -> Iterator[Plane]:
    for name, text in FILES.items():
        (airflow.dags / f"{name}.py").write_text(HEAD + text)
    (airflow.dags / "e2e_failing.py").write_text(FAILING.format(sink={"replication_factor": 3}))
    with http_receiver() as hooks:
        hook = {"conn_type": "http", "host": "127.0.0.1", "port": hooks.port, "schema": "http"}
        airflow.api._client.delete("/connections/alert_hook")
        airflow.api._client.post("/connections", json={"connection_id": "alert_hook", **hook}).raise_for_status()
        airflow.knows({*FILES, "e2e_failing"})
        yield Plane(airflow.sandbox, airflow.home, airflow.dags, airflow.api, airflow.writer, hooks)


def test_sensors_wait_in_the_triggerer_and_an_audited_output_starts_what_waits_for_it(plane: Plane) -> None:
    plane.move("before")
    started = len(plane.api.runs("e2e_downstream"))
    run = plane.trigger("e2e_waiting")
    run.reaches("changes", "deferred")
    plane.writer.run(5)
    run.reaches("changes", "success")
    run.reaches("lag", "deferred")
    assert plane.move(run.run_id) > 0
    run.reaches("lag", "success")
    run.reaches("audit", "success")
    assert "asset databus://kafka_east/e2e_told" in run.log("audit")
    until("the downstream DAG starts", lambda: len(plane.api.runs("e2e_downstream")) == started + 1)
    assert plane.api.runs("e2e_downstream")[0]["run_type"] == "asset_triggered"
    idle = plane.trigger("e2e_audited")
    idle.reaches("audit", "success")
    assert "asset databus" not in idle.log("audit")
    assert len(plane.api.runs("e2e_downstream")) == started + 1


def test_an_asset_watcher_wakes_a_dag_when_rows_come(plane: Plane) -> None:
    plane.move("before")
    before = len(plane.api.runs("e2e_woken"))
    plane.writer.run(3)
    until("the DAG is woken", lambda: len(plane.api.runs("e2e_woken")) > before)
    plane.move("after")


def test_failures_and_deadlines_are_told_once_and_their_end_once(plane: Plane) -> None:
    runs = [plane.trigger("e2e_failing") for _ in range(2)]
    for run in runs:
        run.reaches("preflight", "failed")
    until("it is told", lambda: ("failure", "preflight", "raised") in plane.alerts())
    told = next(p.body for p in plane.hooks.requests if p.body["kind"] == "failure")
    first = next(run for run in runs if run.run_id == told["run_id"])
    assert unquote(told["run_url"]) == plane.api.run_address(first.dag, first.run_id)
    assert "replication" in told["summary"]
    assert told["runbook"].endswith("failure.md")
    (plane.dags / "e2e_failing.py").write_text(FAILING.format(sink={}))

    def mended() -> Run | None:
        run = plane.trigger("e2e_failing")
        until("preflight ends", lambda: run.task("preflight")["state"] in {"success", "failed"})
        return run if run.task("preflight")["state"] == "success" else None

    late: Run = until("preflight passes", mended)
    late.reaches("transfer", "failed")  # its Spark connection does not exist
    wanted = [
        ("failure", "preflight", "raised"),
        ("failure", "preflight", "recovered"),
        ("failure", "transfer", "raised"),
    ]
    until("all is told", lambda: set(wanted) <= set(plane.alerts()))
    assert [alert for alert in plane.alerts() if alert[0] == "failure"] == wanted
    until("the deadline is told", lambda: ("deadline", late.run_id, "raised") in plane.alerts())
    # A run that nobody begins is late, too. It ends without a callback; the next run asks Airflow for it, and for those
    # whose deadlines were told after they had ended.
    plane.api.pause("e2e_failing", paused=True)
    stuck = plane.trigger("e2e_failing")
    until("it is told of a queued run", lambda: ("deadline", stuck.run_id, "raised") in plane.alerts())
    told = next(p.body for p in plane.hooks.requests if p.body["subject"] == stuck.run_id)
    assert unquote(told["run_url"]) == plane.api.run_address(stuck.dag, stuck.run_id)
    assert told["runbook"].endswith("deadline.md")
    plane.mark_failed(stuck)
    assert ("deadline", stuck.run_id, "recovered") not in plane.alerts()
    plane.api.pause("e2e_failing", paused=False)
    plane.trigger("e2e_failing").reaches("preflight", "success")
    wanted = {("deadline", run.run_id, "recovered") for run in (late, stuck)}
    until("the deadlines are over", lambda: wanted <= set(plane.alerts()))
    assert len(plane.alerts()) == len(set(plane.alerts()))


def test_the_metadata_database_holds_no_secret_of_a_channel(plane: Plane) -> None:
    """A deadline's callback is stored with its arguments: the flow names connections by id only."""
    database = next((plane.home / "airflow").rglob("airflow.db"))
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as metadata:
        rows = metadata.execute("SELECT data FROM serialized_dag WHERE dag_id = 'e2e_failing'").fetchall()
    metadata.close()
    assert rows
    assert not any(str(plane.hooks.port) in str(row) for row in rows)
