"""Whether a run of a flow waits for a slot, as a trigger may ask Airflow."""

from __future__ import annotations

import logging

from asgiref.sync import sync_to_async

log = logging.getLogger(__name__)

_BEFORE_ROWS = ["preflight", "transfer"]
"""What a run that has yet to move rows waits with; one whose audit waits will move none."""

_WAITING = ["scheduled", "queued"]
"""A dead worker's task stays "running": it is not waited for."""


async def run_waits(dag_id: str) -> bool:
    """Tell whether a run of a flow's DAG has a task before it that will move rows once there is a slot.

    False where Airflow does not tell: a run too many moves nothing, a run too few leaves rows where they are.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        count: int = await sync_to_async(RuntimeTaskInstance.get_ti_count)(
            dag_id=dag_id, task_ids=_BEFORE_ROWS, states=_WAITING
        )
    except Exception as error:  # noqa: BLE001 - whatever Airflow's supervisor answers with
        log.warning("flow %s: Airflow does not tell whether a run waits: %s", dag_id, error)
        return False
    return count > 0
