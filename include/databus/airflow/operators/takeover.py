"""After how long a flow goes on when its worker dies, by the schedule of its DAG; see docs/modes.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import AssetOrTimeSchedule

from databus.airflow.timetable import StaggeredTimetable
from databus.core.findings import Finding, Level

_NOTICE = "Airflow's own notice (300 s by default, [scheduler] task_instance_heartbeat_timeout)"


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
