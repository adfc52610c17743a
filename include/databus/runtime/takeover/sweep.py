"""Sweep: under a new claim, what a killed holder staged and nobody planned is deleted, also beside the flow's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from databus.core.errors.checkpoint import LeaseBusyError
from databus.core.errors.root import DatabusError
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.protocols.staging import NeededSegments, StagingSource
from databus.core.state.backfill import piece_of
from databus.core.state.checkpoint_store import CheckpointStore
from databus.core.state.plan import Plan
from databus.runtime.context import FlowSession
from databus.runtime.zookeeper_loss.policy import is_detached

log = logging.getLogger(__name__)


def sweep(session: FlowSession) -> None:
    """Let the source delete its leftovers; a failure is logged, and the next claim tries again.

    While ZooKeeper is away nothing is deleted: which plans are in flight cannot be determined.
    """
    if isinstance(session.source, StagingSource) and not is_detached(session):
        try:
            session.source.sweep(_Plans(session))
        except DatabusError as error:
            log.warning("flow %s: leftovers in the segment store stay: %s", session.flow.name, error)


class _Plans:
    """Implements `StagedPlans` by the checkpoint store and the backfills that were asked for.

    About pieces the raw store is asked: the session's own remembers one flow, and a sweep is worth no waiting.
    """

    def __init__(self, session: FlowSession):
        self._session = session
        self._beside = session.raw_store or session.store

    def in_flight(self) -> list[OffsetRange]:
        return [plan.range for plan in self._plans()]

    def chunks(self) -> set[str] | None:
        if self._session.store.sinks_behind(self._session.flow.name):
            return None  # chunks that the flow has passed may be theirs yet
        return {file.name for plan in self._plans() if plan.chunks is not None for file in plan.chunks.files}

    def places(self) -> list[Offset] | None:
        flow, store = self._session.flow.name, self._session.store
        stands = [view.load(flow) for view in _views(store, flow)]
        if any(checkpoint is None for checkpoint in stands):
            return None
        ends = [place for planned in self.in_flight() for place in (planned.start, planned.end)]
        return [*(checkpoint.offset for checkpoint in stands if checkpoint is not None), *ends]

    def beside(self, name: str) -> NeededSegments | None:
        """Return what a piece of a backfill needs until it is done; rehearsals and looks at the log need nothing."""
        piece = piece_of(name)
        if piece is None:
            return NeededSegments(over=True)
        flow, id_, number = piece
        found = self._session.backfills.backfill(flow, id_) if self._session.backfills else None
        if found is None or number >= len(found.pieces):
            return None  # of another installation, or older than this ZooKeeper
        ranges, checkpoint = [plan.range for plan in _planned(self._beside, name)], self._beside.load(name)
        reached = checkpoint and checkpoint.offset.compare(found.pieces[number].end) is Ordering.EQUAL
        behind = self._beside.sinks_behind(name)
        return NeededSegments(ranges, over=bool(reached) and not ranges and not behind)

    def _plans(self) -> list[Plan]:
        return _planned(self._session.store, self._session.flow.name)

    @contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Hold the lease of a piece."""
        if piece_of(name) is None:
            yield True
            return
        try:
            lease = self._beside.claim(name, self._session.identity.run_id, 0)
        except LeaseBusyError:
            yield False
            return
        try:
            yield True
        finally:
            lease.release()


def _planned(store: CheckpointStore, name: str) -> list[Plan]:
    plans = [view.pending_plan(name) for view in _views(store, name)]
    return [plan for plan in plans if plan is not None]


def _views(store: CheckpointStore, name: str) -> list[CheckpointStore]:
    return [store, *(store.of_sink(sink) for sink in store.sinks_behind(name))]
