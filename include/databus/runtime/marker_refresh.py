"""Upkeep of an idle flow: markers that a sink would forget are written again in time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from databus.core.errors.sink import SinkError
from databus.runtime.context import FlowSession
from databus.runtime.sink_outage.outage import naming

log = logging.getLogger(__name__)

SHARE = 0.25
"""Markers are written again after this share of the time for which the sink keeps them."""


EVERY_S = 3600.0
"""Windows of an idle flow follow each other by the minute: they write markers again once an hour between them."""


@runtime_checkable
class ForgetfulSink(Protocol):
    """A sink that forgets markers which are not written for long."""

    def marker_retention_s(self) -> float:
        """Return the seconds for which a marker is kept."""
        ...

    def refresh(self, after_s: float = 0.0) -> int:
        """Write again each marker for which nobody did so within a time; only under the flow's lease.

        Args:
            after_s: the time, in seconds.

        Returns:
            How many were written.
        """
        ...


@dataclass
class Upkeep:
    """Writes the markers of an idle flow again; every batch does so anyway.

    Attributes:
        monotonic: the clock between refreshes of one window.
    """

    monotonic: Callable[[], float] = time.monotonic
    _refreshed: dict[str, float] = field(default_factory=dict)
    _retention_s: dict[str, float] = field(default_factory=dict)

    def idle(self, session: FlowSession, last_commit: datetime) -> None:
        """Refresh the sinks whose markers are old; a sink that is away is asked again the next time.

        Args:
            session: the flow, or a view of the sinks that are joined.
            last_commit: when the last batch was committed, and with it every marker.
        """
        idle_s = (session.clock.now() - last_commit).total_seconds()
        for name, sink in session.sinks.items():
            if not isinstance(sink, ForgetfulSink):
                continue
            since = self._refreshed.get(name)
            age_s = idle_s if since is None else self.monotonic() - since
            try:
                with naming(name):
                    if name not in self._retention_s:
                        self._retention_s[name] = sink.marker_retention_s()
                    if age_s < self._retention_s[name] * SHARE:
                        continue
                    refreshed = sink.refresh(min(EVERY_S, self._retention_s[name] * SHARE))
            except SinkError as error:
                log.warning("flow %s: markers of sink %s are not refreshed: %s", session.flow.name, name, error)
                continue
            self._refreshed[name] = self.monotonic()
            if not refreshed:
                continue
            log.info(
                "flow %s: idle for %.0f s: %d markers of sink %s written again, kept for %.0f s",
                session.flow.name, idle_s, refreshed, name, self._retention_s[name],
            )  # fmt: skip
