"""Flow that a DAG carries, as JSON on a task: Airflow stores it with the DAG for the API server, which runs no file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from databus.core.flow import Flow

_KEY = "databus"


def carried(flow: Flow, spark_conn_id: str) -> str:
    """Return a flow and its DAG's Spark Connect connection as JSON, for a task's `doc_json`."""
    return json.dumps({_KEY: {"flow": flow.to_json(), "spark_conn_id": spark_conn_id}}, separators=(",", ":"))


def carried_by(dag: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return `flow` and `spark_conn_id` of a DAG as Airflow has stored it; None where it carries no flow.

    Args:
        dag: the stored DAG, as Airflow serializes it.
    """
    for task in dag.get("dag", {}).get("tasks", ()):
        text = task.get("__var", task).get("doc_json")
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except ValueError:  # a note of somebody's own
            continue
        if isinstance(found, dict) and isinstance(found.get(_KEY), dict):
            return dict(found[_KEY])
    return None
