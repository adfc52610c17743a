"""Turn a flow into a DAG: preflight → transfer → audit, as three tasks or in one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher

from databus.airflow.carried_flow import carried
from databus.airflow.dag_arguments import Engine, Tasks, refuse_unknown, refuse_values
from databus.airflow.moved import AssetOrTimeSchedule
from databus.airflow.schedules import EVERY_MINUTE, SHORTEST, Schedule, every_or_window, flow_schedule
from databus.airflow.triggers import ChangesTrigger
from databus.checks.expected import expected_checks
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow, Mode
from databus.core.flow_specs import SinkSpec
from databus.core.flows_only import note_given
from databus.core.spec import caller

POLL_S = 5.0
"""Seconds between two looks of the triggerer: two reads of ZooKeeper and one statement at the source."""

AGAIN_S = 60.0
"""A woken run that moved nothing and waits for no slot has failed; after so long another one is begun."""

_START = datetime(2024, 1, 1, tzinfo=UTC)


def flow_dag(  # noqa: PLR0913 - one parameter per choice
    flow: Flow,
    *,
    schedule: Schedule = EVERY_MINUTE,
    every: timedelta | None = None,
    window: timedelta | None = None,
    mode: Mode | None = None,
    wake: timedelta | None = None,
    engine: Engine = "connect",
    spark_conn_id: str | None = None,
    tasks: Tasks | None = None,
    backfill_every: timedelta | None = timedelta(days=1),
    snapshots: bool | None = None,
    validate_every: timedelta | None = None,
    **dag_options: Any,
) -> DAG:
    """Return the DAG of a flow; assign it to a module-level name in a file of the DAG folder.

    A run is a window: `transfer` takes the flow's lease and moves micro-batches back to back until the next run's
    `transfer` waits for the lease. So two runs of a flow are active around the hand-over, and one moves rows.
    Building the DAG resolves no connection. Beside it stand `<flow>_backfill`, which moves ranges of the flow's log
    when it is asked to, and of a flow that begins with the rows of its tables `<flow>_snapshot`, which reads tables as
    they stand; Airflow finds them by itself.

    Args:
        flow: the flow; its name becomes the DAG id.
        schedule: when runs begin, e.g. timedelta(minutes=5), "0 6 * * *", "@hourly", a Timetable, assets, or None for
            runs that are triggered only; default timedelta(minutes=1). With a timedelta, runs of different flows begin
            at different moments, by their names, within it or ten minutes: many flows do not start in one second.
            "@continuous" is refused: it starts no run beside a running one.
        every: the same for a timedelta, e.g. timedelta(minutes=5). Beside a schedule it is a former name of `window`.
        window: how long a run moves rows at most where no next run takes over, e.g. timedelta(minutes=10). Default
            None, the longest time between two runs of the schedule, so that one follows the other without a pause; one
            minute where a schedule has no times (None, "@once", assets).
        mode: "live", "standard" or "economy", see `Flow.mode`; default None, the flow's. In live mode the next run
            holds a Spark task slot of its own while it waits for the lease; in economy mode a run ends once nothing is
            new.
        wake: least time between two runs that are begun because there are changes that no run moves, e.g.
            timedelta(0): an idle economy flow is woken, and a dead worker's flow goes on (ADR 34). The triggerer looks
            every five seconds. Default None: runs begin by the schedule only. It goes with a timedelta.
        engine: "connect" (default) runs on a warm Spark Connect server, "submit" starts a Spark application per window.
        spark_conn_id: the Spark connection, e.g. "spark_east"; default None, `spark_connect_default` or `spark_default`
            by engine.
        tasks: "separate" makes three tasks, "together" does all three in `transfer`: on a small machine a task costs
            Airflow more than a second of CPU. Default None, together in economy mode on Spark Connect, else separate.
        backfill_every: length of a data interval of the backfill DAG, which runs on Spark Connect whatever the engine,
            e.g. timedelta(hours=1); default one day, None for no such DAG.
        snapshots: whether the snapshot DAG is made, which MySQL and MariaDB can have, e.g. True; default None, where
            the flow begins with the rows of its tables. It makes a file an eighth dearer to Airflow's DAG processor.
        validate_every: time between two comparisons of the flow's sinks with its source's tables by a DAG
            `<flow>_validate`, e.g. timedelta(days=1): its task fails where a row differs. It reads the tables whole.
            Default None, no such DAG.
        **dag_options: further arguments of `airflow.sdk.DAG`, e.g. start_date, tags, default_args, callbacks.

    Raises:
        ConfigError: an argument is not what it should be; names the DAG file and line.
        ConfigError: an expectation is to hold back rows and is not judged row by row.
    """
    if not isinstance(flow, Flow):
        raise ConfigError(
            f"{caller()}: flow_dag needs a Flow, got {type(flow).__name__}", hint="Give it what Flow(…) returned."
        )
    written = flow
    refuse_unknown("flow_dag", flow_dag, dag_options)
    refuse_values(engine, tasks, mode)
    if mode is not None:
        flow = flow.model_copy(update={"mode": mode})
    note_given(written, flow)
    every, window = every_or_window(schedule, every, window)
    runs = flow_schedule(flow.name, schedule, every)
    if window is not None and window < SHORTEST:
        raise ConfigError(f"{caller()}: window={window} is shorter than 5 seconds", hint="Give 5 seconds or more.")
    if wake is not None and (wake < timedelta(0) or not runs.regular):
        raise ConfigError(
            f"{caller()}: wake={wake} is to be 0 or more, and goes with a timedelta, not with another schedule",
            hint="Give schedule=timedelta(…), or leave `wake` out.",
        )
    expected_checks(flow)
    defaults = {"retries": 5, "retry_delay": timedelta(seconds=5), "owner": "databus", "weight_rule": "absolute"}
    defaults.update(dag_options.pop("default_args", {}))
    options = {
        "dag_id": flow.name,
        "description": flow.description or f"{', '.join(flow.source.datasets())} → {_targets(flow)}",
        "schedule": runs.value,
        "start_date": _START,
        "catchup": False,
        "max_active_runs": _active_runs(flow.mode, woken=wake is not None),
        "tags": {"databus", flow.source.kind, *(s.kind for s in flow.sinks)},
        "default_args": defaults,
        "doc_md": _documentation(flow),
        **dag_options,
    }
    if wake is not None:
        options["schedule"] = woken(flow, str(options["dag_id"]), options["schedule"], wake)
    from databus.airflow.reporting.flow_callbacks import callbacks, listed
    from databus.airflow.reporting.lineage import end_failed

    every = window or runs.between
    together = tasks == "together" or (tasks is None and flow.mode == "economy" and engine == "connect")
    of_tasks = _weighted(flow.mode, callbacks(flow, options, together=together), defaults)
    failed = [*listed(options.get("on_failure_callback")), partial(end_failed, flow)]
    conn_id = (spark_conn_id if engine == "connect" else None) or "spark_connect_default"
    transfers = {**of_tasks["transfer"], "doc_json": carried(flow, conn_id)}
    with DAG(**{**options, "on_failure_callback": failed}) as dag:
        if together:
            from databus.airflow.operators.single_task_run import WholeRunOperator

            _transfer(WholeRunOperator, flow, every, spark_conn_id or "spark_connect_default", transfers)
        else:
            _three_tasks(flow, every, engine, spark_conn_id, {**of_tasks, "transfer": transfers})
    beside = _beside(flow, backfill_every, conn_id, options, snapshots=snapshots)
    beside += _validation(flow, validate_every, runs.between, conn_id, options)
    for made in (dag, *beside):
        made.fileloc = caller().rpartition(":")[0]
    return dag


def _beside(
    flow: Flow, backfill_every: timedelta | None, conn_id: str, options: dict[str, Any], *, snapshots: bool | None
) -> list[DAG]:
    """Return the DAGs that stand beside a flow's own, as far as its source has what they need."""
    found = []
    if backfill_every is not None and flow.source.ranged:
        from databus.airflow.backfills.operator import backfill_dag

        found.append(backfill_dag(flow, backfill_every, conn_id, options))
    wanted = flow.source.begins_with_snapshot() if snapshots is None else snapshots
    if wanted and flow.source.snapshots:
        from databus.airflow.snapshots.operator import snapshot_dag

        found.append(snapshot_dag(flow, options))
    return found


def _validation(
    flow: Flow, every: timedelta | None, between: timedelta, conn_id: str, options: dict[str, Any]
) -> list[DAG]:
    if every is None:
        return []
    from databus.airflow.validations import validation_dag

    if every < SHORTEST:
        raise ConfigError(
            f"{caller()}: validate_every={every} is shorter than 5 seconds", hint="Give timedelta(days=1), for example."
        )
    return [validation_dag(flow, every, between, conn_id, options)]


def _three_tasks(
    flow: Flow, every: timedelta, engine: Engine, conn_id: str | None, options: dict[str, dict[str, Any]]
) -> None:
    from databus.airflow.operators.audit import AuditOperator
    from databus.airflow.operators.preflight import PreflightOperator

    if engine == "connect":
        from databus.airflow.operators.transfer import TransferOperator as Operator
    else:
        from databus.airflow.operators.submit import SubmitTransferOperator as Operator
    default = "spark_connect_default" if engine == "connect" else "spark_default"
    transfer = _transfer(Operator, flow, every, conn_id or default, options["transfer"])
    preflight = PreflightOperator(task_id="preflight", flow=flow, **options["preflight"])
    preflight >> transfer >> AuditOperator(task_id="audit", flow=flow, **options["audit"])


def _transfer(operator: Any, flow: Flow, every: timedelta, conn_id: str, options: dict[str, Any]) -> Any:
    window = every + (_LIVE_OVERLAP if flow.mode == "live" else min(_OVERLAP, every))
    return operator(task_id="transfer", flow=flow, window=window, conn_id=conn_id, **options)


def _active_runs(mode: Mode, *, woken: bool) -> int:
    """Return how many runs of a flow Airflow may have going.

    The one that moves rows, and its successor in preflight or waiting for the lease; audits overlap as well. In live
    mode one more, whose audit goes on: a successor that waited for it would come late. Where a run may be woken there
    is room for one more: Airflow goes on counting a dead worker's for minutes. An economy run has no successor that
    waits: its second is for a dead worker's, and many flows do not pile up runs where Airflow has too much to do.
    """
    if mode == "economy":
        return 2
    return (3 if mode == "live" else 2) + woken


_WEIGHT = {"live": 20, "standard": 10, "economy": 2}
"""Airflow's default lets a task wait for all that come before it in other runs: with many flows every preflight would
go before any transfer. Here what moves rows soonest goes first, and what has begun is finished before more begins: a
run whose audit waits is a running one to Airflow, and `max_active_runs` of them keep the flow's next from starting."""


def _weighted(mode: Mode, tasks: dict[str, dict[str, Any]], defaults: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each task's options with its weight in Airflow's queue; one that a person gave stays."""
    weights = {name: _WEIGHT[mode] + place for place, name in enumerate(("preflight", "transfer", "audit"))}
    given = "priority_weight" in defaults
    return {
        name: ({} if given else {"priority_weight": weight}) | tasks.get(name, {}) for name, weight in weights.items()
    }


_OVERLAP = timedelta(seconds=20)
"""A window outlasts the interval by so much at most, so that it ends by hand-over; without a successor by itself."""

_LIVE_OVERLAP = timedelta(minutes=1)
"""The same of a live flow: a successor that is late, as when many flows' runs begin at one moment, leaves no gap."""


def _targets(flow: Flow) -> str:
    return ", ".join(f"{sink.kind} {' '.join(sink.datasets())}".strip() + _own(sink) for sink in flow.sinks)


def _own(sink: SinkSpec) -> str:
    return f" ({', '.join(each.label() for each in sink.transforms)})" if sink.transforms else ""


def _documentation(flow: Flow) -> str:
    transforms = ", ".join(t.label() for t in flow.transforms) or "none"
    checks = ", ".join(f"{c.check_name} ({c.severity})" for c in flow.checks) or "none"
    expectations = ", ".join(f"{e.name} ({e.action})" for e in flow.expectations) or "none"
    return (
        f"**{flow.name}** {flow.description}\n\n"
        f"* source: {flow.source.kind} {', '.join(flow.source.datasets())}\n"
        f"* mode: {flow.mode}\n* transforms: {transforms}\n* checks: {checks}\n* expectations: {expectations}\n"
        f"* sinks: {_targets(flow)}\n\n"
        "`preflight` probes servers and settings, `transfer` moves micro-batches under the flow's lease, "
        "`audit` reconciles the run's counts and stores its quality result; where there is one task, it does all three."
    )


def woken(flow: Flow, dag_id: str, timetable: Any, apart: timedelta) -> AssetOrTimeSchedule:
    """Return a schedule that is the timetable's, and has a run begin when changes lie there and no run holds the lease.

    The first run is the timetable's: when many flows are new, waking each of them would only double their runs.

    Args:
        flow: the flow.
        dag_id: its DAG.
        timetable: when runs begin anyway.
        apart: time between two runs that are begun so, at least.
    """
    seconds = apart.total_seconds()
    trigger = ChangesTrigger(flow, POLL_S, max(AGAIN_S, seconds), seconds, wakes=dag_id)
    watcher = AssetWatcher(name=f"changes of {flow.name}", trigger=trigger)
    asset = Asset(
        name=f"{flow.name}:changes", uri=f"databus://changes/{flow.name}", group="databus", watchers=[watcher]
    )
    return AssetOrTimeSchedule(timetable=timetable, assets=[asset])


def mirror_dag(
    mirror: Flow, *, schedule: Schedule = EVERY_MINUTE, every: timedelta | None = None, **options: Any
) -> DAG:
    """Return the DAG of a mirror; assign it to a module-level name in a file of the DAG folder.

    Args:
        mirror: what `Mirror(…)` returned; its name becomes the DAG id.
        schedule: when runs begin, see `flow_dag`, e.g. timedelta(minutes=5); default timedelta(minutes=1).
        every: the same for a timedelta; beside a schedule see `flow_dag`.
        **options: as `flow_dag` takes them, e.g. mode="live".

    Raises:
        ConfigError: the flow is no mirror; names the DAG file and line.
    """
    if not isinstance(mirror, Flow) or [sink.kind for sink in mirror.sinks] != ["kafka_mirror"]:
        raise ConfigError(f"{caller()}: mirror_dag needs a Mirror", hint="For other flows there is flow_dag.")
    refuse_unknown("mirror_dag", flow_dag, options)
    tags = {"databus", "mirror", *options.pop("tags", ())}
    return flow_dag(mirror, schedule=schedule, every=every, tags=tags, **options)
