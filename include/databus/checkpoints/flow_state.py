"""What stands in ZooKeeper for one flow, as read at once."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A flow's nodes as of one round. The epoch was read last: while it is ours, nobody else wrote in between."""

    flow: str
    checkpoint_node: Node | None
    plan_node: Node | None
    epoch_node: Node | None

    @property
    def epoch(self) -> Epoch:
        """Epoch of the latest claim, 0 before the first."""
        return read_epoch(self.epoch_node.data, self.flow) if self.epoch_node else Epoch(0)

    @property
    def epoch_version(self) -> int:
        """Data version of the epoch's node, which every write checks."""
        return self.epoch_node.version if self.epoch_node else 0

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The committed checkpoint, None before the first."""
        node = self.checkpoint_node
        return decode_as(node.data, f"checkpoint of flow {self.flow}", Checkpoint.from_json) if node else None

    @property
    def plan(self) -> Plan | None:
        """The plan in flight."""
        node = self.plan_node
        return decode_as(node.data, f"plan of flow {self.flow}", Plan.from_json) if node else None

    @property
    def history_number(self) -> int:
        """Number of the history entry that was written with the checkpoint, 0 without one."""
        node = self.checkpoint_node
        what = f"checkpoint of flow {self.flow}"
        return decode_as(node.data, what, lambda value: int(value[_HISTORY_NUMBER])) if node else 0
