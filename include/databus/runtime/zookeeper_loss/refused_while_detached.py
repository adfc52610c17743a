"""Calls that only ZooKeeper can answer: refused by name while a holder goes on without it (ADR 19)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from databus.core.positions.gaps import Gap
from databus.core.state.amendments import AcceptedOutputs, Amendment, Pause
from databus.core.state.checkpoint import Checkpoint, HistoryEntry
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.snapshot import CaptureScope, Snapshot
from databus.runtime.zookeeper_loss.retrying_store import RetryingStore


class AttachedOnlyStore(ABC):
    """Amendments and history of a detachable store: retried while ZooKeeper is there, refused while it is away."""

    _store: CheckpointStore
    _retried: RetryingStore

    @abstractmethod
    def require_attached(self, flow: str, what: str) -> None:
        """Refuse what only ZooKeeper can hold while it is away.

        Raises:
            CheckpointUnavailableError: it is away; names what is refused.
        """

    @abstractmethod
    def moved_to(self, checkpoint: Checkpoint) -> Checkpoint:
        """Remember where the flow stands after a move that no commit made."""

    def history(self, flow: str, last: int) -> Sequence[HistoryEntry]:
        """Return the newest entries.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away, and with it the history.
        """
        self.require_attached(flow, "its history cannot be read")
        return self._store.history(flow, last)

    def gaps(self, flow: str) -> Sequence[Gap]:
        """Return the flow's named gaps.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "its gaps cannot be read")
        return self._retried.gaps(flow)

    def note_gap(self, flow: str, lease: Lease, gap: Gap) -> Gap:
        """Name a gap.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, f"the gap {gap} cannot be named")
        return self._retried.note_gap(flow, lease, gap)

    def amend(self, flow: str, lease: Lease, amendment: Amendment) -> Checkpoint:
        """Move the checkpoint by hand.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, f"its checkpoint cannot be moved ({amendment.action})")
        return self.moved_to(self._retried.amend(flow, lease, amendment))

    def amend_sink(self, flow: str, lease: Lease, sink: str, amendment: Amendment) -> Checkpoint:
        """Move a sink that is behind by hand.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, f"sink {sink} cannot be moved ({amendment.action})")
        return self._retried.amend_sink(flow, lease, sink, amendment)

    def accept_outputs(self, flow: str, lease: Lease, accepted: AcceptedOutputs) -> Checkpoint:
        """Know outputs as they are now.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "outputs cannot be accepted")
        return self.moved_to(self._retried.accept_outputs(flow, lease, accepted))

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str, after: int = 0) -> None:
        """Adopt the sinks' place.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "the sinks' place cannot be adopted")
        self._retried.adopt(lease, flow, checkpoint, why, after)
        self.moved_to(checkpoint)

    def pause(self, flow: str, who: str, why: str) -> Pause:
        """Pause the flow.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "it cannot be paused")
        return self._retried.pause(flow, who, why)

    def resume(self, flow: str, who: str, why: str) -> Pause | None:
        """End a pause.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "its pause cannot be ended")
        return self._retried.resume(flow, who, why)

    def begin_snapshot(self, flow: str, lease: Lease | None, snapshot: Snapshot, who: str, why: str) -> Snapshot:
        """Begin a snapshot.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "no snapshot can begin")
        return self._retried.begin_snapshot(flow, lease, snapshot, who, why)

    def capture_scope(self, flow: str) -> CaptureScope | None:
        """Return what the flow captured at its last claim.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "what it captured is not known")
        return self._retried.capture_scope(flow)

    def follow_scope(
        self, flow: str, lease: Lease, scope: CaptureScope, added: Snapshot | None, who: str, why: str
    ) -> Snapshot | None:
        """Write what the flow captures, with the snapshot of what came with it.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "its tables cannot be written down")
        return self._retried.follow_scope(flow, lease, scope, added, who, why)

    def pause_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Hold the unfinished snapshot.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "its snapshot cannot be paused")
        return self._retried.pause_snapshot(flow, who, why)

    def resume_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Let a held snapshot go on.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "its snapshot cannot be resumed")
        return self._retried.resume_snapshot(flow, who, why)

    def cancel_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """End the unfinished snapshot.

        Raises:
            CheckpointUnavailableError: ZooKeeper is away.
        """
        self.require_attached(flow, "its snapshot cannot be cancelled")
        return self._retried.cancel_snapshot(flow, who, why)
