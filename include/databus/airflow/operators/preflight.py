"""The preflight task: probe before anything moves, and say what is missing in an operator's words."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.moved import AssetOrTimeSchedule
from databus.airflow.operators.process import only_warnings_of_libraries
from databus.airflow.operators.task import airflow_outcome, run_identity
from databus.airflow.reporting.lineage import close_left_open
from databus.airflow.timetable import StaggeredTimetable
from databus.core.errors.config import RunConfError
from databus.core.errors.source import OffsetPurgedError
from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.core.state.backfill import dag_name

_NOTICE = "Airflow's own notice (300 s by default, [scheduler] task_instance_heartbeat_timeout)"


_AIRFLOWS = "airflow/"
"""Airflow's own keys begin so, e.g. for the detail of a run's traces."""


class ProbeOfFlow:
    """Mixin of the operators that probe before anything moves."""

    flow: Flow
    log: Any

    def probed(self, context: Any) -> dict[str, int]:
        """Log what is found; return how many findings there are of each level.

        Raises:
            AirflowException: a retry may mend what was found, as of `airflow_outcome`.
            AirflowFailException: only a person can.
        """
        from databus.ops.health.preflight import note_gap, preflight, require_passed
        from databus.ops.mirror.loops import findings_beside
        from databus.ops.services import open_services

        only_warnings_of_libraries()
        with airflow_outcome():
            require_known(self.flow, context)
        close_left_open(self.flow, context)
        with airflow_outcome(), open_services(self.flow, AirflowConnections()) as services:
            dag = context.get("dag")
            beside = [takeover(dag), *findings_beside(self.flow, Path(dag.fileloc).parent)] if dag is not None else []
            findings = [*preflight(self.flow, services), *beside]
            for finding in findings:
                level = {Level.OK: 20, Level.WARN: 30, Level.ERROR: 40}[finding.level]
                hint = f" → {finding.hint}" if finding.hint else ""
                self.log.log(level, "%s: %s: %s%s", finding.level.upper(), finding.subject, finding.message, hint)
            if any(finding.code == OffsetPurgedError.code for finding in findings):
                who = run_identity(context)
                note_gap(self.flow, services, who.run_id, who.run_url)
            require_passed(self.flow, findings)
        return {level: sum(f.level is level for f in findings) for level in Level}


class PreflightOperator(ProbeOfFlow, BaseOperator):
    """Probes settings, grants, retention, connections and outputs of a flow; changes nothing.

    An ERROR finding fails the task with the first finding's code; warnings are logged.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        **options: further arguments of an operator, e.g. task_id="preflight".
    """

    ui_color = "#e8f0fe"

    def __init__(self, *, flow: Flow, **options: Any) -> None:
        super().__init__(**options)
        self.flow = flow

    def execute(self, context: Any) -> dict[str, int]:
        """Probe and return how many findings there are of each level."""
        return self.probed(context)


def require_known(flow: Flow, context: Any) -> None:
    """Refuse a run that was given what its DAG does not know: it would be passed over, and the run would succeed.

    Known are the params that the DAG file gives the DAG (`flow_dag(…, params=…)`), for tasks and callbacks of its own.

    Raises:
        RunConfError: names the keys, and where a range can be moved.
    """
    given = getattr(context.get("dag_run"), "conf", None) or {}
    known = set(getattr(context.get("dag"), "params", None) or ())
    unknown = sorted(key for key in given if key not in known and not str(key).startswith(_AIRFLOWS))
    if not unknown:
        return
    takes = f"It takes {', '.join(sorted(known))}." if known else "Trigger it without a conf."
    beside = f" Ranges are moved by the DAG {dag_name(flow.name)}, which takes from and to."
    raise RunConfError(
        f"flow {flow.name}: this run was given {', '.join(unknown)}, which its DAG does not know: it moves what is new",
        hint=takes + (beside if flow.source.ranged else ""),
    )


def takeover(dag: Any) -> Finding:
    """Return what a flow's preflight says of it; the choice is the DAG file's, so that nothing is wrong with either."""
    if isinstance(dag.timetable, AssetOrTimeSchedule):
        return _found("changes wake a run: the lease is free after 10 s, the next look comes within 5 s, a run starts")
    if not isinstance(dag.timetable, StaggeredTimetable):
        return _found(f"a schedule of its own: the flow goes on with its next run, or after {_NOTICE}")
    every = timedelta(seconds=dag.timetable.serialize()["delta"])
    return _found(
        f"no wake=: the flow goes on with its next run, up to {every} later, or after {_NOTICE}, and a run's start",
        "flow_dag(…, wake=timedelta(0)) makes it 15 s and a run's start.",
    )


def _found(message: str, hint: str = "") -> Finding:
    return Finding("takeover", Level.OK, f"if the worker dies: {message}", hint)
