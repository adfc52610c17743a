"""What stands in ZooKeeper for one flow, as read at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.holder import read_epoch
from databus.checkpoints.session import Node
from databus.core.checkpoint import Checkpoint, Epoch
from databus.core.plan import Plan

_HISTORY_NUMBER = "history"


def stored_checkpoint(checkpoint: Checkpoint, history_number: int) -> bytes:
    """Return the stored form: the checkpoint and the number of the history entry that goes with it."""
    return encode({**checkpoint.to_json(), _HISTORY_NUMBER: history_number})


@dataclass(frozen=True)
class FlowState:
    """A flow's nodes as of one round. The epoch was read last: while it is ours, nobody else wrote in between.

    Attributes:
        flow: flow name.
        checkpoint_node: the checkpoint.
        plan_node: the plan in flight.
        epoch_node: epoch of the latest claim.
        remembered: whether it is what the last write of this process left, not what was read. It may be behind, as any
            read is by the time of the write: the versions that each write checks tell.
    """

    flow: str
    checkpoint_node: Node | None
    plan_node: Node | None
    epoch_node: Node | None
    remembered: bool = False

    @property
    def versions(self) -> tuple[int | None, ...]:
        """Data versions of checkpoint, plan and epoch, None for a node that is not there: equal where nobody wrote."""
        return tuple(node.version if node else None for node in (self.checkpoint_node, self.plan_node, self.epoch_node))

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
        node = self.checkpoint_node
        return decode_as(node.data, f"checkpoint of flow {self.flow}", Checkpoint.from_json) if node else None

    @cached_property
    def plan(self) -> Plan | None:
        """The plan in flight."""
        node = self.plan_node
        return decode_as(node.data, f"plan of flow {self.flow}", Plan.from_json) if node else None

    @cached_property
    def history_number(self) -> int:
        """Number of the history entry that was written with the checkpoint, 0 without one."""
        node = self.checkpoint_node
        what = f"checkpoint of flow {self.flow}"
        return decode_as(node.data, what, lambda value: int(value[_HISTORY_NUMBER])) if node else 0

    def planned(self, plan: Plan, content: bytes) -> Self:
        """Return the state after a plan was written over this one; nothing is decoded again."""
        node = Node(content, self.plan_node.version + 1 if self.plan_node else 0, 0)
        return self._after(
            self.checkpoint_node, node, checkpoint=self.checkpoint, plan=plan, number=self.history_number
        )

    def committed(self, checkpoint: Checkpoint, content: bytes, number: int) -> Self:
        """Return the state after the plan in flight was committed over this one."""
        node = Node(content, self.checkpoint_node.version + 1 if self.checkpoint_node else 0, 0)
        return self._after(node, None, checkpoint=checkpoint, plan=None, number=number)

    def _after(
        self,
        checkpoint_node: Node | None,
        plan_node: Node | None,
        *,
        checkpoint: Checkpoint | None,
        plan: Plan | None,
        number: int,
    ) -> Self:
        state = type(self)(self.flow, checkpoint_node, plan_node, self.epoch_node, remembered=True)
        vars(state).update(checkpoint=checkpoint, plan=plan, history_number=number)
        return state
