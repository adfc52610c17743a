"""Snapshot turns of a flow: when a batch takes chunks of its tables along, and how far the snapshot has come."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from databus.core.batching import Batching
from databus.core.errors.checkpoint import CheckpointUnavailableError
from databus.core.positions.offsets import Offset
from databus.core.protocols.optional_source import ComparableSource, SnapshotSource
from databus.core.protocols.source import Source
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan, SourcePlan
from databus.core.state.snapshot import BEGINS_WITH_ROWS, CaptureScope, PlannedChunks, Snapshot
from databus.core.state.snapshot_progress import SnapshotProgress, progress_of
from databus.runtime.pacing.snapshot_rate import ChunkShare, SnapshotRate

if TYPE_CHECKING:
    from databus.runtime.context import FlowSession

log = logging.getLogger(__name__)

_LOOK_S = 2.0
"""A snapshot that a person begins, pauses or cancels is seen by a running window after so long at most."""

_BEGINNING = 20
"""Newest history entries among which the first one is looked for while nothing is committed: people amend seldom."""


@dataclass
class SnapshotTurns:
    """Snapshot of one flow as a window knows it.

    Attributes:
        flow: flow name.
        initial: whether a flow that has moved nothing yet begins with its tables as they stand.
        only: whether the log is read for the rows of a snapshot alone, and nothing is moved without one.
        scope: what the flow captures; None where its source does not say.
        rate: rows that may be read; None without a bound.
        held: whether chunks are left, and the flow's own bounds let none be read just now.
        load: which bound the servers' load passes, "" for none.
    """

    flow: str
    initial: bool = False
    only: bool = False
    scope: CaptureScope | None = None
    rate: SnapshotRate | None = None
    held: bool = field(default=False, init=False)
    load: str = field(default="", init=False)
    _share: ChunkShare = field(default_factory=ChunkShare, init=False)
    _known: Snapshot | None = field(default=None, init=False)
    _looked_at: float = field(default=float("-inf"), init=False)
    _waits: bool = field(default=False, init=False)
    _since: SnapshotProgress | None = field(default=None, init=False)

    def begin(
        self, store: CheckpointStore, lease: Lease, source: Source, checkpoint: Checkpoint, who: str, now: datetime
    ) -> None:
        """Look for a snapshot under a new claim, and begin what is to be read of a new flow or of tables added to one.

        What the flow captures is written down in the same step: of a flow that an earlier databus ran nothing is
        known, and nothing is read.

        Raises:
            SnapshotRefusedError: added tables cannot be read.
            SourceError: the tables cannot be listed.
            CheckpointError: the store cannot be used.
        """
        self._look(store)
        if not isinstance(source, SnapshotSource):
            return
        before = store.capture_scope(self.flow) if self.scope is not None else None
        if self.initial and self._known is None and begins_with_rows(store, self.flow, checkpoint):
            tables, cause, why = tuple(source.snapshot_tables()), "initial", "rows from before the flow"
        elif self.initial and before is not None and before != self.scope:
            tables, cause = tuple(source.snapshot_tables_added(before)), "added"
            more = f" and {len(tables) - 3} more" if len(tables) > 3 else ""
            why = f"added to the flow: {', '.join(table.table for table in tables[:3])}{more}"
        else:
            tables, cause, why = (), "", ""
        added = Snapshot(1, cause, now, tables) if tables else None
        if self.scope is not None and before != self.scope:
            self._known = store.follow_scope(self.flow, lease, self.scope, added, who, why)
        elif added is not None:
            self._known = store.begin_snapshot(self.flow, lease, added, who, why)
        if added is not None and self._known is not None:
            rows = sum(table.estimate or 0 for table in tables)
            text = "flow %s: snapshot %d reads %d tables (%s), about %d rows"
            log.info(text, self.flow, self._known.number, len(tables), why, rows)

    def require_begun(self, checkpoint: Checkpoint) -> None:
        """Let no flow move its first rows while it is not known whether the snapshot that goes before them has begun.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away, and the flow may be to begin with the rows of its tables.
        """
        if self.initial and self._known is None and not checkpoint.batch:
            raise CheckpointUnavailableError(
                f"flow {self.flow} has moved nothing yet, and without ZooKeeper it cannot begin with the rows of its "
                "tables",
                hint="The next run begins with them, once ZooKeeper is there.",
            )

    def plan(
        self, store: CheckpointStore, source: Source, after: Offset, limit: Batching, now: datetime
    ) -> tuple[SourcePlan, PlannedChunks | None] | None:
        """Plan the next batch with chunks of the snapshot; None where none is under way, or none can be read now.

        Raises:
            SourceError: as `SnapshotSource.plan_chunks`.
        """
        if time.monotonic() - self._looked_at > _LOOK_S:
            self._look(store)
        snapshot, self.held = self._known, False
        if snapshot is None or not snapshot.under_way or not isinstance(source, SnapshotSource):
            self._since = None
            return None
        if self._over(source, snapshot):
            self.held = True
            return None
        granted = limit.max_rows if self.rate is None else self.rate.granted()
        if not granted:
            self.held = True
            return None
        granted = self._share.granted(min(limit.max_rows, granted))
        limit = limit.model_copy(update={"max_rows": granted})
        if self._since is None or self._since.number != snapshot.number:
            self._since = progress_of(snapshot, now)  # the rate is this run's own, without the time of a pause
        planned = source.plan_chunks(after, snapshot, limit)
        if planned is None:
            if not self._waits:
                log.info("flow %s: snapshot %d waits until the flow has caught up", self.flow, snapshot.number)
            self._waits = True
            return None
        self._waits = False
        proposed, behind = planned
        read = sum(file.rows + file.superseded for file in proposed.chunks)
        self._share.took(read, proposed.rows - sum(file.rows for file in proposed.chunks))
        if self.rate is not None:  # chunks that are read again were read, too
            self.rate.took(read if behind is not None else limit.max_rows)
        if behind is not None and behind.current is None:
            behind = replace(behind, finished_at=now)
        return proposed, None if behind is None else PlannedChunks(behind, proposed.chunks)

    @property
    def over(self) -> bool:
        """Return whether there is nothing to move: no chunks are to be read, and no changes without them."""
        return self.only and (self._known is None or not self._known.under_way)

    def told_over(self) -> str:
        """Say why nothing is moved."""
        number = "no snapshot" if self._known is None else f"snapshot {self._known.number}"
        if self._known is None:
            state = "is under way"
        elif self._known.unfinished:
            state = "is paused"
        else:
            state = "was cancelled" if self._known.cancelled else "is finished"
        return f'flow {self.flow}: {number} {state}; snapshot="only" reads no changes'

    def committed(self, plan: Plan, now: datetime) -> None:
        """Take note of a committed batch, and log how far the snapshot has come."""
        if plan.chunks is None:
            return
        self._share.committed()
        self._known = plan.chunks.snapshot
        self._looked_at = float("-inf")  # a person may have paused it meanwhile: the store knows
        log.info("flow %s: %s", self.flow, progress_of(self._known, now, self._since).text)

    def _over(self, source: SnapshotSource, snapshot: Snapshot) -> bool:
        """Return whether the servers' load lets no chunk be read; says so in the log when that changes."""
        before, self.load = self.load, source.snapshot_load()
        if self.load and not before:
            log.info("flow %s: snapshot %d waits: %s", self.flow, snapshot.number, self.load)
        elif before and not self.load:
            log.info("flow %s: snapshot %d goes on: the servers' load is within its bounds", self.flow, snapshot.number)
        return bool(self.load)

    def _look(self, store: CheckpointStore) -> None:
        self._known, self._looked_at = store.snapshot(self.flow), time.monotonic()


def begins_with_rows(store: CheckpointStore, flow: str, checkpoint: Checkpoint) -> bool:
    """Tell whether a flow was begun with the rows that its tables hold, and has moved nothing since.

    Raises:
        CheckpointError: the store cannot be used.
    """
    if checkpoint.batch:
        return False
    entries = store.history(flow, _BEGINNING)
    return any(entry.action == "start" and entry.why == BEGINS_WITH_ROWS for entry in entries)


def drop_unplanned(session: FlowSession, proposed: SourcePlan) -> None:
    """Delete chunks that were read for a batch of which nothing is planned: each attempt would leave them.

    Those that a sink takes along belong to a plan.
    """
    if proposed.chunks and session.passed is None and isinstance(session.source, ComparableSource):
        session.source.drop_chunks(proposed)
