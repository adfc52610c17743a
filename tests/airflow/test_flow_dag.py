"""A flow becomes a DAG of three tasks, or of one; a wrong argument is refused with the file and the line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from airflow.sdk import (
    DAG,
    Asset,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DeltaDataIntervalTimetable,
)
from airflow.sdk.definitions.timetables.simple import ContinuousTimetable
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.events import EventsTimetable
from dateutil.relativedelta import relativedelta

from databus import Flow, Kafka, Mirror, MysqlBinlog
from databus.airflow import flow_dag, mirror_dag
from databus.airflow.carried_flow import carried_by
from databus.airflow.operators.single_task_run import WholeRunOperator
from databus.airflow.operators.submit import SubmitTransferOperator
from databus.airflow.operators.transfer import TransferOperator
from databus.airflow.sensors import ChangesSensor, LagSensor
from databus.airflow.timetable import staggered
from databus.core.errors import ConfigError
from databus.core.flow import Mode
from databus.registry import flow_from_json
from databus.runtime.window_limits import WindowLimits

FLOW = Flow(
    name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.orders",)), sinks=(Kafka(conn_id="k", topic="t"),)
)


def test_tasks_schedule_and_description() -> None:
    dag = flow_dag(FLOW, every=timedelta(minutes=2), tags={"mine"})
    assert (dag.dag_id, dag.catchup, dag.max_active_runs, dag.tags) == ("orders", False, 2, {"mine"})
    assert dag.fileloc == __file__
    assert dag.task_dict["preflight"].downstream_task_ids == {"transfer"}
    assert dag.task_dict["transfer"].downstream_task_ids == {"audit"}
    assert "shop.orders" in (dag.description or "")
    assert "kafka" in (dag.doc_md or "")


@pytest.mark.parametrize(("seconds", "window_s"), [(60, 80), (10, 20), (3600, 3620)])
def test_a_window_outlasts_the_interval(seconds: int, window_s: float) -> None:
    dag = flow_dag(FLOW, every=timedelta(seconds=seconds))
    assert dag.task_dict["transfer"].window_s == window_s


@pytest.mark.parametrize("schedule", [timedelta(minutes=2), None])
def test_schedule_and_every_are_one_option_and_beside_each_other_as_before(schedule: timedelta | None) -> None:
    with pytest.warns(
        FutureWarning, match=r"flow_dag: every= beside schedule= is now window=timedelta\(seconds=300\)"
    ) as told:
        dag = flow_dag(FLOW, every=timedelta(minutes=5), schedule=schedule)
    assert told[0].filename.endswith("test_flow_dag.py")
    assert type(dag.timetable) is type(flow_dag(FLOW, schedule=schedule).timetable)
    assert dag.task_dict["transfer"].window_s == 320
    with pytest.raises(
        ConfigError, match=r"test_flow_dag.py:\d+: flow_dag: every=.*, schedule=.* and window=.* are given"
    ):
        flow_dag(FLOW, every=timedelta(minutes=2), schedule=schedule, window=timedelta(minutes=3))
    minutes = timedelta(minutes=2)
    assert flow_dag(FLOW, schedule=minutes).timetable == flow_dag(FLOW, every=minutes).timetable
    assert flow_dag(FLOW).timetable == flow_dag(FLOW, every=timedelta(minutes=1)).timetable


@pytest.mark.parametrize(
    ("schedule", "between"),
    [
        ("@hourly", timedelta(hours=1)),
        ("* * * * *", timedelta(minutes=1)),
        ("*/20 * * * *", timedelta(minutes=20)),
        ("0 9 * * 1-5", timedelta(days=3)),  # over the weekend
        ("*/5 9-17 * * 1-5", timedelta(days=2, hours=15, minutes=5)),
        ("@monthly", timedelta(days=31)),
        ("@quarterly", timedelta(days=92)),
        ("@yearly", timedelta(days=365)),
        ("0 0 L * *", timedelta(days=31)),
        ("0 6 1,11 * *", timedelta(days=21)),
        (relativedelta(months=1), timedelta(days=31)),
        (CronTriggerTimetable("0 6 * * *", timezone="UTC"), timedelta(days=1)),
        (CronDataIntervalTimetable("@hourly", timezone="UTC"), timedelta(hours=1)),
        (DeltaDataIntervalTimetable(timedelta(minutes=7)), timedelta(minutes=7)),
        (EventsTimetable([datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 5)]), timedelta(days=3)),
        ("@once", timedelta(minutes=1)),
        (None, timedelta(minutes=1)),
        ([Asset("told")], timedelta(minutes=1)),
    ],
)
def test_a_window_lasts_until_the_next_run_of_any_schedule(schedule: Any, between: timedelta) -> None:
    dag = flow_dag(FLOW, schedule=schedule)
    assert dag.task_dict["transfer"].window_s == (between + timedelta(seconds=20)).total_seconds()
    assert DagSerialization.to_dict(dag)["dag"]["timetable"]
    assert flow_dag(FLOW, schedule=schedule, window=timedelta(minutes=5)).task_dict["transfer"].window_s == 320


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("@continuous", "starts no run beside a running one"),
        (ContinuousTimetable(), "starts no run beside a running one"),
        ("0 25 * * *", "is no cron expression"),
        ("often", "is no cron expression"),
        ("*/2 * * * * *", "is shorter than the 5 seconds"),
        (timedelta(seconds=1), "is shorter than the 5 seconds"),
        (60, "is no schedule"),
        ([], "is no schedule"),
    ],
)
def test_a_schedule_that_windows_cannot_follow_is_refused(schedule: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"test_flow_dag.py:\d+: .*schedule=.*{says}"):
        flow_dag(FLOW, schedule=schedule)


def test_a_mirror_takes_the_same_schedules() -> None:
    mirror = Mirror(name="m", source_conn_id="east", target_conn_id="west", topics="t")
    assert mirror_dag(mirror, schedule="@hourly").task_dict["transfer"].window_s == 3620
    with pytest.warns(FutureWarning, match="every= beside schedule= is now window"):
        dag = mirror_dag(mirror, schedule="@hourly", every=timedelta(minutes=10))
    assert dag.task_dict["transfer"].window_s == 620


def test_former_names_are_taken_from_default_args_and_partial() -> None:
    dag = DAG("former", default_args={"poll_s": 30, "max_seconds": 300, "window_s": 50})
    with pytest.warns(FutureWarning, match="is now"):
        lag = LagSensor(task_id="lag", flow=FLOW, dag=dag)
    with pytest.warns(FutureWarning, match="window_s is now window"):
        transfer = TransferOperator(task_id="transfer", flow=FLOW, dag=dag)
    assert (lag.max_seconds, lag.poll_s, transfer.window_s) == (300, 30, 50)
    assert LagSensor.partial(task_id="mapped", max_seconds=5, poll_s=3).expand(flow=[FLOW])


def test_operators_and_sensors_accept_former_names() -> None:
    with pytest.warns(FutureWarning, match=r"TransferOperator: window_s is now window=timedelta\(seconds=50\)"):
        assert TransferOperator(task_id="t", flow=FLOW, window_s=50).window_s == 50
    with pytest.warns(FutureWarning, match=r"ChangesSensor: poll_s is now poll=timedelta\(seconds=2\)"):
        assert ChangesSensor(task_id="t", flow=FLOW, poll_s=2).poll_s == 2
    with pytest.warns(FutureWarning, match="LagSensor: max_seconds is now max_lag"):
        assert LagSensor(task_id="t", flow=FLOW, max_seconds=None).max_seconds is None
    assert LagSensor(task_id="t", flow=FLOW, max_lag=timedelta(minutes=2), poll=timedelta(seconds=1)).max_seconds == 120


def test_a_live_window_waits_for_a_late_successor_which_waits_for_no_audit() -> None:
    dag = flow_dag(FLOW, every=timedelta(seconds=10), mode="live")
    assert dag.task_dict["transfer"].window_s == 70
    assert dag.max_active_runs == 3


@pytest.mark.parametrize(
    ("options", "conn_id"),
    [
        ({}, "spark_connect_default"),
        ({"engine": "submit", "spark_conn_id": "yarn"}, "spark_connect_default"),
        ({"spark_conn_id": "spark_east"}, "spark_east"),
        ({"mode": "economy"}, "spark_connect_default"),
    ],
)
def test_a_stored_dag_carries_its_flow_as_it_runs_it(options: dict[str, Any], conn_id: str) -> None:
    stored = json.loads(json.dumps(DagSerialization.to_dict(flow_dag(FLOW, dag_id="of_the_shop", **options))))
    found = carried_by(stored)
    assert found is not None
    flow = flow_from_json(found["flow"])
    assert flow == FLOW.model_copy(update={"mode": options.get("mode", FLOW.mode)})
    assert found["spark_conn_id"] == conn_id
    for other in ("no JSON", "[]", '{"databus": 1}', None):
        assert carried_by({"dag": {"tasks": [{"__var": {"doc_json": other}}]}}) is None


def test_a_flow_is_woken_by_changes_that_nobody_moves() -> None:
    dag = flow_dag(FLOW, every=timedelta(hours=1), mode="economy", wake=timedelta(seconds=30))
    assert dag.timetable.timetable == staggered("orders", timedelta(hours=1))
    (asset,) = dag.timetable.asset_condition.objects
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path == "databus.airflow.triggers.ChangesTrigger"
    assert (arguments["flow"]["name"], arguments["apart_s"], arguments["once"]) == ("orders", 30, False)
    assert arguments["wakes"] == "orders"
    assert DagSerialization.to_dict(dag)["dag"]["timetable"]


@pytest.mark.parametrize(
    ("options", "together"),
    [
        ({"mode": "economy"}, True),
        ({"mode": "economy", "tasks": "separate"}, False),
        ({"mode": "economy", "engine": "submit"}, False),
        ({"mode": "live"}, False),
        ({"mode": "live", "tasks": "together"}, True),
        ({}, False),
    ],
)
def test_many_quiet_flows_have_one_task_a_run(options: dict[str, Any], *, together: bool) -> None:
    dag = flow_dag(FLOW, **options)
    assert set(dag.task_dict) == ({"transfer"} if together else {"preflight", "transfer", "audit"})
    transfer = dag.task_dict["transfer"]
    assert isinstance(transfer, WholeRunOperator) is together
    assert [outlet.name for outlet in transfer.outlets] == (["databus:orders"] if together else [])


@pytest.mark.parametrize(
    ("mode", "wake", "runs"),
    [
        ("live", None, 3),  # one moves, one waits, one is audited
        ("live", timedelta(0), 4),  # a dead worker's run is counted for minutes
        ("standard", None, 2),
        ("standard", timedelta(0), 3),
        ("economy", None, 2),  # one, and a dead worker's
        ("economy", timedelta(0), 2),
    ],
)
def test_runs_that_may_go_on_at_a_time(mode: Mode, wake: timedelta | None, runs: int) -> None:
    assert flow_dag(FLOW, mode=mode, wake=wake).max_active_runs == runs


def test_what_moves_rows_soonest_goes_first_and_what_began_is_finished() -> None:
    weights = {mode: flow_dag(FLOW, mode=mode, tasks="separate") for mode in get_args(Mode)}
    order = sorted(
        ((mode, task.task_id) for mode, dag in weights.items() for task in dag.tasks),
        key=lambda one: -weights[one[0]].task_dict[one[1]].priority_weight,
    )
    tasks = ("audit", "transfer", "preflight")
    assert order == [(mode, task) for mode in ("live", "standard", "economy") for task in tasks]
    for dag in weights.values():
        assert {str(task.weight_rule) for task in dag.tasks} == {"absolute"}


def test_a_weight_that_a_person_gives_stays() -> None:
    dag = flow_dag(FLOW, default_args={"priority_weight": 7})
    assert {task.priority_weight for task in dag.tasks} == {7}


@pytest.mark.parametrize("options", [{"wake": timedelta(seconds=-1)}, {"wake": timedelta(0), "schedule": None}])
def test_a_wake_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"test_flow_dag.py:\d+: wake="):
        flow_dag(FLOW, **options)


def test_tasks_go_to_the_pool_and_queue_that_the_flow_names() -> None:
    """How flows are spread over workers is Airflow's: a queue names the workers, a pool bounds how many run at once."""
    dag = flow_dag(FLOW, default_args={"queue": "east", "pool": "live"})
    assert {(task.queue, task.pool) for task in dag.tasks} == {("east", "live")}
    assert dag.task_dict["transfer"].retry_delay == timedelta(seconds=5)


def test_engines() -> None:
    connect = flow_dag(FLOW).task_dict["transfer"]
    submit = flow_dag(FLOW, engine="submit").task_dict["transfer"]
    own = flow_dag(FLOW, spark_conn_id="spark_big").task_dict["transfer"]
    assert isinstance(connect, TransferOperator)
    assert isinstance(submit, SubmitTransferOperator)
    assert (connect.conn_id, submit._conn_id, own.conn_id) == ("spark_connect_default", "spark_default", "spark_big")


def test_the_mode_is_the_flows_unless_the_dag_says_otherwise() -> None:
    live = FLOW.model_copy(update={"mode": "live"})
    modes = [flow_dag(FLOW), flow_dag(live), flow_dag(live, mode="economy", tasks="separate")]
    assert [dag.task_dict["transfer"].flow.mode for dag in modes] == ["standard", "live", "economy"]
    assert [dag.task_dict["audit"].flow.mode for dag in modes] == ["standard", "live", "economy"]
    assert "mode: live" in (modes[1].doc_md or "")


def test_a_mode_decides_when_a_run_ends_and_never_what_comes_out() -> None:
    limits = [WindowLimits.of_a_run(80, mode) for mode in ("live", "standard", "economy")]
    assert [limit.until_caught_up for limit in limits] == [False, False, True]
    assert {limit.max_seconds for limit in limits} == {limit.lease_wait_s for limit in limits} == {80}
    hashes = {FLOW.model_copy(update={"mode": mode}).spec_hash("1") for mode in ("live", "standard", "economy")}
    assert hashes == {FLOW.spec_hash("1")}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"flow": "orders"}, "needs a Flow, got str"),
        ({"flow": FLOW, "engine": "flink"}, "engine='flink' is unknown"),
        ({"flow": FLOW, "mode": "lively"}, "mode='lively' is unknown"),
        ({"flow": FLOW, "tasks": "four"}, "tasks='four' cannot be with engine='connect'"),
        ({"flow": FLOW, "tasks": "together", "engine": "submit"}, "tasks='together' cannot be with engine='submit'"),
        ({"flow": FLOW, "every": timedelta(seconds=1)}, "shorter than the 5 seconds"),
    ],
)
def test_wrong_arguments_name_the_line(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        flow_dag(**arguments)
    assert f"{__file__}:" in refused.value.message


def test_a_retry_may_be_set_by_the_author() -> None:
    task = flow_dag(FLOW, default_args={"retries": 1}).task_dict["transfer"]
    assert (task.retries, task.retry_delay) == (1, timedelta(seconds=5))


MIRROR = Mirror(name="m", source_conn_id="a", target_conn_id="b", topics=("t",))


@pytest.mark.parametrize(("made_by", "flow"), [(flow_dag, FLOW), (mirror_dag, MIRROR)])
def test_an_option_that_neither_we_nor_airflow_have_is_named_with_the_like(made_by: Any, flow: Flow) -> None:
    name = made_by.__name__
    with pytest.raises(ConfigError, match=rf"flow_dag.py:\d+: {name}: unknown option 'evry', 'tgs' Hint: ") as refused:
        made_by(flow, evry=timedelta(minutes=1), tgs={"x"}, mode="live", dag_id="own")
    assert refused.value.hint.startswith(f"Did you mean every and tags? {name} takes: backfill_every, engine, every, ")
    assert refused.value.hint.endswith(", wake, window; and what airflow.sdk.DAG takes.")
