"""Modules imported once, before an Airflow process forks, instead of in every fork.

The DAG processor forks for every DAG file, and the local executor for every task: without this each fork of the first
spends some 0.3 s on it, and each task of the second 1.3 s, an audit 2.2 s more. Airflow's plugin
(`databus/airflow/plugin.py`) names this module as a listener.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

from airflow.configuration import conf
from airflow.listeners import hookimpl

from databus.airflow.operators.process import only_warnings_of_libraries
from databus.registry import GROUPS, PARTS

log = logging.getLogger(__name__)

_MODULES = (
    "databus.airflow.dags",
    "databus.airflow.reporting.alert_events",
    "databus.airflow.assets",
    "databus.airflow.operators.audit",
    "databus.airflow.backfills.operator",
    "databus.airflow.snapshots.operator",
    "databus.airflow.operators.preflight",
    "databus.airflow.operators.submit",
    "databus.airflow.operators.transfer",
    "databus.airflow.operators.single_task_run",
    # Airflow imports these when it serializes the first operator of a process.
    "airflow.providers.standard.operators.trigger_dagrun",
    "airflow.providers.standard.sensors.external_task",
    "airflow.version",
)

_OF_TASKS = (
    "databus.checkpoints.nodes.large_values",
    "databus.checkpoints.zookeeper",
    "databus.ops.runs.audit",
    "databus.ops.runs.lineage_events",
    "databus.ops.mirror.loops",
    "databus.ops.health.preflight",
    "databus.ops.runs.run",
    "databus.records.lineage.run_facet",
    "databus.rows.violations",
    "databus.runtime.spark.session",
    "databus.runtime.live.lane",
    "databus.sinks.elasticsearch.sink",
    "databus.sinks.kafka.direct",
    "databus.sinks.kafka.sink",
    "databus.sinks.kafka_mirror.sink",
    "databus.sources.kafka.source",
    "databus.sources.mysql.source",
    "pymysql",
    "pyspark.sql.connect.functions",
    "pyspark.sql.connect.session",
    "great_expectations.expectations.registry",
    "great_expectations.render.renderer",
)
"""What tasks need once they run. They start no thread and open nothing: a fork of a process that has them is sound."""


def preload() -> None:
    """Import all that DAG files of flows need; no engine and no client, as for the files themselves."""
    ours = (target for kinds, _ in GROUPS.values() for target in kinds.values())
    for name in (*_MODULES, *(target.partition(":")[0] for target in (*ours, *PARTS.values()))):
        importlib.import_module(name)


def preload_tasks() -> None:
    """Import what tasks need; what cannot be imported here is left to the task, which says so."""
    from databus.records.quality.data_docs import compile_templates

    only_warnings_of_libraries()
    try:
        compile_templates()
        for name in _OF_TASKS:
            importlib.import_module(name)
        _prepare_numba()
    except ImportError as error:
        log.warning("tasks import by themselves what they need: %s", error)


def _prepare_numba() -> None:
    """Let Numba import and register what its functions may call: a quarter of a second, at its first call otherwise."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


@hookimpl
def on_starting(component: Any) -> None:  # noqa: ARG001 - Airflow's signature
    """Preload when a job of Airflow (DAG processor, scheduler, triggerer) starts, before its first fork."""
    preload()
    if "scheduler" in sys.argv[1:2] and "LocalExecutor" in conf.get("core", "executor"):
        preload_tasks()
