"""Snapshot turns of a flow: when a batch takes chunks of its tables along, and how far the snapshot has come."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from datetime import datetime

from databus.core.batching import Batching
from databus.core.positions.offsets import Offset
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.protocols.source import Source
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan, SourcePlan
from databus.core.state.snapshot import PlannedChunks, Snapshot

log = logging.getLogger(__name__)

_LOOK_S = 2.0
"""A snapshot that a person begins, pauses or cancels is seen by a running window after so long at most."""


@dataclass
class SnapshotTurns:
    """Snapshot of one flow as a window knows it.

    Attributes:
        flow: flow name.
        initial: whether a flow that has moved nothing yet begins with its tables as they stand.
    """

    flow: str
    initial: bool = False
    _known: Snapshot | None = field(default=None, init=False)
    _looked_at: float = field(default=float("-inf"), init=False)
    _waits: bool = field(default=False, init=False)

    def begin(
        self, store: CheckpointStore, lease: Lease, source: Source, checkpoint: Checkpoint, who: str, now: datetime
    ) -> None:
        """Look for a snapshot under a new claim, and begin the initial one of a flow that has moved nothing yet.

        Raises:
            SourceError: the tables cannot be listed.
            CheckpointError: the store cannot be used.
        """
        self._look(store)
        if not self.initial or self._known is not None or checkpoint.batch or not isinstance(source, SnapshotSource):
            return
        tables = tuple(source.snapshot_tables())
        if not tables:
            return
        self._known = store.begin_snapshot(
            self.flow, lease, Snapshot(1, "initial", now, tables), who, "rows from before the flow"
        )
        rows = sum(table.estimate or 0 for table in tables)
        log.info("flow %s: snapshot 1 of %d tables begins, about %d rows", self.flow, len(tables), rows)

    def plan(
        self, store: CheckpointStore, source: Source, after: Offset, limit: Batching, now: datetime
    ) -> tuple[SourcePlan, PlannedChunks | None] | None:
        """Plan the next batch with chunks of the snapshot; None where none is under way, or none can be read now.

        Raises:
            SourceError: as `SnapshotSource.plan_chunks`.
        """
        if time.monotonic() - self._looked_at > _LOOK_S:
            self._look(store)
        snapshot = self._known
        if snapshot is None or not snapshot.under_way or not isinstance(source, SnapshotSource):
            return None
        planned = source.plan_chunks(after, snapshot, limit)
        if planned is None:
            if not self._waits:
                log.info("flow %s: snapshot %d waits until the flow has caught up", self.flow, snapshot.number)
            self._waits = True
            return None
        self._waits = False
        proposed, behind = planned
        if behind is not None and behind.current is None:
            behind = replace(behind, finished_at=now)
        return proposed, None if behind is None else PlannedChunks(behind, proposed.chunks)

    def committed(self, plan: Plan, now: datetime) -> None:
        """Take note of a committed batch, and log how far the snapshot has come."""
        if plan.chunks is None:
            return
        self._known = plan.chunks.snapshot
        self._looked_at = float("-inf")  # a person may have paused it meanwhile: the store knows
        log.info("flow %s: %s", self.flow, progress_text(self._known, now))

    def _look(self, store: CheckpointStore) -> None:
        self._known, self._looked_at = store.snapshot(self.flow), time.monotonic()


def progress_text(snapshot: Snapshot, now: datetime) -> str:
    """Return how far a snapshot has come, in one line."""
    rows = sum(table.rows + table.superseded for table in snapshot.tables)
    done = sum(table.state == "done" for table in snapshot.tables)
    estimate = sum(max(table.estimate or 0, table.rows + table.superseded) for table in snapshot.tables)
    seconds = max((now - snapshot.begun_at).total_seconds(), 0.001)
    gone = sum(table.state == "gone" for table in snapshot.tables)
    tables = f"{done} of {len(snapshot.tables)} tables" + (f" ({gone} gone)" if gone else "")
    text = f"snapshot {snapshot.number}: {tables}, {rows} of about {estimate} rows"
    if snapshot.finished_at is not None:
        took = max((snapshot.finished_at - snapshot.begun_at).total_seconds(), 0.0)
        return f"{text}, {'cancelled' if snapshot.cancelled else 'finished'} after {took:.0f} s"
    if snapshot.paused:
        return f"{text}, paused"
    if not rows:
        return f"{text}, begun {seconds:.0f} s ago"
    left = seconds * max(estimate - rows, 0) / rows
    return f"{text}, {rows / seconds:.0f} rows/s, about {left:.0f} s left"
