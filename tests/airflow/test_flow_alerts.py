"""A flow's alerts in its DAG: callbacks, deadline, assets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from databus import AlertWhen, Flow, Kafka, MysqlBinlog, Webhook
from databus.airflow import flow_dag
from databus.airflow.assets import output_asset, outputs_alias
from databus.airflow.notifiers import AlertNotifier
from databus.airflow.reporting.alert_events import event_of
from databus.core.alerts.alert import AlertKind
from databus.core.errors import SourceUnavailableError
from databus.registry import flow_from_json

PLAIN = Flow(
    name="orders",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",)),
    sinks=(Kafka(conn_id="kafka_east", topic="cdc.orders"),),
)
FLOW = PLAIN.model_copy(
    update={"alerts": (AlertWhen(run_time=timedelta(minutes=3)), Webhook(conn_id="slack_ops", shape="slack"))}
)


def kinds(task: Any, which: str) -> list[tuple[Any, ...]]:
    return [(c.kind, c.well) for c in getattr(task, which) if isinstance(c, AlertNotifier)]


def test_one_line_of_alerts_sets_callbacks_and_a_deadline() -> None:
    dag = flow_dag(FLOW)
    tasks = dag.task_dict
    assert {task: kinds(tasks[task], "on_failure_callback") for task in tasks} == {
        "preflight": [(AlertKind.FAILURE, ())],
        "transfer": [(AlertKind.FAILURE, ())],
        "audit": [(AlertKind.FAILURE, ("transfer",))],
    }
    assert kinds(tasks["preflight"], "on_success_callback") == [(None, ("preflight",))]
    assert kinds(tasks["transfer"], "on_success_callback") == []
    assert kinds(tasks["audit"], "on_success_callback") == [(None, ("transfer", "audit"))]
    (deadline,) = dag.deadline
    assert deadline.interval == timedelta(minutes=3)
    assert flow_from_json(deadline.callback.kwargs["flow"]) == FLOW


def test_a_run_in_one_task_judges_what_three_would() -> None:
    task = flow_dag(FLOW, mode="economy").task_dict["transfer"]
    assert kinds(task, "on_failure_callback") == [(AlertKind.FAILURE, ())]
    assert kinds(task, "on_success_callback") == [(None, ("preflight", "transfer", "audit"))]


def test_a_flow_without_channels_has_none() -> None:
    for flow in (PLAIN, PLAIN.model_copy(update={"alerts": (AlertWhen(run_time=timedelta(minutes=3)),)})):
        dag = flow_dag(flow)
        assert not dag.deadline
        assert not any(task.on_failure_callback for task in dag.tasks)


def test_callbacks_of_the_author_are_kept() -> None:
    def mine(_context: Any) -> None: ...

    task = flow_dag(FLOW, default_args={"on_failure_callback": mine}).task_dict["transfer"]
    assert task.on_failure_callback[0] is mine
    assert len(task.on_failure_callback) == 2


def test_the_dag_survives_serialization() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    dag = flow_dag(FLOW)
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert again.dag_id == "orders"
    assert any(getattr(outlet, "name", "") == "databus:orders" for outlet in again.get_task("audit").outlets)


def test_a_failure_says_task_run_error_and_address() -> None:
    instance = SimpleNamespace(
        task_id="transfer", try_number=6, log_url="http://airflow/dags/orders/runs/r1/tasks/transfer?try_number=6"
    )
    error = SourceUnavailableError("mysql_shop does not answer", hint="Start it.")
    seen = event_of(AlertKind.FAILURE, {"ti": instance, "run_id": "r1", "exception": error})
    assert seen.key == "failure/transfer"
    assert "mysql_shop does not answer" in seen.summary
    assert (seen.run_id, seen.run_url) == ("r1", "http://airflow/dags/orders/runs/r1")
    assert seen.figures == {"attempts": 6}


def test_a_missed_deadline_is_one_alert_per_run() -> None:
    context = {"dag_run": {"dag_run_id": "r7"}, "deadline": {"deadline_time": datetime(2026, 1, 1, tzinfo=UTC)}}
    seen = event_of(AlertKind.DEADLINE, context)
    assert seen.key == "deadline/r7"
    assert "r7 missed its deadline" in seen.summary


def test_a_notifier_is_made_from_json_as_the_triggerer_does() -> None:
    notifier = AlertNotifier(flow=FLOW.to_json(), kind="deadline", context={"dag_run": {"dag_run_id": "r7"}})
    assert notifier._flow() == FLOW
    with pytest.raises(ValueError, match="no_such"):
        AlertNotifier(FLOW, "no_such")


def test_downstream_dags_name_an_output() -> None:
    asset = output_asset("kafka_east", "cdc.orders")
    assert (asset.uri, asset.name) == ("databus://kafka_east/cdc.orders", "kafka_east:cdc.orders")
    assert outputs_alias(FLOW).name == "databus:orders"
