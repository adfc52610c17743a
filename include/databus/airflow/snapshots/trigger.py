"""Trigger that waits for the end of a flow's snapshot without holding a worker, and logs how far it has come."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from databus.airflow.triggers import flow_of, looks
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow

log = logging.getLogger(__name__)

LOG_S = 30.0
"""Seconds between two lines of progress, at least."""


class SnapshotTrigger(BaseTrigger):
    """Fires once a snapshot of a flow has ended, or another one stands in its place.

    A ZooKeeper that is away is waited for: a snapshot may take hours, and goes on without whoever looks at it.

    Args:
        flow: the flow's JSON.
        number: number of the snapshot.
        poll_s: seconds between looks.
    """

    def __init__(self, flow: Flow | dict[str, Any], number: int, poll_s: float = 5.0) -> None:
        super().__init__()
        self.flow = flow.to_json() if isinstance(flow, Flow) else flow
        self.number, self.poll_s = number, poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        arguments = {"flow": self.flow, "number": self.number, "poll_s": self.poll_s}
        return f"{__name__}.SnapshotTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; the event holds the number, and the error that ended the wait, if one did."""
        flow, said, said_at = flow_of(self.flow), "", float("-inf")
        try:
            async with aclosing(looks(flow, self.poll_s, math.inf, lambda look: look.snapshot())) as seen:
                async for found in seen:
                    progress = found.progress
                    if progress is None or progress.number != self.number or progress.ended:
                        yield TriggerEvent({"number": self.number})
                        return
                    stands = f"{progress.state} {progress.rows} {progress.done} {found.running}"
                    if stands != said and time.monotonic() - said_at >= LOG_S:
                        said, said_at = stands, time.monotonic()
                        log.info("flow %s: %s%s", flow.name, progress.text, "" if found.running else _NO_RUN)
        except DatabusError as error:
            yield TriggerEvent({"number": self.number, "error": str(error), "retryable": error.retryable})


_NO_RUN = "; no run of the flow moves rows now"
