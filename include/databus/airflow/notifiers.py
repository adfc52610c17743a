"""A notifier that tells a flow's alerts: usable wherever Airflow takes a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from databus.core.alerts import AlertKind
from databus.core.connections import ConnectionSource
from databus.core.flow import Flow


class AlertNotifier(BaseNotifier):
    """Judges a flow by its rules and tells its channels what changed, each alert once.

    `flow_dag` sets it for flows with `alerts`. By hand: `on_failure_callback=AlertNotifier(flow)`,
    `on_success_callback=AlertNotifier(flow, kind=None, well=("my_task",))`, or in a DeadlineAlert as
    `AsyncCallback(AlertNotifier, {"flow": flow.to_json(), "kind": "deadline"})`.

    Args:
        flow: the flow, or its JSON.
        kind: what is told at once: "failure" of the task, "deadline" missed by the run; None for nothing but what the
            rules say.
        well: tasks whose failure is over.
        context: Airflow's context, where it is given at construction.
    """

    def __init__(
        self,
        flow: Flow | Mapping[str, Any],
        kind: str | None = "failure",
        well: Sequence[str] = (),
        context: Any = None,
    ) -> None:
        super().__init__(context=context)
        self.flow = flow
        self.kind = AlertKind(kind) if kind else None
        self.well = tuple(well)

    def notify(self, context: Any) -> None:
        """Tell; what goes wrong with that is logged and harms no task."""
        from databus.airflow.connections import AirflowConnections

        self._tell(context, AirflowConnections())

    async def async_notify(self, context: Any) -> None:
        """Tell, from the triggerer: connections are fetched in its loop, all else happens in a thread."""
        from databus.airflow.known_connections import connections_of

        known = await connections_of(self._flow(), alerts=True)
        await asyncio.to_thread(self._tell, context, known)

    def _flow(self) -> Flow:
        from databus.registry import flow_from_json

        return self.flow if isinstance(self.flow, Flow) else flow_from_json(self.flow)

    def _tell(self, context: Any, connections: ConnectionSource) -> None:
        from databus.airflow.alert_events import event_of, over
        from databus.ops.alerts import evaluate

        events = [over(AlertKind.FAILURE, task) for task in self.well]
        if self.kind is not None:
            events.append(event_of(self.kind, context))
        evaluate(self._flow(), connections, events)
