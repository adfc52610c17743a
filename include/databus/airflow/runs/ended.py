"""Which runs of a flow are over, as a task or its callback may ask Airflow."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

log = logging.getLogger(__name__)

_FINAL = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""What no task leaves by itself."""


def ended(dag_id: str, run_ids: Collection[str]) -> set[str]:
    """Return which of these runs of a DAG are over: none of their tasks will do anything.

    One of which Airflow does not tell is not: who asks next may learn it, and it may be another DAG's. The DAG
    processor runs the callbacks of killed tasks: it is told the states of tasks; asked for a run, it waits for ever.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        states: dict[str, Any] = RuntimeTaskInstance.get_task_states(dag_id=dag_id, run_ids=sorted(run_ids))
    except Exception as error:  # noqa: BLE001 - whatever Airflow's supervisor answers with
        log.warning("flow %s: Airflow does not tell which runs are over: %s", dag_id, error)
        return set()
    return {run_id for run_id in run_ids if (of_run := states.get(run_id)) and _FINAL.issuperset(of_run.values())}
