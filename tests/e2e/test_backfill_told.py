"""What a real Airflow tells of a backfill: its failure, its batches in the run's tab, its outputs, its lineage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from databus import AlertWhen, Flow, Kafka, MysqlBinlog, Webhook, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.sandbox.connections import airflow_connections
from tests.contract.openlineage_schemas import assert_valid
from tests.e2e.airflow_world import AirflowWorld, Run, until
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcess
from tests.unit.observe.receivers import Hooks, http_receiver

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(900)]

NAME = "e2e_told_backfill"
DAG, DOWNSTREAM = f"{NAME}_backfill", f"{NAME}_downstream"
FLOW = Flow(
    name=NAME,
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",), start="latest"),
    sinks=(Kafka(conn_id="kafka_east", topic=NAME),),
    alerts=(AlertWhen(run_time=timedelta(seconds=1.2)), Webhook(conn_id="backfill_hook")),
)
FILE = f"""
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from databus.airflow import flow_dag
from databus.airflow.assets import output_asset
from databus.registry import flow_from_json

flow = flow_from_json({FLOW.to_json()!r})
dag = flow_dag(flow, schedule=None, spark_conn_id="spark_of_backfills", default_args={{"retries": 0}})
with DAG({DOWNSTREAM!r}, schedule=[output_asset("kafka_east", {NAME!r})]):
    EmptyOperator(task_id="went")
"""


@dataclass
class Told:
    """Airflow with the flow of this module, which has passed rows over, and where its alerts go."""

    airflow: AirflowWorld
    hooks: Hooks
    start: str
    rows: int

    def connect(self, conn_id: str, conn_type: str, host: str, port: int) -> None:
        """Give Airflow a connection."""
        body = {"connection_id": conn_id, "conn_type": conn_type, "host": host, "port": port}
        if conn_type == "http":
            body["schema"] = "http"
        self.airflow.api._client.post("/connections", json=body).raise_for_status()

    def alerts(self, subject: str) -> list[dict[str, Any]]:
        return [p.body for p in self.hooks.requests if p.body["subject"] == subject]

    def tab(self, run: Run) -> httpx.Response:
        """Ask for what the tab on a run shows, as its page does."""
        root = f"http://{self.airflow.sandbox.address('airflow')}"
        token = httpx.get(f"{root}/auth/token", timeout=120).raise_for_status().json()["access_token"]
        path = f"/databus/api/v1/dags/{run.dag}/runs/{quote(run.run_id, safe='')}"
        return httpx.get(f"{root}{path}", headers={"Authorization": f"Bearer {token}"}, timeout=120)

    def lineage(self) -> list[dict[str, Any]]:
        return [e for e in self.airflow.lineage_events() if e["job"]["name"] == f"{DAG}.window"]


@pytest.fixture(scope="module")
def told(airflow: AirflowWorld) -> Iterator[Told]:
    with airflow.connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
    before = sum(airflow.writer.written.changes.values())
    airflow.writer.run(10)
    rows = sum(airflow.writer.written.changes.values()) - before
    # The live flow begins behind these rows: they are missing.
    settings = Settings("default", str(airflow.home / "segments"), f"sqlite:///{airflow.home / 'records.db'}")
    connections = EnvironmentConnections(airflow_connections(airflow.sandbox.status()))
    control = WindowControl(WindowLimits(max_seconds=240, until_caught_up=True))
    with open_services(FLOW, connections, settings) as services:
        run_flow(FLOW, services, OneProcess(), RunIdentity("first", "", __version__), control)
    (airflow.dags / f"{NAME}.py").write_text(FILE)
    with http_receiver() as hooks:
        told = Told(airflow, hooks, f"{file}:{position}", rows)
        told.connect("backfill_hook", "http", "127.0.0.1", hooks.port)
        airflow.knows({NAME, DAG, DOWNSTREAM})
        airflow.api.pause(DAG, paused=False)
        yield told
        airflow.api.pause(DAG, paused=True)


def test_a_failed_backfill_is_told_and_once_it_is_moved_that_it_is_over(told: Told) -> None:
    form = {"from": told.start, "to": "latest"}
    subject = f"backfill missing {told.start} to latest"
    run = told.airflow.trigger(DAG, form)
    run.reaches("backfill", "failed")  # its Spark connection does not exist
    (failed,) = until("it is told", lambda: told.alerts(subject))
    assert (failed["flow"], failed["kind"], failed["event"]) == (NAME, "failure", "raised")
    assert (failed["range"], failed["run_id"]) == (f"[{told.start}, latest)", run.run_id)
    assert unquote(failed["run_url"]) == told.airflow.api.run_address(DAG, run.run_id)
    assert "spark_of_backfills" in failed["summary"]
    assert failed["runbook"].endswith("failure.md")
    assert told.tab(run).status_code == 404  # nothing was moved
    # Another range that fails is told by itself.
    told.airflow.trigger(DAG, {"from": "2026-01-02", "to": "2026-01-01"}).reaches("backfill", "failed")
    other = "backfill missing 2026-01-02T00:00:00+00:00 to 2026-01-01T00:00:00+00:00"
    until("the other is told", lambda: told.alerts(other))

    spark = told.airflow.sandbox.status_of("spark")
    told.connect("spark_of_backfills", "spark_connect", f"sc://{spark.host}", spark.port)
    told.airflow.api.clear(DAG, run.run_id)
    until("it runs again", lambda: run.task("backfill")["try_number"] > 1)
    assert "is done" in run.succeeds().log("backfill")
    until("its end is told", lambda: len(told.alerts(subject)) > 1)
    raised, over = told.alerts(subject)
    assert (over["event"], over["incident"]) == ("recovered", raised["incident"])
    assert [alert["event"] for alert in told.alerts(other)] == ["raised"]
    # The live flow's deadline, 1.2 s, is none of a backfill.
    assert "deadline" not in {post.body["kind"] for post in told.hooks.requests}

    shown = told.tab(run).raise_for_status().json()
    assert shown["counts"]["dispatched"] == told.rows
    assert shown["counts"]["reconciled"]
    assert {batch["flow"].partition("-")[0] for batch in shown["batches"]} == {f"{NAME}.backfill"}
    assert len([m for m in consume(told.airflow.sandbox.address("kafka"), NAME) if m.value() is not None]) == told.rows

    assert f"asset databus://kafka_east/{NAME}" in run.log("backfill")
    (started,) = until("the downstream DAG starts", lambda: told.airflow.runs(DOWNSTREAM))
    assert started["run_type"] == "asset_triggered"

    events = told.lineage()
    # The run, the other range, and the run once it was cleared; scheduled runs move nothing and are not told of.
    assert [e["eventType"] for e in events] == ["START", "FAIL", "START", "FAIL", "START", "COMPLETE"]
    assert all(assert_valid(event) for event in events)
    begun, ended = events[-2:]
    assert begun["run"]["runId"] == ended["run"]["runId"] != events[0]["run"]["runId"]
    assert {output["name"] for output in ended["outputs"]} == {NAME}
    assert ended["run"]["facets"]["databus"]["values"]["rows"]["dispatched"] == told.rows
