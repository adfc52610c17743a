"""The DAG of a mirror: a flow's, with what only a mirror has to say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from databus.airflow.dags import flow_dag
from databus.airflow.schedules import EVERY_MINUTE, Schedule
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.spec import caller


def mirror_dag(
    mirror: Flow, *, schedule: Schedule = EVERY_MINUTE, every: timedelta | None = None, **options: Any
) -> DAG:
    """Return the DAG of a mirror; assign it to a module-level name in a file of the DAG folder.

    Args:
        mirror: what `Mirror(…)` returned; its name becomes the DAG id.
        schedule: when runs begin, see `flow_dag`, e.g. timedelta(minutes=5); default timedelta(minutes=1).
        every: the same for a timedelta; one of the two may be given.
        **options: as `flow_dag` takes them, e.g. mode="live".

    Raises:
        ConfigError: the flow is no mirror; names the DAG file and line.
    """
    if not isinstance(mirror, Flow) or [sink.kind for sink in mirror.sinks] != ["kafka_mirror"]:
        raise ConfigError(f"{caller()}: mirror_dag needs a Mirror", hint="For other flows there is flow_dag.")
    tags = {"databus", "mirror", *options.pop("tags", ())}
    return flow_dag(mirror, schedule=schedule, every=every, tags=tags, **options)
