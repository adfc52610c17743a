"""Notifier of a flow's alerts: usable wherever Airflow takes a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from databus.core.alerts.alert import AlertKind
from databus.core.connections import ConnectionSource
from databus.core.flow import Flow

if TYPE_CHECKING:
    from databus.observe.alerts.rules import Observation


class AlertNotifier(BaseNotifier):
    """Judges a flow by its rules and notifies its channels of what changed, each alert once.

    `flow_dag` sets it for flows with `alerts`. By hand: `on_failure_callback=AlertNotifier(flow)`,
    `on_success_callback=AlertNotifier(flow, kind=None, well=("my_task",))`, or in a DeadlineAlert as
    `AsyncCallback(AlertNotifier, {"flow": flow.to_json(), "kind": "deadline"})`.

    Args:
        flow: the flow, as `Flow(…)` returned it, or its JSON.
        kind: what is sent at once: "failure" (default) of the task, "deadline" missed by the run; None for nothing but
            what the rules say.
        well: tasks whose failure is over, e.g. ("transfer",); default none.
        context: Airflow's context, where it is given at construction; default None.
        ends: whether the run is over with what is sent: then it is not late any more. Default False.
    """

    def __init__(
        self,
        flow: Flow | Mapping[str, Any],
        kind: str | None = "failure",
        well: Sequence[str] = (),
        context: Any = None,
        *,
        ends: bool = False,
    ) -> None:
        super().__init__(context=context)
        self.flow = flow
        self.kind = AlertKind(kind) if kind else None
        self.well = tuple(well)
        self.ends = ends

    def notify(self, context: Any) -> None:
        """Notify; what goes wrong with that is logged and harms no task."""
        from databus.airflow.connections import AirflowConnections
        from databus.airflow.reporting.alert_events import dag_of
        from databus.airflow.runs.states import ended

        self._tell(context, AirflowConnections(), ended=partial(ended, dag_of(context)))

    async def async_notify(self, context: Any) -> None:
        """Notify, from the triggerer: connections are fetched in its loop, all else happens in a thread."""
        from databus.airflow.connections import connections_of

        known = await connections_of(self._flow(), alerts=True)
        await asyncio.to_thread(self._tell, context, known)

    def _flow(self) -> Flow:
        from databus.registry import flow_from_json

        return self.flow if isinstance(self.flow, Flow) else flow_from_json(self.flow)

    def events(self, context: Any) -> list[Observation]:
        """Return what happened, and what is over, to the task or run of a context."""
        from databus.airflow.reporting.alert_events import event_of, over, run_is_over, run_of

        events = [over(AlertKind.FAILURE, task, context) for task in self.well]
        if self.ends:
            events.append(over(AlertKind.DEADLINE, run_of(context)[0], context))
        if self.kind is not None and not (self.kind is AlertKind.DEADLINE and run_is_over(context)):
            events.append(event_of(self.kind, context))
        return events

    def _tell(self, context: Any, connections: ConnectionSource, **asked: Any) -> None:
        from databus.ops.health.alerts import evaluate

        evaluate(self._flow(), connections, self.events(context), **asked)
