"""DAGs of one task that stand beside a flow's own: its snapshot, its validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.definitions.param import ParamsDict

from databus.airflow.notifiers import AlertNotifier
from databus.airflow.reporting.flow_callbacks import listed
from databus.core.alerts.alert import ChannelSpec
from databus.core.flow import Flow

PARAM_SCHEMA: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#"}
"""Version of JSON Schema that the fields of a trigger form are of."""


def tables_param(description: str) -> Param:
    """Return the field of a trigger form that takes tables.

    Args:
        description: what is done with them, and with which where it is left empty; Markdown.
    """
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string"},
        **PARAM_SCHEMA,
        title="Tables",
        description_md=description,
    )


def dag_beside(
    flow: Flow, task_id: str, options: dict[str, Any], own: dict[str, Any], make: Callable[..., BaseOperator]
) -> DAG:
    """Return a DAG of one task beside a flow's own; Airflow finds it with that one.

    Args:
        flow: the flow.
        task_id: name of the task.
        options: arguments of the flow's DAG, which hold here as well but for its deadlines: those are about windows,
            and what is done here takes as long as the flow's tables.
        own: arguments of this DAG, before those.
        make: returns the task, given its arguments as an operator takes them.
    """
    told = _callbacks(flow, task_id, options.get("default_args", {}))
    with DAG(**{**options, "deadline": None, "dagrun_timeout": None, **own}) as dag:
        task = make(task_id=task_id, flow=flow, execution_timeout=None, **told)
    # A run gets the DAG's params in any case; the task's copy would be validated again by each comparison.
    task.params = ParamsDict({name: given for name, given in task.params.items() if name not in dag.params})
    return dag


def _callbacks(flow: Flow, task_id: str, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return callbacks that notify the flow's channels of a failure, and of its end; the author's are kept."""
    if not any(isinstance(spec, ChannelSpec) for spec in flow.alerts):
        return {}
    told = {"on_failure_callback": AlertNotifier(flow), "on_success_callback": AlertNotifier(flow, None, (task_id,))}
    return {name: [*listed(defaults.get(name)), notifier] for name, notifier in told.items()}
