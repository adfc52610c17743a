"""Snapshots of the checkpoint store in memory, by the same rules as in ZooKeeper."""

from __future__ import annotations

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.rules import amendments as amended
from databus.checkpoints.rules import snapshots as changes
from databus.checkpoints.rules.mending import check_mends
from databus.checkpoints.rules.plans import check_epoch
from databus.core.state.amendments import Pause
from databus.core.state.checkpoint_store import Lease
from databus.core.state.snapshot import CaptureScope, Snapshot
from databus.testing.memory_flows import MemoryFlows


class MemorySnapshots(MemoryFlows):
    """Snapshots of the memory store; see `databus.core.state.checkpoint_store.Snapshots`."""

    def snapshot(self, flow: str) -> Snapshot | None:
        """Return the flow's snapshot, the unfinished one or the last; None before the first."""
        with self._server.changed:
            return self._snapshot(flow)

    def begin_snapshot(self, flow: str, lease: Lease | None, snapshot: Snapshot, who: str, why: str) -> Snapshot:
        """Begin a snapshot, and return it as it stands."""
        with self._server.changed:
            checkpoint = amended.require_started(flow, self._load(flow))
            state, stored = self._server.flow(flow), self._snapshot(flow)
            if lease is not None:
                check_epoch(flow, lease.epoch, state.epoch)
            if not changes.check_begin(flow, stored, snapshot):
                return stored or snapshot
            check_mends(flow, snapshot, self._gaps(flow), checkpoint.offset)
            self._said(flow, checkpoint, "snapshot", Pause(who, why, self._clock.now()))
            self._put_snapshot(flow, snapshot)
            return snapshot

    def capture_scope(self, flow: str) -> CaptureScope | None:
        """Return what the flow captured at its last claim."""
        with self._server.changed:
            data = self._server.flow(flow).scope
            return decode_as(data, f"capture scope of flow {flow}", CaptureScope.from_json) if data else None

    def follow_scope(
        self, flow: str, lease: Lease, scope: CaptureScope, added: Snapshot | None, who: str, why: str
    ) -> Snapshot | None:
        """Write what the flow captures, with the snapshot of what came with it."""
        with self._server.changed:
            state, stored = self._server.flow(flow), self._snapshot(flow)
            check_epoch(flow, lease.epoch, state.epoch)
            if self.capture_scope(flow) == scope:
                return stored
            if added is not None:
                checkpoint = amended.require_started(flow, self._load(flow))
                made = changes.with_added(stored, added)
                action = "snapshot" if stored is None or made.number > stored.number else "snapshot-added"
                self._said(flow, checkpoint, action, Pause(who, why, self._clock.now()))
                self._put_snapshot(flow, made)
                stored = made
            state.scope = encode(scope.to_json())
            return stored

    def pause_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Hold the unfinished snapshot."""
        return self._changed(flow, "pause", Pause(who, why, self._clock.now()), changes.paused)

    def resume_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Let a held snapshot go on."""
        return self._changed(flow, "resume", Pause(who, why, self._clock.now()), changes.resumed)

    def cancel_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """End the unfinished snapshot."""
        return self._changed(flow, "cancel", Pause(who, why, self._clock.now()), changes.cancelled)

    def _changed(self, flow: str, action: str, said: Pause, change: changes.Change) -> Snapshot:
        with self._server.changed:
            checkpoint = amended.require_started(flow, self._load(flow))
            stored = self._snapshot(flow)
            made = change(flow, stored, said.at)
            if made != stored:
                self._said(flow, checkpoint, f"snapshot-{action}", said)
                self._put_snapshot(flow, made)
            return made
