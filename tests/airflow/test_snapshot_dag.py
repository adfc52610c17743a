"""Beside a flow's DAG stands its snapshot DAG: its form, and a trigger that waits for the end and logs progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.exceptions import ParamValidationError as ServerParamValidationError
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowException, AirflowFailException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from databus import Flow, KafkaTopics, MysqlBinlog, Webhook
from databus.airflow.snapshots import trigger as triggers
from databus.airflow.snapshots.operator import ACTIONS, SnapshotOperator, snapshot_params
from databus.airflow.snapshots.trigger import SnapshotTrigger
from databus.core.errors import CheckpointFormatError
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.core.state.snapshot_progress import progress_of
from databus.ops.health.head import SnapshotSeen
from tests.airflow import test_backfill_dag
from tests.airflow.test_backfill_dag import made

SOURCE = MysqlBinlog(conn_id="m", tables=("shop.orders",), snapshot="initial")
FLOW = test_backfill_dag.FLOW.model_copy(update={"source": SOURCE})
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
READ = Snapshot(3, "request", NOON, (TableProgress("shop.orders", "reading", ("4",), 1, 50, 0, 100),))
DONE = replace(READ, tables=(replace(READ.tables[0], state="done", rows=90),), finished_at=NOON + timedelta(seconds=9))


def test_the_dag_waits_as_long_as_it_takes_and_is_not_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"execution_timeout": timedelta(minutes=2), "retries": 2}
    dags = made(
        monkeypatch, FLOW, dagrun_timeout=timedelta(minutes=5), default_args=limits, is_paused_upon_creation=True
    )
    assert set(dags) == {"orders", "orders_backfill", "orders_snapshot"}
    dag = dags["orders_snapshot"]
    assert (dag.schedule, dag.dagrun_timeout, dag.is_paused_upon_creation) == (None, None, False)
    assert dag.fileloc == made.__code__.co_filename
    assert dag.tags == {"databus", "snapshot"}
    (task,) = dag.tasks
    assert isinstance(task, SnapshotOperator)
    assert (task.retries, task.execution_timeout) == (2, None)
    assert dag.max_active_runs > 1  # one pauses or cancels what another waits for
    assert "`databus snapshot show orders`" in (dag.doc_md or "")


def test_no_dag_where_none_is_wanted_or_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(made(monkeypatch, FLOW, snapshots=False)) == {"orders", "orders_backfill"}
    later = test_backfill_dag.FLOW  # begins behind the rows of its tables
    assert set(made(monkeypatch, later)) == {"orders", "orders_backfill"}
    assert "orders_snapshot" in made(monkeypatch, later, snapshots=True)
    topics = Flow(name="copied", source=KafkaTopics(conn_id="k", topics=("t",)), sinks=FLOW.sinks)
    assert set(made(monkeypatch, topics, snapshots=True)) == {"copied", "copied_backfill"}


def test_channels_of_the_flow_are_notified_of_a_failure_and_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    alerted = FLOW.model_copy(update={"alerts": (Webhook(conn_id="hook"),)})
    task = made(monkeypatch, alerted)["orders_snapshot"].task_dict["snapshot"]
    (failed,), (well,) = task.on_failure_callback, task.on_success_callback
    assert (str(failed.kind), well.kind, well.well) == ("failure", None, ("snapshot",))


def test_every_field_of_the_form_has_a_type_a_title_and_a_help_text() -> None:
    params = snapshot_params("orders")
    for name, param in params.items():
        assert param.schema["type"], name
        assert param.schema["title"], name
        assert len(param.schema["description_md"]) > 40, name
        param.resolve()
        assert param.value not in (None, "") or "null" in param.schema["type"], name
    assert params["action"].schema["enum"] == list(ACTIONS)


def test_a_run_gets_the_form_and_the_server_refuses_other_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = made(monkeypatch, FLOW)["orders_snapshot"]
    kept = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    asked = {"tables": ["shop.orders"], "where": "id > 7"}
    given = process_params(dag, dag.task_dict["snapshot"], asked, suppress_exception=False)
    assert given == {"action": "begin", "reason": None, **asked}
    assert kept.params.deep_merge(asked).validate() == given
    for wrong in ({"action": "stop"}, {"tables": "shop.orders"}):
        with pytest.raises(ParamValidationError):
            process_params(dag, dag.task_dict["snapshot"], wrong, suppress_exception=False)
        with pytest.raises(ServerParamValidationError):
            kept.params.deep_merge(wrong).validate()


def fired(monkeypatch: pytest.MonkeyPatch, *seen: SnapshotSeen | Exception) -> list[dict[str, Any]]:
    """Return the events of a trigger that waits for snapshot 3 and sees these one after the other."""

    async def given(flow: Flow, _poll_s: float, patience: float, _look: Any) -> AsyncGenerator[SnapshotSeen]:
        assert (flow, patience) == (FLOW, float("inf"))  # ZooKeeper may be away for long
        for one in seen:
            if isinstance(one, Exception):
                raise one
            yield one

    monkeypatch.setattr(triggers, "looks", given)
    monkeypatch.setattr(triggers, "LOG_S", 0.0)
    path, arguments = SnapshotTrigger(FLOW, 3).serialize()
    again = getattr(triggers, path.rpartition(".")[2])(**arguments)  # as the triggerer makes it

    async def collect() -> list[dict[str, Any]]:
        return [event.payload async for event in again.run()]

    return asyncio.run(collect())


def at(snapshot: Snapshot | None, *, running: bool = True) -> SnapshotSeen:
    return SnapshotSeen(None if snapshot is None else progress_of(snapshot, NOON + timedelta(seconds=5)), running)


def test_the_trigger_logs_progress_until_the_snapshot_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    later = replace(READ, tables=(replace(READ.tables[0], rows=60),))
    events = fired(monkeypatch, at(READ), at(READ), at(later, running=False), at(DONE), at(READ))
    assert events == [{"number": 3}]
    assert [record.message.partition(" tables, ")[2] for record in caplog.records] == [
        "50 of about 100 rows, 10 rows/s, about 5 s left",
        "60 of about 100 rows, 12 rows/s, about 3 s left; no run of the flow moves rows now",
    ]


@pytest.mark.parametrize("other", [None, replace(READ, number=4), replace(DONE, cancelled=True)])
def test_the_trigger_ends_where_nothing_is_left_to_wait_for(
    monkeypatch: pytest.MonkeyPatch, other: Snapshot | None
) -> None:
    assert fired(monkeypatch, at(replace(READ, paused=True)), at(other)) == [{"number": 3}]


def test_an_error_that_no_retry_mends_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    (event,) = fired(monkeypatch, at(READ), CheckpointFormatError("not ours"))
    assert (event["number"], event["retryable"]) == (3, False)
    task = SnapshotOperator(task_id="snapshot", flow=FLOW)
    with pytest.raises(AirflowFailException, match="not ours"):
        task.ended({}, event)
    with pytest.raises(AirflowException) as raised:
        task.ended({}, {**event, "retryable": True})
    assert not isinstance(raised.value, AirflowFailException)
