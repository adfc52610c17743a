"""Snapshots in ZooKeeper: begun by a run or a person, held or ended by a person while a run may move chunks of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from databus.checkpoints.beside_holder import ZooKeeperBesideHolder
from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.session import Node
from databus.checkpoints.connection.transaction import Operation, check, create, set_data
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.rules import snapshots as changes
from databus.checkpoints.rules.amendments import require_started
from databus.checkpoints.rules.mending import check_mends
from databus.checkpoints.rules.plans import check_epoch
from databus.core.state.amendments import Pause
from databus.core.state.checkpoint_store import Lease
from databus.core.state.snapshot import CaptureScope, Snapshot

if TYPE_CHECKING:
    from databus.core.state.checkpoint import HistoryEntry


class ZooKeeperSnapshots(ZooKeeperBesideHolder):
    """Snapshots of the ZooKeeper store; see `databus.core.state.checkpoint_store.Snapshots`."""

    def snapshot(self, flow: str) -> Snapshot | None:
        """Return the flow's snapshot, the unfinished one or the last; None before the first."""
        paths = self._layout.flow(flow)
        node = self._nodes.read(paths, paths.snapshot, sync=True)[0]
        return decode_as(node.data, f"snapshot of flow {flow}", Snapshot.from_json) if node else None

    def begin_snapshot(self, flow: str, lease: Lease | None, snapshot: Snapshot, who: str, why: str) -> Snapshot:
        """Begin a snapshot (see `Snapshots.begin_snapshot`).

        Raises:
            StaleEpochError: another run claimed the flow since.
            SnapshotUnfinishedError: another snapshot of the flow is unfinished.
            CheckpointConflictError: its number was used, the flow has no checkpoint yet, or a gap that it names would
                not be mended.
            CheckpointUnavailableError: no answer: the same again tells whether it was applied.
        """
        said = Pause(who, why, self._clock.now())
        stands = snapshot

        def step(state: FlowState) -> tuple[list[Operation], HistoryEntry | None]:
            nonlocal stands
            if lease is not None:
                check_epoch(flow, lease.epoch, state.epoch)
            state = self._with_snapshot(state, begun=snapshot)
            if not changes.check_begin(flow, state.snapshot, snapshot):
                stands = state.snapshot or snapshot
                return [], None
            check_mends(flow, snapshot, state.gaps, require_started(flow, state.checkpoint).offset)
            return self._written(state, snapshot), self._said(state, "snapshot", said)

        self._beside_the_holder(flow, step, f"the beginning of snapshot {snapshot.number} of flow {flow}")
        return stands

    def capture_scope(self, flow: str) -> CaptureScope | None:
        """Return what the flow captured at its last claim; None where no claim has said so yet."""
        return self._scope(flow, self._scope_node(flow))

    def follow_scope(
        self, flow: str, lease: Lease, scope: CaptureScope, added: Snapshot | None, who: str, why: str
    ) -> Snapshot | None:
        """Write what the flow captures, with the snapshot of what came with it (see `Snapshots.follow_scope`)."""
        if added is None:
            self._write_scope(flow, lease, scope)
            return self.snapshot(flow)
        said, stands = Pause(who, why, self._clock.now()), added

        def step(state: FlowState) -> tuple[list[Operation], HistoryEntry | None]:
            nonlocal stands
            check_epoch(flow, lease.epoch, state.epoch)
            state, node = self._with_snapshot(state), self._scope_node(flow)
            if self._scope(flow, node) == scope:
                stands = state.snapshot or added
                return [], None
            stands = changes.with_added(state.snapshot, added)
            written = [*self._written(state, stands), self._scope_written(flow, scope, node)]
            action = "snapshot" if state.snapshot is None or stands.number > state.snapshot.number else "snapshot-added"
            return written, self._said(state, action, said)

        self._beside_the_holder(flow, step, f"the tables added to flow {flow}")
        return stands

    def pause_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Hold the unfinished snapshot (see `Snapshots.pause_snapshot`)."""
        return self._changed(flow, "pause", Pause(who, why, self._clock.now()), changes.paused)

    def resume_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Let a held snapshot go on (see `Snapshots.resume_snapshot`)."""
        return self._changed(flow, "resume", Pause(who, why, self._clock.now()), changes.resumed)

    def cancel_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """End the unfinished snapshot (see `Snapshots.cancel_snapshot`)."""
        return self._changed(flow, "cancel", Pause(who, why, self._clock.now()), changes.cancelled)

    def _changed(self, flow: str, action: str, said: Pause, change: changes.Change) -> Snapshot:
        made: list[Snapshot] = []

        def step(state: FlowState) -> tuple[list[Operation], HistoryEntry | None]:
            state = self._with_snapshot(state)
            made[:] = [change(flow, state.snapshot, said.at)]
            if made[0] == state.snapshot:
                return [], None
            return self._written(state, made[0]), self._said(state, f"snapshot-{action}", said)

        self._beside_the_holder(flow, step, f"the {action} of the snapshot of flow {flow}")
        return made[0]

    def _write_scope(self, flow: str, lease: Lease, scope: CaptureScope) -> None:
        """Write what the flow captures, and nothing else."""
        paths, what = self._layout.flow(flow), f"the tables of flow {flow}"
        lost: list[Exception] = []
        for state in self._looks(flow):
            check_epoch(flow, lease.epoch, state.epoch)
            node = self._scope_node(flow)
            if self._scope(flow, node) == scope:
                return
            cause = self._send(
                flow, [check(paths.epoch, state.epoch_version), self._scope_written(flow, scope, node)], what
            )
            if cause is None:
                return
            lost.append(cause)
        raise self._gave_up(what, lost) from lost[-1]

    def _scope_node(self, flow: str) -> Node | None:
        paths = self._layout.flow(flow)
        return self._nodes.read(paths, paths.capture_scope, sync=True)[0]

    def _scope(self, flow: str, node: Node | None) -> CaptureScope | None:
        return decode_as(node.data, f"capture scope of flow {flow}", CaptureScope.from_json) if node else None

    def _scope_written(self, flow: str, scope: CaptureScope, node: Node | None) -> Operation:
        path, content = self._layout.flow(flow).capture_scope, encode(scope.to_json())
        return set_data(path, content, node.version) if node else create(path, content)

    def _written(self, state: FlowState, snapshot: Snapshot) -> list[Operation]:
        paths, node, content = self._layout.flow(state.flow), state.snapshot_node, encode(snapshot.to_json())
        write = set_data(paths.snapshot, content, node.version) if node else create(paths.snapshot, content)
        return [write, *state.mending_writes(paths, snapshot)]
