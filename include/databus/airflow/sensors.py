"""Sensors: tasks that wait for a flow. They hold no worker while they wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.moved import AirflowException, AirflowFailException
from databus.airflow.operators.task import airflow_outcome
from databus.core.flow import Flow
from databus.core.former_names import seconds_of_former
from databus.ops.health.head import FlowPosition, HeadLook

_NOT_GIVEN = "not given"
"""Stands for no number where None is one of the choices."""


class _FlowSensor(BaseOperator):
    """Sensor of a flow: it looks once from the worker, and leaves the waiting to the triggerer.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        poll: time between looks, e.g. timedelta(seconds=30); default 5 seconds.
        wait: time after which the task fails, e.g. timedelta(hours=1); default None, never.
        poll_s: former name of `poll`, in seconds; default None.
        **options: further arguments of an operator, e.g. task_id="fresh".
    """

    ui_color = "#efe4fd"

    def __init__(
        self,
        *,
        flow: Flow,
        poll: timedelta = timedelta(seconds=5),
        wait: timedelta | None = None,
        poll_s: float | None = None,
        **options: Any,
    ) -> None:
        if poll_s is not None:
            poll = seconds_of_former(type(self).__name__, "poll_s", "poll", poll_s)
        super().__init__(**options)
        self.flow, self.poll_s, self.wait = flow, poll.total_seconds(), wait

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
        """Return whether there is nothing to wait for."""
        raise NotImplementedError

    def trigger(self) -> Any:
        """Return the trigger that waits."""
        raise NotImplementedError


class ChangesSensor(_FlowSensor):
    """Sensor for changes at a flow's source that the flow has not committed: of a shared log, of its own tables.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        poll: time between looks, e.g. timedelta(seconds=30); default 5 seconds.
        wait: time after which the task fails, e.g. timedelta(hours=1); default None, never.
        poll_s: former name of `poll`, in seconds; default None.
        **options: further arguments of an operator, e.g. task_id="changes".
    """

    def looked(self, look: HeadLook) -> FlowPosition:
        """Return where the flow stands, and whether there are changes."""
        return look.change()

    def is_met(self, place: FlowPosition) -> bool:
        """Return whether there are changes."""
        return place.has_changes

    def trigger(self) -> Any:
        """Return the trigger that waits for changes."""
        from databus.airflow.triggers import ChangesTrigger

        return ChangesTrigger(self.flow, self.poll_s, once=True)


class LagSensor(_FlowSensor):
    """Sensor for the lag of a flow: a report that needs fresh data starts after it.

    Args:
        max_lag: greatest age of the oldest uncommitted change, e.g. timedelta(minutes=5); default one minute, None for
            no such bound.
        max_bytes: most log bytes that are not committed, e.g. 1_000_000; default None, no such bound.
        max_seconds: former name of `max_lag`, in seconds; not given by default.
        **options: flow, poll and wait as of `ChangesSensor`, and further arguments of an operator.
    """

    def __init__(
        self,
        *,
        max_lag: timedelta | None = timedelta(minutes=1),
        max_bytes: int | None = None,
        max_seconds: Any = _NOT_GIVEN,
        **options: Any,
    ) -> None:
        if max_seconds != _NOT_GIVEN:
            max_lag = seconds_of_former("LagSensor", "max_seconds", "max_lag", max_seconds)
        super().__init__(**options)
        self.max_seconds = None if max_lag is None else max_lag.total_seconds()
        self.max_bytes = max_bytes

    def is_met(self, place: FlowPosition) -> bool:
        """Return whether the lag is within the bounds."""
        return place.within(self.max_seconds, self.max_bytes)

    def trigger(self) -> Any:
        """Return the trigger that waits for the lag."""
        from databus.airflow.triggers import LagTrigger

        return LagTrigger(self.flow.to_json(), self.max_seconds, self.max_bytes, self.poll_s)
