"""Triggers: wait for changes at a flow's source, or for its lag, without holding a worker.

They read ZooKeeper and the head of the source, nothing else. Connections are fetched in the triggerer's event loop;
clients block, so they run in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from databus.airflow.known_connections import connections_of
from databus.core.errors import DatabusError
from databus.core.flow import Flow

if TYPE_CHECKING:
    from databus.ops.head import Place

log = logging.getLogger(__name__)

_CLASS = "databus.airflow.triggers"
PATIENCE = 5
"""Looks in a row that may fail before an error that a retry can mend is handed on."""


async def places(flow: Flow, poll_s: float, patience: int | None) -> AsyncIterator[Place]:
    """Yield a flow's place every `poll_s` seconds.

    Args:
        flow: the flow.
        poll_s: seconds between looks.
        patience: failed looks in a row after which the error is raised; None for never.

    Raises:
        DatabusError: see `patience`, or an error that no retry can mend.
    """
    from databus.ops.head import HeadLook  # not at import: a DAG file may name a trigger, and loads no client

    look = HeadLook(flow, await connections_of(flow))
    failed = 0
    try:
        while True:
            try:
                place = await asyncio.to_thread(look.place)
            except DatabusError as error:
                failed += 1
                if patience is not None and (failed >= patience or not error.retryable):
                    raise
                log.warning("flow %s: %s", flow.name, error)
            else:
                failed = 0
                yield place
            await asyncio.sleep(poll_s)
    finally:
        await asyncio.shield(asyncio.to_thread(look.close))


def _flow(data: dict[str, Any]) -> Flow:
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
            async for place in places(_flow(self.flow), self.poll_s, PATIENCE):
                if place.within(self.max_seconds, self.max_bytes):
                    yield TriggerEvent({"place": place.to_json()})
                    return
        except DatabusError as error:
            yield TriggerEvent({"error": str(error), "retryable": error.retryable})


class ChangesTrigger(BaseEventTrigger):
    """Fires when the source has changes that the flow has not committed.

    For an AssetWatcher it goes on for ever: it fires when there are changes and no run holds the flow's lease, so a
    flow whose DAG is scheduled on that asset is woken when rows come, and left alone while it moves them. For one place
    of the flow it fires again after `again_s` only: by then a run that was woken and failed is over. On a server where
    others write too there are changes all the time: `apart_s` bounds how often it fires. A triggerer that starts anew
    may fire once more.

    Args:
        flow: the flow, or its JSON.
        poll_s: seconds between looks.
        again_s: see above.
        apart_s: seconds between two events at least.
        once: end after the first event, running or not, or with the error that ended it; what ChangesSensor asks for.
    """

    def __init__(
        self,
        flow: Flow | dict[str, Any],
        poll_s: float = 5.0,
        again_s: float = 300.0,
        apart_s: float = 0.0,
        *,
        once: bool = False,
    ) -> None:
        super().__init__()
        self.flow = flow.to_json() if isinstance(flow, Flow) else flow
        self.poll_s, self.again_s, self.apart_s, self.once = poll_s, again_s, apart_s, once

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        arguments = {
            "flow": self.flow, "poll_s": self.poll_s, "again_s": self.again_s, "apart_s": self.apart_s,
            "once": self.once,
        }  # fmt: skip
        return f"{_CLASS}.ChangesTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; each event holds the place."""
        told, told_at = None, -math.inf
        try:
            async for place in places(_flow(self.flow), self.poll_s, PATIENCE if self.once else None):
                if not place.has_changes:
                    continue
                now = time.monotonic()
                if self.once or (not place.running and self._due(place.committed != told, now - told_at)):
                    told, told_at = place.committed, now
                    yield TriggerEvent({"place": place.to_json()})
                    if self.once:
                        return
        except DatabusError as error:
            if not self.once:
                raise
            yield TriggerEvent({"error": str(error), "retryable": error.retryable})

    def _due(self, elsewhere: bool, since_s: float) -> bool:
        """Tell whether it may fire: for another place of the flow than last time, or the same, so long after that."""
        return since_s >= (self.apart_s if elsewhere else max(self.apart_s, self.again_s))
