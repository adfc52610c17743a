"""Writes of persons in ZooKeeper that need no lease: each is one multi, made while a run may hold the flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from databus.checkpoints.batches import MOST_ROUNDS, rounds
from databus.checkpoints.codec import encode
from databus.checkpoints.connection.transaction import Operation, check, create
from databus.checkpoints.flows import ZooKeeperFlows
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.rules import amendments as amended
from databus.checkpoints.rules import history_entries as entries

if TYPE_CHECKING:
    from databus.core.state.amendments import Pause
    from databus.core.state.checkpoint import HistoryEntry

_FRUITLESS = 8
"""Writes in a row that are refused or cut off over one and the same state, before the store gives up."""


class ZooKeeperBesideHolder(ZooKeeperFlows):
    """Writes to a flow by whoever asks, in rounds; the history says who and why."""

    def _looks(self, flow: str) -> Iterator[FlowState]:
        return rounds(lambda sync: self._read(flow, sync=sync), _FRUITLESS)

    def _said(self, state: FlowState, action: str, said: Pause) -> HistoryEntry:
        """Return the entry of what a person did beside the checkpoint. Raises for a flow that has none."""
        checkpoint = amended.require_started(state.flow, state.checkpoint)
        return entries.pause_entry(state.history_number + 1, checkpoint, action, (said.who, said.why, said.at))

    def _beside_the_holder(
        self,
        flow: str,
        step: Callable[[FlowState], tuple[list[Operation], HistoryEntry | None]],
        what: str,
    ) -> None:
        """Write without the lease: epoch and checkpoint must be those that were read, so commits and this serialize.

        The checkpoint node is written again with the number of the history entry, so that no commit takes that number.
        """
        paths = self._layout.flow(flow)
        lost: list[Exception] = []
        for state in self._looks(flow):
            checkpoint, node = amended.require_started(flow, state.checkpoint), state.checkpoint_node
            operations, entry = step(state)
            if entry is None or node is None:
                return
            cause = self._send(
                flow,
                [
                    check(paths.epoch, state.epoch_version),
                    *state.writes(paths, state.stored(checkpoint, entry.number)),
                    create(paths.history_entry(entry.number), encode(entry.to_json())),
                    *operations,
                    *self._trim(flow, entry.number, lost[-1] if lost else None),
                ],
                what,
            )
            if cause is None:
                return
            lost.append(cause)
        raise self._gave_up(what, lost, outrun=len(lost) >= MOST_ROUNDS) from lost[-1]
