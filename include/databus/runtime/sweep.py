"""Sweep: under a new claim, what a killed holder staged and nobody planned is deleted."""

from __future__ import annotations

import logging

from databus.core.errors import DatabusError
from databus.core.offsets import OffsetRange
from databus.core.protocols import StagingSource
from databus.runtime.context import FlowSession
from databus.runtime.zookeeper_loss import is_detached

log = logging.getLogger(__name__)


def sweep(session: FlowSession) -> None:
    """Let the source delete its leftovers; a failure is logged, and the next claim tries again.

    While ZooKeeper is away nothing is deleted: which plans are in flight cannot be told.
    """
    flow, store = session.flow.name, session.store

    def planned() -> list[OffsetRange]:
        views = [store, *(store.of_sink(sink) for sink in store.sinks_behind(flow))]
        plans = [view.pending_plan(flow) for view in views]
        return [plan.range for plan in plans if plan is not None]

    if isinstance(session.source, StagingSource) and not is_detached(session):
        try:
            session.source.sweep(planned)
        except DatabusError as error:
            log.warning("flow %s: leftovers in the segment store stay: %s", flow, error)
