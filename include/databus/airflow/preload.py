"""What each fork of an Airflow process would import anew: imported once, before it forks.

The DAG processor forks for every DAG file, and the local executor for every task; each fork of a process without these
modules spends some 0.3 s on them. Airflow's plugin (`plugins/databus_plugin.py`) names this module as a listener.
"""

from __future__ import annotations

import importlib
from typing import Any

from airflow.listeners import hookimpl

from databus.registry import GROUPS, PARTS

_MODULES = (
    "databus.airflow.dags",
    "databus.airflow.mirrors",
    "databus.airflow.alert_events",
    "databus.airflow.assets",
    "databus.airflow.audit",
    "databus.airflow.backfill",
    "databus.airflow.preflight",
    "databus.airflow.submit",
    "databus.airflow.transfer",
    # Airflow imports these when it serializes the first operator of a process.
    "airflow.providers.standard.operators.trigger_dagrun",
    "airflow.providers.standard.sensors.external_task",
    "airflow.version",
)


def preload() -> None:
    """Import all that DAG files of flows need; no engine and no client, as for the files themselves."""
    ours = (target for kinds, _ in GROUPS.values() for target in kinds.values())
    for name in (*_MODULES, *(target.partition(":")[0] for target in (*ours, *PARTS.values()))):
        importlib.import_module(name)


@hookimpl
def on_starting(component: Any) -> None:  # noqa: ARG001 - Airflow's signature
    """Preload when a job of Airflow (DAG processor, scheduler, triggerer) starts, before its first fork."""
    preload()
