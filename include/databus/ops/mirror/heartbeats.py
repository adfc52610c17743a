"""Heartbeats of a mirror: written on its source while a run goes on, and read where they arrive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.ops.mirror.translate import mirror_sink
from databus.runtime.context import Services

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeartbeatSighting:
    """The newest heartbeat of a mirror on its target.

    Attributes:
        written_at: when it was written on the source; None where none has arrived.
        age_s: seconds since then: what was written on the source before that long has arrived.
    """

    written_at: datetime | None
    age_s: float | None


def newest_heartbeat(flow: Flow, services: Services) -> HeartbeatSighting:
    """Look up a mirror's newest heartbeat on its target.

    Raises:
        ConfigError: the flow is no mirror, or writes no heartbeats.
        SinkUnavailableError: the target does not answer.
    """
    from databus.kafka.client import ClientSettings
    from databus.kafka.heartbeats import newest
    from databus.kafka.selection import HEARTBEATS

    spec = mirror_sink(flow)
    if spec.heartbeat_s is None:
        raise ConfigError(
            f"mirror {flow.name} writes no heartbeats", hint="Say heartbeat=timedelta(seconds=10) in the Mirror."
        )
    settings = ClientSettings.of(services.connections.get(spec.conn_id), spec.timeout_s)
    found = newest(settings, spec.target(HEARTBEATS), spec.source_conn_id, spec.conn_id)
    if found is None:
        return HeartbeatSighting(None, None)
    return HeartbeatSighting(found.at, max(0.0, (datetime.now(UTC) - found.at).total_seconds()))


@contextmanager
def beating(flow: Flow, services: Services) -> Iterator[None]:
    """Write heartbeats while the block runs: one at once, then every `heartbeat_s` seconds.

    What cannot be written is logged and fails no run.
    """
    from databus.kafka.client import ClientSettings
    from databus.kafka.heartbeats import HeartbeatWriter

    spec = mirror_sink(flow)
    if spec.heartbeat_s is None:
        yield
        return
    settings = ClientSettings.of(services.connections.get(spec.source_conn_id), spec.timeout_s)
    writer = HeartbeatWriter(settings, spec.source_conn_id, spec.conn_id)
    over, every_s = threading.Event(), spec.heartbeat_s

    def beat() -> None:
        try:
            writer.beat()
        except DatabusError as error:
            log.warning("mirror %s: no heartbeat was written: %s", flow.name, error)

    def beat_on() -> None:
        while not over.wait(every_s):
            beat()

    beat()
    thread = threading.Thread(target=beat_on, name=f"heartbeats of {flow.name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
