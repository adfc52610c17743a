"""Turn a flow into a DAG: preflight → transfer → audit."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, get_args

from airflow.sdk import DAG, DeltaDataIntervalTimetable

from databus.checks.expected import expected_checks
from databus.core.errors import ConfigError
from databus.core.flow import Flow, Mode
from databus.core.spec import caller

Engine = Literal["connect", "submit"]
_START = datetime(2024, 1, 1, tzinfo=UTC)


def flow_dag(  # noqa: PLR0913 - one parameter per choice
    flow: Flow,
    *,
    every: timedelta = timedelta(minutes=1),
    mode: Mode | None = None,
    wake: timedelta | None = None,
    engine: Engine = "connect",
    spark_conn_id: str | None = None,
    backfill_every: timedelta | None = timedelta(days=1),
    **dag_options: Any,
) -> DAG:
    """Return the DAG of a flow; assign it to a module-level name in a file of the DAG folder.

    A run is a window: `transfer` takes the flow's lease and moves micro-batches back to back until the next run's
    `transfer` waits for the lease. So two runs of a flow are active around the hand-over, and one moves rows.
    Building the DAG resolves no connection. Beside it stands `<flow>_backfill`, which moves ranges of the flow's log
    when it is told to; Airflow finds it by itself.

    Args:
        flow: the flow; its name becomes the DAG id.
        every: time between runs, and about the length of a window.
        mode: "live", "standard" or "economy", see `Flow.mode`; None takes the flow's. In live mode the next run holds a
            Spark task slot of its own while it waits for the lease; in economy mode a run ends once nothing is new.
        wake: a run also begins when there are changes that no run moves: an idle economy flow is woken, and a dead
            worker's flow goes on (ADR 34). The triggerer looks every five seconds; two runs begun so are at least this
            far apart. Without, a run begins every `every` only.
        engine: "connect" runs on a warm Spark Connect server, "submit" starts a Spark application per window.
        spark_conn_id: the Spark connection; `spark_connect_default` or `spark_default` by engine.
        backfill_every: length of a data interval of the backfill DAG, which runs on Spark Connect whatever the engine;
            None for no such DAG.
        **dag_options: further arguments of `airflow.sdk.DAG`, e.g. start_date, tags, default_args, callbacks.

    Raises:
        ConfigError: an argument is not what it should be; names the DAG file and line.
        ConfigError: an expectation is to hold back rows and is not judged row by row.
    """
    if not isinstance(flow, Flow):
        raise ConfigError(f"{caller()}: flow_dag needs a Flow, got {type(flow).__name__}")
    if engine not in ("connect", "submit"):
        raise ConfigError(f"{caller()}: engine={engine!r} is unknown", hint="Known: connect, submit.")
    if mode is not None:
        if mode not in get_args(Mode):
            raise ConfigError(f"{caller()}: mode={mode!r} is unknown", hint=f"Known: {', '.join(get_args(Mode))}.")
        flow = flow.model_copy(update={"mode": mode})
    if every < timedelta(seconds=5):
        raise ConfigError(f"{caller()}: every={every} is shorter than the 5 seconds a run takes at least")
    if wake is not None and (wake < timedelta(0) or "schedule" in dag_options):
        raise ConfigError(
            f"{caller()}: wake={wake} is to be 0 or more, and goes with `every`, not with a schedule of your own"
        )
    expected_checks(flow)
    defaults = {"retries": 5, "retry_delay": timedelta(seconds=5), "owner": "databus"}
    defaults.update(dag_options.pop("default_args", {}))
    options = {
        "dag_id": flow.name,
        "description": flow.description or f"{', '.join(flow.source.datasets())} → {_targets(flow)}",
        "schedule": DeltaDataIntervalTimetable(every),
        "start_date": _START,
        "catchup": False,
        "max_active_runs": (_LIVE_ACTIVE_RUNS if flow.mode == "live" else _ACTIVE_RUNS) + (wake is not None),
        "tags": {"databus", flow.source.kind, *(s.kind for s in flow.sinks)},
        "default_args": defaults,
        "doc_md": _documentation(flow),
        **dag_options,
    }
    if wake is not None:
        from databus.airflow.wake import woken

        options["schedule"] = woken(flow, options["schedule"], wake)
    from databus.airflow.alert_events import add_callbacks, listed
    from databus.airflow.audit import AuditOperator
    from databus.airflow.lineage import end_failed
    from databus.airflow.preflight import PreflightOperator

    tasks = add_callbacks(flow, options)
    failed = [*listed(options.get("on_failure_callback")), partial(end_failed, flow)]
    with DAG(**{**options, "on_failure_callback": failed}) as dag:
        transfer = _transfer(flow, every, engine, spark_conn_id, tasks.get("transfer", {}))
        preflight = PreflightOperator(task_id="preflight", flow=flow, **tasks.get("preflight", {}))
        preflight >> transfer >> AuditOperator(task_id="audit", flow=flow, **tasks.get("audit", {}))
    beside = []
    if backfill_every is not None and flow.source.ranged:
        from databus.airflow.backfill import backfill_dag

        conn_id = (spark_conn_id if engine == "connect" else None) or "spark_connect_default"
        beside = [backfill_dag(flow, backfill_every, conn_id, options)]
    frame = inspect.currentframe()
    if frame is not None and frame.f_back is not None:
        for made in (dag, *beside):
            made.fileloc = frame.f_back.f_code.co_filename
    return dag


def _transfer(flow: Flow, every: timedelta, engine: Engine, spark_conn_id: str | None, options: dict[str, Any]) -> Any:
    interval_s = every.total_seconds()
    window_s = interval_s + (_LIVE_OVERLAP_S if flow.mode == "live" else min(_OVERLAP_S, interval_s))
    if engine == "connect":
        from databus.airflow.transfer import TransferOperator

        return TransferOperator(
            task_id="transfer",
            flow=flow,
            window_s=window_s,
            conn_id=spark_conn_id or "spark_connect_default",
            **options,
        )
    from databus.airflow.submit import SubmitTransferOperator

    return SubmitTransferOperator(
        task_id="transfer", flow=flow, window_s=window_s, conn_id=spark_conn_id or "spark_default", **options
    )


_ACTIVE_RUNS = 2
"""The one that moves rows, and its successor in preflight or waiting for the lease; audits overlap as well.

Where a run may be woken there is room for one more: Airflow goes on counting a dead worker's for minutes."""

_LIVE_ACTIVE_RUNS = 3
"""And one whose audit goes on: a successor that waited for the audit of the run before would come late."""

_OVERLAP_S = 20.0
"""A window outlasts the interval by so much at most, so that it ends by hand-over; without a successor by itself."""

_LIVE_OVERLAP_S = 60.0
"""The same of a live flow: a successor that is late, as when many flows' runs begin at one moment, leaves no gap."""


def _targets(flow: Flow) -> str:
    return ", ".join(f"{sink.kind} {' '.join(sink.datasets())}".strip() for sink in flow.sinks)


def _documentation(flow: Flow) -> str:
    transforms = ", ".join(t.label() for t in flow.transforms) or "none"
    checks = ", ".join(f"{c.check_name} ({c.severity})" for c in flow.checks) or "none"
    expectations = ", ".join(f"{e.name} ({e.action})" for e in flow.expectations) or "none"
    return (
        f"**{flow.name}** {flow.description}\n\n"
        f"* source: {flow.source.kind} {', '.join(flow.source.datasets())}\n"
        f"* mode: {flow.mode}\n* transforms: {transforms}\n* checks: {checks}\n* expectations: {expectations}\n"
        f"* sinks: {_targets(flow)}\n\n"
        "Tasks: `preflight` probes servers and settings, `transfer` moves micro-batches under the flow's lease, "
        "`audit` reconciles the run's counts and stores its quality result."
    )
