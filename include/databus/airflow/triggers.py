"""Triggers: wait for changes at a flow's source, or for its lag, without holding a worker.

They read ZooKeeper and the head of the source, nothing else. Connections are fetched in the triggerer's event loop;
clients block, so they run in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from databus.airflow.connections import connections_of
from databus.airflow.runs.states import run_waits
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow

if TYPE_CHECKING:
    from databus.ops.health.head import FlowPosition, HeadLook

log = logging.getLogger(__name__)

Seen = TypeVar("Seen")
_CLASS = "databus.airflow.triggers"
PATIENCE = 5
"""Looks in a row that may fail before an error that a retry can mend is handed on."""

_FAILED_AT_MOST_S = 30.0
"""Seconds between looks that fail one after another, where looks are not further apart anyway."""

_AGAIN_AT_MOST_S = 900.0
"""Seconds between two events for one place: how far waiting ever longer goes."""


async def places(
    flow: Flow, poll_s: float, patience: int | None, *, of_changes: bool = False
) -> AsyncIterator[FlowPosition]:
    """Yield a flow's place every `poll_s` seconds, see `looks`.

    Args:
        flow: the flow.
        poll_s: seconds between looks.
        patience: failed looks in a row after which the error is raised; None for never.
        of_changes: whether only changes of the flow's own count, and the lag does not matter.

    Raises:
        DatabusError: see `patience`, or an error that no retry can mend.
    """

    def place(look: HeadLook) -> FlowPosition:
        return look.change() if of_changes else look.place()

    async with aclosing(looks(flow, poll_s, patience, place)) as found:
        async for one in found:
            yield one


async def looks(
    flow: Flow, poll_s: float, patience: float | None, look_of: Callable[[HeadLook], Seen]
) -> AsyncGenerator[Seen]:
    """Yield what a look at a flow shows, every `poll_s` seconds; after looks that failed ever later, up to 30 seconds.

    Connections are fetched anew after a look that failed: one may have been added or changed since, or Airflow did not
    answer when it was asked.

    Args:
        flow: the flow.
        poll_s: seconds between looks.
        patience: failed looks in a row after which the error is raised, `math.inf` for one that a retry cannot mend
            alone; None for never.
        look_of: looks, in a thread.

    Raises:
        DatabusError: see `patience`, or an error that no retry can mend.
    """
    from databus.ops.health.head import HeadLook  # not at import: a DAG file may name a trigger, and loads no client

    look: HeadLook | None = None
    failed = 0
    try:
        while True:
            if look is None:
                look = HeadLook(flow, await connections_of(flow))
            try:
                seen = await asyncio.to_thread(look_of, look)
            except DatabusError as error:
                failed += 1
                if patience is not None and (failed >= patience or not error.retryable):
                    raise
                log.warning("flow %s: %s", flow.name, error)
                await _closed(look)
                look = None
            else:
                failed = 0
                yield seen
            await asyncio.sleep(_ever_longer(poll_s, failed, _FAILED_AT_MOST_S))
    finally:
        if look is not None:
            await _closed(look)


async def _closed(look: HeadLook) -> None:
    await asyncio.shield(asyncio.to_thread(look.close))


def _ever_longer(base_s: float, times: int, at_most_s: float) -> float:
    """Return a wait that doubles with each time after the first, up to a bound, and is never below its base."""
    doubled = min(times - 1, 100)  # a float overflows after 1,023 times, which for wakes are ten days
    return max(base_s, min(base_s * 2.0**doubled, at_most_s))


def flow_of(data: dict[str, Any]) -> Flow:
    """Return the flow of a trigger's arguments."""
    from databus.registry import flow_from_json

    return flow_from_json(data)


class LagTrigger(BaseTrigger):
    """Fires once the lag of a flow does not exceed the bounds given.

    Args:
        flow: the flow's JSON.
        max_seconds: age of the oldest uncommitted change.
        max_bytes: log bytes not committed.
        poll_s: seconds between looks.
    """

    def __init__(
        self, flow: dict[str, Any], max_seconds: float | None, max_bytes: int | None, poll_s: float = 5.0
    ) -> None:
        super().__init__()
        self.flow, self.max_seconds, self.max_bytes, self.poll_s = flow, max_seconds, max_bytes, poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        arguments = {
            "flow": self.flow, "max_seconds": self.max_seconds, "max_bytes": self.max_bytes, "poll_s": self.poll_s,
        }  # fmt: skip
        return f"{_CLASS}.LagTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; the event holds the place, or the error that ended it."""
        try:
            async for place in places(flow_of(self.flow), self.poll_s, PATIENCE):
                if place.within(self.max_seconds, self.max_bytes):
                    yield TriggerEvent({"place": place.to_json()})
                    return
        except DatabusError as error:
            yield TriggerEvent({"error": str(error), "retryable": error.retryable})


class ChangesTrigger(BaseEventTrigger):
    """Fires when the source has changes that the flow has not committed.

    For an AssetWatcher it goes on for ever: it fires when there are changes and no run holds the flow's lease, so a
    flow whose DAG is scheduled on that asset is woken when rows come, and left alone while it moves them, and while a
    run of it waits for a slot: that one will. For one place of the flow it fires again after `again_s` only: by then a
    run that was woken and failed is over. Each further time it waits twice as long, up to a quarter of an hour: what
    has failed again and again is not mended by more runs. On a server where others write too there are changes all the
    time: `apart_s` bounds how often it fires. A triggerer that starts anew may fire once more.

    Args:
        flow: the flow, or its JSON.
        poll_s: `poll` in seconds, as Airflow stores it; default 5.
        again_s: `again` in seconds, as Airflow stores it; default 300.
        apart_s: `apart` in seconds, as Airflow stores it; default 0.
        poll: time between looks, e.g. timedelta(seconds=30).
        again: time until it fires again for one place of the flow, e.g. timedelta(minutes=10).
        apart: least time between two events, e.g. timedelta(minutes=1).
        once: whether it ends after the first event, running or not, or with the error that ended it, as ChangesSensor
            needs it; default False.
        wakes: DAG that has a run begin then, e.g. "orders": its runs are asked for, and a flow without a checkpoint is
            left to its timetable's first run. Default None, where something else follows the changes.
    """

    def __init__(  # noqa: PLR0913 - the stored form and the written one
        self,
        flow: Flow | dict[str, Any],
        poll_s: float = 5.0,
        again_s: float = 300.0,
        apart_s: float = 0.0,
        *,
        poll: timedelta | None = None,
        again: timedelta | None = None,
        apart: timedelta | None = None,
        once: bool = False,
        wakes: str | None = None,
    ) -> None:
        super().__init__()
        self.flow = flow.to_json() if isinstance(flow, Flow) else flow
        self.poll_s = poll_s if poll is None else poll.total_seconds()
        self.again_s = again_s if again is None else again.total_seconds()
        self.apart_s = apart_s if apart is None else apart.total_seconds()
        self.once, self.wakes = once, wakes

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        arguments = {
            "flow": self.flow, "poll_s": self.poll_s, "again_s": self.again_s, "apart_s": self.apart_s,
            "once": self.once, "wakes": self.wakes,
        }  # fmt: skip
        return f"{_CLASS}.ChangesTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; each event holds the place."""
        pace = _Pace(self.again_s, self.apart_s)
        try:
            async for place in places(
                flow_of(self.flow), self.poll_s, PATIENCE if self.once else None, of_changes=True
            ):
                if not place.has_changes or (self.wakes is not None and not place.committed):
                    continue
                if self.once:
                    yield TriggerEvent({"place": place.to_json()})
                    return
                if place.running or not pace.due(place.stands):
                    continue
                fires = self.wakes is None or not await run_waits(self.wakes)
                pace.looked(place.stands, fired=fires)
                if fires:
                    yield TriggerEvent({"place": place.to_json()})
        except DatabusError as error:
            if not self.once:
                raise
            yield TriggerEvent({"error": str(error), "retryable": error.retryable})


class _Pace:
    """Back-off of wake-ups: at once for another place than last time, ever later for the same one."""

    def __init__(self, again_s: float, apart_s: float) -> None:
        self._again_s, self._apart_s = again_s, apart_s
        self._told: str | None = None
        self._told_at = -math.inf
        self._times = 0

    def due(self, committed: str) -> bool:
        """Return whether it may be woken now."""
        elsewhere = committed != self._told
        return time.monotonic() - self._told_at >= (self._apart_s if elsewhere else max(self._apart_s, self._wait_s()))

    def looked(self, committed: str, *, fired: bool) -> None:
        """Note that it was due, and whether it was woken; where a run of it waits it was not, and is asked again."""
        if committed != self._told:
            self._times = 0
        self._told, self._told_at, self._times = committed, time.monotonic(), self._times + fired

    def _wait_s(self) -> float:
        return _ever_longer(self._again_s, self._times, _AGAIN_AT_MOST_S)
