"""What a callback's context says, as an observation for the alert rules; and a flow's callbacks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from databus.core.alerts import AlertKind, ChannelSpec
from databus.core.flow import Flow
from databus.observe.alerts.hysteresis import Verdict
from databus.observe.alerts.rules import Observation, rules_of

_LONGEST = 2000


def event_of(kind: AlertKind, context: Any) -> Observation:
    """Return what happened to the task or run of a context."""
    instance, run = context.get("ti"), context.get("dag_run")
    task = str(getattr(instance, "task_id", "") or "")
    # A deadline's context holds the run as Airflow's REST API shows it.
    run_id = str(context.get("run_id") or _field(run, "run_id") or _field(run, "dag_run_id") or "")
    figures: dict[str, Any] = {"attempts": getattr(instance, "try_number", None)}
    if kind is AlertKind.DEADLINE:
        figures["deadline"] = str(_field(context.get("deadline"), "deadline_time") or "")
        return Observation(kind, Verdict.OVER, f"run {run_id} missed its deadline", run_id, figures, run_id=run_id)
    error = str(context.get("exception") or context.get("reason") or "see its log")[:_LONGEST]
    return Observation(
        kind,
        Verdict.OVER,
        f"{task or 'a task'} failed: {error}",
        task,
        figures,
        run_id=run_id,
        run_url=str(getattr(instance, "log_url", "") or "").partition("/tasks/")[0],
    )


def over(kind: AlertKind, subject: str) -> Observation:
    """Return that a subject is well again."""
    return Observation(kind, Verdict.CLEAR, f"{kind} of {subject} is over", subject)


def callbacks(flow: Flow, options: dict[str, Any], *, together: bool = False) -> dict[str, dict[str, Any]]:
    """Add to a DAG what the flow's alerts need; callbacks that the author set are kept.

    A task that has failed for good is told at once. Rules are judged after each preflight and audit.

    Args:
        flow: the flow; one without channels adds nothing.
        options: arguments of the DAG, with `default_args`; a deadline is added.
        together: whether `transfer` is the only task, and does what the others would.

    Returns:
        Further arguments of the tasks, by task id.
    """
    if not any(isinstance(spec, ChannelSpec) for spec in flow.alerts):
        return {}
    from databus.airflow.notifiers import AlertNotifier

    deadline = _deadline(flow)
    if deadline is not None:
        options["deadline"] = [*listed(options.get("deadline")), deadline]
    told: dict[str, dict[str, Any]] = {
        "preflight": {
            "on_success_callback": AlertNotifier(flow, None, ("preflight",)),
            "on_failure_callback": AlertNotifier(flow),
        },
        "transfer": {"on_failure_callback": AlertNotifier(flow)},
        "audit": {
            "on_success_callback": AlertNotifier(flow, None, ("transfer", "audit")),
            "on_failure_callback": AlertNotifier(flow, "failure", ("transfer",)),
        },
    }
    if together:
        told = {"transfer": {**told["transfer"], "on_success_callback": AlertNotifier(flow, None, tuple(told))}}
    own = options.get("default_args", {})
    return {
        task: {name: [*listed(own.get(name)), callback] for name, callback in of_task.items()}
        for task, of_task in told.items()
    }


def listed(value: Any) -> list[Any]:
    """Return callbacks as a list, where Airflow takes none, one or several."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _deadline(flow: Flow) -> Any:
    minutes = rules_of(flow).run_minutes
    if minutes is None or AlertKind.DEADLINE in rules_of(flow).off:
        return None
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

    callback = AsyncCallback("databus.airflow.notifiers.AlertNotifier", {"flow": flow.to_json(), "kind": "deadline"})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(minutes=minutes), callback)


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
