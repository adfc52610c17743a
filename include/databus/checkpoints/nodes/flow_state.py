"""State of one flow in ZooKeeper, as read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from databus.checkpoints.codec import decode, decode_as, encode
from databus.checkpoints.connection.session import Node
from databus.checkpoints.connection.transaction import Operation, create, delete, set_data
from databus.checkpoints.holder import read_epoch
from databus.checkpoints.nodes.stored_outputs import HISTORY_NUMBER, StoredCheckpoint, digest, named_digest, restored
from databus.checkpoints.paths import FlowPaths
from databus.checkpoints.rules.mending import decided
from databus.checkpoints.rules.snapshots import after_batch
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.positions.gaps import Gap
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan
from databus.core.state.snapshot import PlannedChunks, Snapshot


@dataclass(frozen=True)
class FlowState:
    """A flow's nodes as of one round. The epoch was read last: while it is ours, nobody else wrote in between.

    Attributes:
        flow: flow name.
        checkpoint_node: the checkpoint.
        plan_node: the plan in flight.
        epoch_node: epoch of the latest claim.
        outputs_node: what the checkpoint knows of outputs.
        snapshot_node: the flow's snapshot, where it was asked for; None else, and of sinks that are behind.
        gap_nodes: the flow's gaps, where a snapshot was asked for that mends any.
        remembered: whether it is what the last write of this process left, not what was read. It may be behind, as any
            read is by the time of the write: the versions that each write checks show it.
    """

    flow: str
    checkpoint_node: Node | None
    plan_node: Node | None
    epoch_node: Node | None
    outputs_node: Node | None = None
    remembered: bool = False
    snapshot_node: Node | None = None
    gap_nodes: tuple[Node, ...] = ()

    @property
    def versions(self) -> tuple[int | None, ...]:
        """Data versions of checkpoint, plan and epoch, None for a node that is not there: equal where nobody wrote."""
        return tuple(node.version if node else None for node in (self.checkpoint_node, self.plan_node, self.epoch_node))

    @property
    def torn(self) -> bool:
        """Return whether outputs and checkpoint were read as of two commits, or one of them is not what was stored."""
        try:
            return bool(self._named) and self._named != digest(self._outputs)
        except CheckpointFormatError:
            return False  # said by name to whoever asks for the checkpoint

    def same_commit(self, other: FlowState) -> bool:
        """Return whether checkpoint and outputs are as they were read then."""
        return (self.checkpoint_node, self.outputs_node) == (other.checkpoint_node, other.outputs_node)

    @property
    def epoch(self) -> Epoch:
        """Epoch of the latest claim, 0 before the first."""
        return read_epoch(self.epoch_node.data, self.flow) if self.epoch_node else Epoch(0)

    @property
    def epoch_version(self) -> int:
        """Data version of the epoch's node, which every write checks."""
        return self.epoch_node.version if self.epoch_node else 0

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The committed checkpoint, None before the first."""
        node, outputs = self.checkpoint_node, self._outputs
        return decode_as(node.data, self._what, lambda stored: restored(stored, outputs)) if node else None

    @cached_property
    def plan(self) -> Plan | None:
        """The plan in flight."""
        node = self.plan_node
        return decode_as(node.data, f"plan of flow {self.flow}", Plan.from_json) if node else None

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The flow's snapshot, where it was asked for."""
        node = self.snapshot_node
        return decode_as(node.data, f"snapshot of flow {self.flow}", Snapshot.from_json) if node else None

    @cached_property
    def gaps(self) -> Sequence[Gap]:
        """The flow's gaps, where they were asked for."""
        what = f"gaps of flow {self.flow}"
        return tuple(decode_as(node.data, what, Gap.from_json) for node in self.gap_nodes)

    @cached_property
    def history_number(self) -> int:
        """Number of the history entry that was written with the checkpoint, 0 without one."""
        node = self.checkpoint_node
        return decode_as(node.data, self._what, lambda value: int(value[HISTORY_NUMBER])) if node else 0

    def stored(self, checkpoint: Checkpoint, number: int) -> StoredCheckpoint:
        """Return the stored form of a checkpoint that follows this one; outputs are encoded where they changed."""
        before = self.checkpoint
        if before is not None and self._named and checkpoint.outputs == before.outputs:
            return StoredCheckpoint.beside(self._outputs, self._named, checkpoint, number)
        return StoredCheckpoint.of(checkpoint, number)

    def writes(self, paths: FlowPaths, stored: StoredCheckpoint) -> Sequence[Operation]:
        """Return what writes a checkpoint over this one, and its outputs where they are others."""
        operations, node = [_put(paths.checkpoint, stored.content, self.checkpoint_node)], self.outputs_node
        if stored.outputs is None and node is not None:
            operations.append(delete(paths.outputs, node.version))
        elif stored.outputs is not None and stored.outputs != self._outputs:
            operations.append(_put(paths.outputs, stored.outputs, node))
        return operations

    def snapshot_writes(self, paths: FlowPaths, planned: PlannedChunks | None) -> Sequence[Operation]:
        """Return what moves the flow's snapshot by the chunks of a batch that is committed.

        Nothing for a batch without chunks, nor at a sink that is behind: the flow's own commit moves it.
        """
        if planned is None or paths.sink:
            return []
        after = after_batch(self.snapshot, planned.snapshot)
        if after == self.snapshot:
            return []
        return [_put(paths.snapshot, encode(after.to_json()), self.snapshot_node), *self.mending_writes(paths, after)]

    def mending_writes(self, paths: FlowPaths, snapshot: Snapshot | None) -> Sequence[Operation]:
        """Return what lets the gaps that a snapshot mends say so, as it stands from this write on."""
        nodes = dict(zip((gap.number for gap in self.gaps), self.gap_nodes, strict=True))
        return [
            set_data(paths.gap(gap.number), encode(gap.to_json()), nodes[gap.number].version)
            for gap in decided(self.gaps, snapshot)
        ]

    def deletes(self, paths: FlowPaths) -> Sequence[Operation]:
        """Return what deletes the checkpoint and its outputs."""
        nodes = ((paths.checkpoint, self.checkpoint_node), (paths.outputs, self.outputs_node))
        return [delete(path, node.version) for path, node in nodes if node is not None]

    def planned(self, plan: Plan, content: bytes) -> Self:
        """Return the state after a plan was written over this one; nothing is decoded again."""
        node = Node(content, self.plan_node.version + 1 if self.plan_node else 0, 0)
        nodes = (self.checkpoint_node, node, self.outputs_node)
        return self._after(nodes, self._named, checkpoint=self.checkpoint, plan=plan, number=self.history_number)

    def committed(self, checkpoint: Checkpoint, stored: StoredCheckpoint, number: int) -> Self:
        """Return the state after the plan in flight was committed over this one."""
        nodes = (_after(self.checkpoint_node, stored.content), None, _after(self.outputs_node, stored.outputs))
        return self._after(nodes, stored.named, checkpoint=checkpoint, plan=None, number=number)

    @property
    def _what(self) -> str:
        return f"checkpoint of flow {self.flow}"

    @cached_property
    def _named(self) -> str:
        node = self.checkpoint_node
        return named_digest(decode(node.data, self._what)) if node else ""

    @property
    def _outputs(self) -> bytes | None:
        return self.outputs_node.data if self.outputs_node else None

    def _after(
        self,
        nodes: tuple[Node | None, Node | None, Node | None],
        named: str,
        *,
        checkpoint: Checkpoint | None,
        plan: Plan | None,
        number: int,
    ) -> Self:
        of_checkpoint, of_plan, of_outputs = nodes
        state = type(self)(self.flow, of_checkpoint, of_plan, self.epoch_node, of_outputs, remembered=True)
        vars(state).update(checkpoint=checkpoint, plan=plan, history_number=number, _named=named)
        return state


def _put(path: str, content: bytes, node: Node | None) -> Operation:
    return set_data(path, content, node.version) if node else create(path, content)


def _after(node: Node | None, content: bytes | None) -> Node | None:
    """Return a node after a content was written over it; the same where it held that already, None for a deleted one.

    A checkpoint is never the same twice: it holds the number of its history entry.
    """
    if content is None or (node is not None and node.data == content):
        return None if content is None else node
    return Node(content, node.version + 1 if node else 0, 0)
