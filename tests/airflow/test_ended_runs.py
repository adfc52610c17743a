"""Which runs are over, by what Airflow says of them, and what a run's own callbacks say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from databus import AlertWhen, Flow, Mock, Noop, Webhook
from databus.airflow import flow_dag
from databus.airflow.notifiers import AlertNotifier
from databus.airflow.runs.states import ended
from databus.core.alerts.alert import AlertKind
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.observe.alerts.rules import Observation
from databus.ops.health import alerts

FLOW = Flow(
    name="orders",
    source=Mock(rows=1),
    sinks=(Noop(),),
    alerts=(AlertWhen(run_time=timedelta(minutes=3)), Webhook(conn_id="slack_ops")),
)
STATES: dict[str, tuple[str | None, str | None, str | None]] = {
    "queued_yet": (None, None, None),
    "moving": ("success", "running", None),
    "tried again": ("success", "up_for_retry", None),
    "well": ("success", "success", "success"),
    "ill": ("success", "failed", "upstream_failed"),
    "marked": ("failed", "skipped", "skipped"),
}


def test_a_run_is_over_when_airflow_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[dict[str, Any]] = []

    def answer(**query: Any) -> dict[str, Any]:
        asked.append(query)
        states = {run_id: STATES[run_id] for run_id in query["run_ids"] if run_id in STATES}
        return {run_id: dict(zip(("preflight", "transfer", "audit"), s, strict=True)) for run_id, s in states.items()}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", answer)
    assert ended("orders", {*STATES, "another_dags"}) == {"well", "ill", "marked"}
    assert asked == [{"dag_id": "orders", "run_ids": sorted({*STATES, "another_dags"})}]
    assert caplog.text == ""


def test_no_run_is_over_where_airflow_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(**_: Any) -> dict[str, Any]:
        raise RuntimeError("no supervisor")

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", refuse)
    assert ended("orders", STATES) == set()
    assert "orders: Airflow does not report which runs are over: no supervisor" in caplog.text


def test_whoever_runs_a_callback_is_asked_what_it_answers() -> None:
    """A process that asks its supervisor what this one does not know waits for ever."""
    asked = "GetTaskStates"
    for module, name in (
        ("airflow.sdk.execution_time.comms", "ToSupervisor"),
        ("airflow.dag_processing.processor", "ToManager"),
    ):
        known = get_args(get_args(getattr(import_module(module), name))[0])
        assert asked in {message.__name__ for message in known}


class Evaluated:
    """Stands where alerts are evaluated, and keeps what it is asked to."""

    def __init__(self) -> None:
        self.events: Sequence[Observation] = ()
        self.ended: Any = None

    def __call__(self, _flow: Flow, _connections: Any, events: Sequence[Observation], *, ended: Any = None) -> None:
        self.events, self.ended = events, ended


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Evaluated:
    seen = Evaluated()
    monkeypatch.setattr(alerts, "evaluate", seen)
    return seen


def called(task: str, callback: str, mode: str) -> AlertNotifier:
    told = getattr(flow_dag(FLOW, mode=mode).task_dict[task], callback)  # type: ignore[arg-type]
    (notifier,) = (each for each in told if isinstance(each, AlertNotifier))
    return notifier


@pytest.mark.parametrize(
    ("task", "callback", "mode", "over"),
    [
        ("preflight", "on_success_callback", "live", False),
        ("preflight", "on_failure_callback", "live", True),
        ("transfer", "on_failure_callback", "live", True),
        ("audit", "on_success_callback", "live", True),
        ("audit", "on_failure_callback", "live", True),
        ("transfer", "on_success_callback", "economy", True),
        ("transfer", "on_failure_callback", "economy", True),
    ],
)
def test_the_last_task_of_a_run_ends_its_deadline(
    evaluated: Evaluated, task: str, callback: str, mode: str, *, over: bool
) -> None:
    address = f"http://airflow/dags/orders/runs/r7/tasks/{task}?try_number=1"
    instance = SimpleNamespace(task_id=task, try_number=1, log_url=address, dag_id="orders")
    called(task, callback, mode).notify({"ti": instance, "run_id": "r7"})
    of_run = [event for event in evaluated.events if event.kind is AlertKind.DEADLINE]
    said = [(event.subject, event.verdict, event.run_url) for event in of_run]
    assert said == ([("r7", RuleVerdict.CLEAR, "http://airflow/dags/orders/runs/r7")] if over else [])
    assert evaluated.ended.args == ("orders",)


def test_a_triggerer_asks_nobody(evaluated: Evaluated) -> None:
    context = {"dag_run": {"dag_run_id": "r7", "dag_id": "orders"}}
    AlertNotifier(FLOW, "deadline")._tell(context, SimpleNamespace())  # type: ignore[arg-type]
    assert [(event.subject, event.verdict) for event in evaluated.events] == [("r7", RuleVerdict.OVER)]
    assert evaluated.ended is None


@pytest.mark.parametrize(
    ("state", "told"), [("running", True), ("queued", True), ("failed", False), ("success", False)]
)
def test_a_run_that_has_ended_is_not_late(evaluated: Evaluated, state: str, *, told: bool) -> None:
    context = {"dag_run": {"dag_run_id": "r7", "dag_id": "orders", "state": state}}
    AlertNotifier(FLOW, "deadline")._tell(context, SimpleNamespace())  # type: ignore[arg-type]
    assert [event.kind for event in evaluated.events] == ([AlertKind.DEADLINE] if told else [])
