"""Sensors: tasks that wait for a flow. They hold no worker while they wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from databus.airflow.connections import AirflowConnections
from databus.airflow.operators.failures import airflow_outcome
from databus.core.flow import Flow
from databus.ops.health.head import FlowPosition, HeadLook


class _FlowSensor(BaseOperator):
    """Looks once from the worker, and leaves the waiting to the triggerer.

    Args:
        flow: the flow.
        poll_s: seconds between looks.
        wait: how long to wait before the task fails; None for ever.
    """

    ui_color = "#efe4fd"

    def __init__(self, *, flow: Flow, poll_s: float = 5.0, wait: timedelta | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.flow, self.poll_s, self.wait = flow, poll_s, wait

    def execute(self, context: Any) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Return the flow's place once it is as wished."""
        with airflow_outcome():
            look = HeadLook(self.flow, AirflowConnections())
            try:
                place = self.looked(look)
            finally:
                look.close()
        if not self.is_met(place):
            self.log.info("flow %s: %s; waiting in the triggerer", self.flow.name, place)
            self.defer(trigger=self.trigger(), method_name="met", timeout=self.wait)
        return place.to_json()

    def met(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Return the place of the trigger's event.

        Raises:
            AirflowException: the trigger ended with an error that a retry may mend.
            AirflowFailException: one that a retry cannot mend.
        """
        if "error" in event:
            raise (AirflowException if event["retryable"] else AirflowFailException)(event["error"])
        found: dict[str, Any] = event["place"]
        self.log.info("flow %s: %s", self.flow.name, found)
        return found

    def looked(self, look: HeadLook) -> FlowPosition:
        """Return where the flow stands."""
        return look.place()

    def is_met(self, place: FlowPosition) -> bool:
        """Tell whether there is nothing to wait for."""
        raise NotImplementedError

    def trigger(self) -> Any:
        """Return the trigger that waits."""
        raise NotImplementedError


class ChangesSensor(_FlowSensor):
    """Waits until a flow's source has changes that the flow has not committed: of a shared log, of its own tables."""

    def looked(self, look: HeadLook) -> FlowPosition:
        """Return where the flow stands, and whether there are changes."""
        return look.change()

    def is_met(self, place: FlowPosition) -> bool:
        """Tell whether there are changes."""
        return place.has_changes

    def trigger(self) -> Any:
        """Return the trigger that waits for changes."""
        from databus.airflow.triggers import ChangesTrigger

        return ChangesTrigger(self.flow, self.poll_s, once=True)


class LagSensor(_FlowSensor):
    """Waits until a flow is at most so far behind its source: a report that needs fresh data starts after it.

    Args:
        max_seconds: age of the oldest uncommitted change; None for no such bound.
        max_bytes: log bytes not committed; None for no such bound.
        **options: see `_FlowSensor`.
    """

    def __init__(self, *, max_seconds: float | None = 60.0, max_bytes: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.max_seconds, self.max_bytes = max_seconds, max_bytes

    def is_met(self, place: FlowPosition) -> bool:
        """Tell whether the lag is within the bounds."""
        return place.within(self.max_seconds, self.max_bytes)

    def trigger(self) -> Any:
        """Return the trigger that waits for the lag."""
        from databus.airflow.triggers import LagTrigger

        return LagTrigger(self.flow.to_json(), self.max_seconds, self.max_bytes, self.poll_s)
