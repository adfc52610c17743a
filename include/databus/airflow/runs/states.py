"""States of a flow's runs, as Airflow reports them to tasks and triggers: which are over, which wait for a slot."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from asgiref.sync import sync_to_async

_BEFORE_ROWS = ["preflight", "transfer"]
"""Task that waits in a run with rows still to move; a run whose audit waits will move none."""

_WAITING = ["scheduled", "queued"]
"""A dead worker's task stays "running": it is not waited for."""

log = logging.getLogger(__name__)

_FINAL = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""What no task leaves by itself."""


def ended(dag_id: str, run_ids: Collection[str]) -> set[str]:
    """Return which of these runs of a DAG are over: none of their tasks will do anything.

    One of which Airflow does not report is not: who asks next may learn it, and it may be another DAG's. The DAG
    processor runs the callbacks of killed tasks: it gets the states of tasks; asked for a run, it waits for ever.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        states: dict[str, Any] = RuntimeTaskInstance.get_task_states(dag_id=dag_id, run_ids=sorted(run_ids))
    except Exception as error:  # noqa: BLE001 - whatever Airflow's supervisor answers with
        log.warning("flow %s: Airflow does not report which runs are over: %s", dag_id, error)
        return set()
    return {run_id for run_id in run_ids if (of_run := states.get(run_id)) and _FINAL.issuperset(of_run.values())}


async def run_waits(dag_id: str) -> bool:
    """Return whether a run of a flow's DAG has a task before it that will move rows once there is a slot.

    False where Airflow does not report: a run too many moves nothing, a run too few leaves rows where they are.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        count: int = await sync_to_async(RuntimeTaskInstance.get_ti_count)(
            dag_id=dag_id, task_ids=_BEFORE_ROWS, states=_WAITING
        )
    except Exception as error:  # noqa: BLE001 - whatever Airflow's supervisor answers with
        log.warning("flow %s: Airflow does not report whether a run waits: %s", dag_id, error)
        return False
    return count > 0
