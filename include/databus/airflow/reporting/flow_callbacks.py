"""Callbacks of a flow's tasks, and the deadline of its runs, for its alerts."""

from __future__ import annotations

from typing import Any

from databus.core.alerts.alert import AlertKind, ChannelSpec
from databus.core.flow import Flow
from databus.observe.alerts.rules import rules_of


def callbacks(flow: Flow, options: dict[str, Any], *, together: bool = False) -> dict[str, dict[str, Any]]:
    """Add to a DAG what the flow's alerts need; callbacks that the author set are kept.

    A task that has failed for good is notified at once. Rules are judged after each preflight and audit.

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
    from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

    from databus.airflow.moved import AsyncCallback

    callback = AsyncCallback("databus.airflow.notifiers.AlertNotifier", {"flow": flow.to_json(), "kind": "deadline"})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, longest, callback)
