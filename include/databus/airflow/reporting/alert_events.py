"""Observations for the alert rules, from the contexts of callbacks."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from databus.core.alerts.alert import AlertKind
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.observe.alerts.rules import Observation

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
        return Observation(kind, RuleVerdict.OVER, said, run_id, figures, run_id=run_id, run_url=run_url)
    said = f"{task or 'a task'} failed: {error_of(context)}"
    return Observation(kind, RuleVerdict.OVER, said, task, figures, run_id=run_id, run_url=run_url)


def error_of(context: Any) -> str:
    """Return why the task of a context failed."""
    return str(context.get("exception") or context.get("reason") or "see its log")[:_LONGEST]


def over(kind: AlertKind, subject: str, context: Any) -> Observation:
    """Return that a subject is well again, as the run of a context has shown."""
    run_id, run_url = run_of(context)
    said = f"{kind} of {subject} is over"
    return Observation(kind, RuleVerdict.CLEAR, said, subject, run_id=run_id, run_url=run_url)


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

    Airflow keeps the deadlines of runs that fail, and reports them when their time comes: such a run is not late.
    """
    state = _field(context.get("dag_run"), "state")
    return str(getattr(state, "value", state)) in {"success", "failed"}


def dag_of(context: Any) -> str:
    """Return the id of a context's DAG, "" when it holds none."""
    return str(_field(context.get("ti"), "dag_id") or _field(context.get("dag_run"), "dag_id") or "")


def _airflow() -> str:
    from databus.airflow.moved import conf

    base: str = conf.get("api", "base_url", fallback="http://localhost:8080/")
    return base.rstrip("/")


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
