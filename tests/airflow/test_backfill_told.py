"""Who is told of a backfill: no deadline of windows, one alert per range until it is moved, outputs as assets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.definitions.dag import DAG
from airflow.serialization.serialized_objects import DagSerialization

from databus import AlertWhen, Flow, Kafka, MysqlBinlog, Webhook
from databus.airflow.backfills.alerts import BackfillNotifier, ScheduledLookNotifier
from databus.airflow.backfills.params import asked_of
from databus.airflow.reporting.lineage import end_failed_backfill
from databus.core.alerts.alert import AlertKind
from databus.core.errors import BackfillFutureError
from databus.observe.alerts.hysteresis import RuleVerdict
from tests.airflow.test_backfill_dag import made

PLAIN = Flow(
    name="orders",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",)),
    sinks=(Kafka(conn_id="kafka_east", topic="cdc.orders"),),
)
FLOW = PLAIN.model_copy(update={"alerts": (AlertWhen(run_time=timedelta(minutes=3)), Webhook(conn_id="ops"))})
DAY = datetime(2026, 11, 21, tzinfo=UTC)
FORM = {"from": None, "to": None, "mode": "missing", "suffix": ".replay", "into_live": False, "name": ""}


def context(run_type: DagRunType, form: dict[str, Any] | None = None, run_id: str = "r1") -> dict[str, Any]:
    """What Airflow gives a callback of a run; one of the form has no data interval."""
    instance = SimpleNamespace(
        task_id="backfill",
        try_number=1,
        log_url=f"http://airflow/dags/orders_backfill/runs/{run_id}/tasks/backfill?try_number=1",
    )
    interval = {} if form else {"data_interval_start": DAY, "data_interval_end": DAY + timedelta(days=1)}
    run = SimpleNamespace(run_type=run_type, run_id=run_id)
    return {"ti": instance, "run_id": run_id, "dag_run": run, "params": {**FORM, **(form or {})}, **interval}


def subject(form: dict[str, Any]) -> str:
    return asked_of(context(DagRunType.MANUAL, form)).subject


def dags(monkeypatch: pytest.MonkeyPatch, flow: Flow, **options: Any) -> tuple[DAG, DAG]:
    found = made(monkeypatch, flow, **options)
    return found["orders"], found["orders_backfill"]


def test_the_deadline_of_windows_is_none_of_a_backfill(monkeypatch: pytest.MonkeyPatch) -> None:
    live, backfill = dags(monkeypatch, FLOW)
    assert [deadline.interval for deadline in live.deadline] == [timedelta(minutes=3)]
    assert not backfill.deadline


def test_a_backfills_task_tells_the_flows_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(_context: Any) -> None: ...

    task = dags(monkeypatch, FLOW, default_args={"on_failure_callback": mine})[1].task_dict["backfill"]
    author, failed = task.on_failure_callback
    assert author is mine
    assert (type(failed), failed.kind, failed.flow) == (BackfillNotifier, AlertKind.FAILURE, FLOW)
    (done,), (skipped,) = task.on_success_callback, task.on_skipped_callback
    assert (type(done), done.kind) == (BackfillNotifier, None)
    assert (type(skipped), skipped.kind) == (ScheduledLookNotifier, None)


def test_a_flow_without_channels_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    _, backfill = dags(monkeypatch, PLAIN)
    task = backfill.task_dict["backfill"]
    assert not any((task.on_failure_callback, task.on_success_callback, task.on_skipped_callback))


def test_lineage_of_a_killed_run_is_ended_and_callbacks_of_the_author_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(_context: Any) -> None: ...

    live, backfill = dags(monkeypatch, PLAIN, on_failure_callback=mine)
    assert live.on_failure_callback[0] is mine
    author, ends = backfill.on_failure_callback
    assert author is mine
    assert (ends.func, ends.args) == (end_failed_backfill, (PLAIN,))


def test_what_a_backfill_writes_is_among_the_flows_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    _, backfill = dags(monkeypatch, FLOW)
    again = DagSerialization.from_dict(DagSerialization.to_dict(backfill))
    assert [getattr(outlet, "name", "") for outlet in again.get_task("backfill").outlets] == ["databus:orders"]


def test_a_failure_names_range_error_and_run() -> None:
    error = BackfillFutureError("flow orders: 2027-01-01 is in the future")
    (seen,) = BackfillNotifier(FLOW).events({**context(DagRunType.BACKFILL), "exception": error})
    day, next_day = "2026-11-21T00:00:00+00:00", "2026-11-22T00:00:00+00:00"
    assert seen.key == f"failure/backfill missing {day} to {next_day}"
    assert seen.verdict is RuleVerdict.OVER
    assert seen.summary == f"backfill (missing) from {day} to {next_day} failed: {error}"
    assert seen.range == f"[{day}, {next_day})"
    assert (seen.run_id, seen.run_url) == ("r1", "http://airflow/dags/orders_backfill/runs/r1")


def test_whichever_run_moves_the_range_ends_its_alert_and_no_other() -> None:
    (failed,) = BackfillNotifier(FLOW).events(context(DagRunType.BACKFILL))
    form = {"from": "2026-11-21", "to": "2026-11-22T01:00:00+01:00"}
    (done,) = BackfillNotifier(FLOW, None).events(context(DagRunType.MANUAL, form, "r2"))
    assert (done.key, done.verdict) == (failed.key, RuleVerdict.CLEAR)
    (other,) = BackfillNotifier(FLOW, None).events(context(DagRunType.MANUAL, {**form, "to": "2026-11-23"}, "r3"))
    assert other.key != failed.key


def test_a_replay_is_another_thing_than_what_is_missing() -> None:
    form = {"from": "earliest", "to": "latest"}
    found = [
        subject(form),
        subject({**form, "mode": "replay"}),
        subject({**form, "mode": "replay", "suffix": ".again"}),
        subject({**form, "mode": "replay", "name": "second"}),
        subject({**form, "mode": "replay", "into_live": True}),
    ]
    assert len(set(found)) == len(found)
    # A suffix and a name mean nothing to what is missing.
    assert subject({**form, "suffix": ".again"}) == found[0]
    long = {"from": "gtid:" + ",".join(f"{'ab' * 16}:{n}" for n in range(20)), "to": "latest"}
    assert len(subject(long)) < 50
    assert subject(long) != subject({**long, "mode": "replay"})


def test_scheduled_looks_share_one_alert_which_a_skip_ends() -> None:
    scheduled = context(DagRunType.SCHEDULED)
    (failed,) = BackfillNotifier(FLOW).events(scheduled)
    assert failed.summary.startswith("look at what is missing from 2026-11-21")
    (over,) = ScheduledLookNotifier(FLOW, None).events(scheduled)
    assert (
        (over.key, over.verdict) == (failed.key, RuleVerdict.CLEAR) == ("failure/backfill scheduled", RuleVerdict.CLEAR)
    )
    # The flow is paused: a backfill that was skipped has moved nothing.
    assert ScheduledLookNotifier(FLOW, None).events(context(DagRunType.BACKFILL)) == []


def test_a_task_that_never_began_is_named_by_its_run_alone() -> None:
    run = SimpleNamespace(run_type=DagRunType.MANUAL, run_id="r1", conf={"from": "earliest", "to": "latest"})
    assert asked_of({"dag_run": run}).subject == "backfill missing earliest to latest"
    assert asked_of({}).title == "backfill (missing) from ? to ?"
