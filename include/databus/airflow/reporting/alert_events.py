"""What a callback's context says, as an observation for the alert rules; and a flow's callbacks."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from databus.core.alerts.alert import AlertKind, ChannelSpec
from databus.core.flow import Flow
from databus.observe.alerts.hysteresis import Verdict
from databus.observe.alerts.rules import Observation, rules_of

_LONGEST = 2000


def event_of(kind: AlertKind, context: Any) -> Observation:
    """Return what happened to the task or run of a context."""
    instance = context.get("ti")
    task = str(getattr(instance, "task_id", "") or "")
    run_id, run_url = run_of(context)
    figures: dict[str, Any] = {"attempts": getattr(instance, "try_number", None)}
    if kind is AlertKind.DEADLINE:
        figures["deadline"] = str(_field(context.get("deadline"), "deadline_time") or "")
        said = f"run {run_id} missed its deadline"
        return Observation(kind, Verdict.OVER, said, run_id, figures, run_id=run_id, run_url=run_url)
    said = f"{task or 'a task'} failed: {error_of(context)}"
    return Observation(kind, Verdict.OVER, said, task, figures, run_id=run_id, run_url=run_url)


def error_of(context: Any) -> str:
    """Return why the task of a context failed."""
    return str(context.get("exception") or context.get("reason") or "see its log")[:_LONGEST]


def over(kind: AlertKind, subject: str, context: Any) -> Observation:
    """Return that a subject is well again, as the run of a context has shown."""
    run_id, run_url = run_of(context)
    said = f"{kind} of {subject} is over"
    return Observation(kind, Verdict.CLEAR, said, subject, run_id=run_id, run_url=run_url)


def run_of(context: Any) -> tuple[str, str]:
    """Return id of a context's run and address of its page.

    A deadline's context holds the run as Airflow's REST API shows it, and no task whose address could be had: the page
    is found as Airflow finds that of a task (`RuntimeTaskInstance.log_url`).
    """
    run = context.get("dag_run")
    run_id = str(context.get("run_id") or _field(run, "run_id") or _field(run, "dag_run_id") or "")
    address = str(getattr(context.get("ti"), "log_url", "") or "").partition("/tasks/")[0]
    dag_id = dag_of(context)
    if not address and dag_id and run_id:
        address = f"{_airflow()}/dags/{dag_id}/runs/{quote(run_id)}"
    return run_id, address


def run_is_over(context: Any) -> bool:
    """Return whether a context's run has ended.

    Airflow keeps the deadlines of runs that fail, and tells of them when their time comes: such a run is not late.
    """
    state = _field(context.get("dag_run"), "state")
    return str(getattr(state, "value", state)) in {"success", "failed"}


def dag_of(context: Any) -> str:
    """Return the id of a context's DAG, "" when it holds none."""
    return str(_field(context.get("ti"), "dag_id") or _field(context.get("dag_run"), "dag_id") or "")


def _airflow() -> str:
    from airflow.sdk.configuration import conf

    base: str = conf.get("api", "base_url", fallback="http://localhost:8080/")
    return base.rstrip("/")


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
            "on_failure_callback": AlertNotifier(flow, ends=True),
        },
        "transfer": {"on_failure_callback": AlertNotifier(flow, ends=True)},
        "audit": {
            "on_success_callback": AlertNotifier(flow, None, ("transfer", "audit"), ends=True),
            "on_failure_callback": AlertNotifier(flow, "failure", ("transfer",), ends=True),
        },
    }
    if together:
        all_well = AlertNotifier(flow, None, tuple(told), ends=True)
        told = {"transfer": {**told["transfer"], "on_success_callback": all_well}}
    own = options.get("default_args", {})
    return {
        task: {name: [*listed(own.get(name)), callback] for name, callback in of_task.items()}
        for task, of_task in told.items()
    }


def listed(value: Any) -> list[Any]:
    """Return callbacks as a list, where Airflow takes none, one or several."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _deadline(flow: Flow) -> Any:
    longest = rules_of(flow).run_time
    if longest is None or AlertKind.DEADLINE in rules_of(flow).off:
        return None
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

    callback = AsyncCallback("databus.airflow.notifiers.AlertNotifier", {"flow": flow.to_json(), "kind": "deadline"})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, longest, callback)


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
