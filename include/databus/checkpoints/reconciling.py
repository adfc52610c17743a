"""Moves of a checkpoint in ZooKeeper to what happened without it: each step is one multi that checks the epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from databus.checkpoints.connection.transaction import Operation
from databus.checkpoints.flows import ZooKeeperFlows
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.rules import plans as transitions
from databus.checkpoints.rules.adoption import adopt_step
from databus.checkpoints.rules.reconciliation import Step, Trim, catch_up_step
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome

_ROUNDS = 4


class ZooKeeperCatchingUp(ZooKeeperFlows):
    """Steps of the ZooKeeper store after ZooKeeper's own absence; see `Batches.reconcile`, `Amendments.adopt`."""

    def reconcile(
        self, lease: Lease, flow: str, outcomes: Sequence[PlanOutcome], pending: Plan | None
    ) -> Checkpoint | None:
        """Catch up with batches that were moved while ZooKeeper was away (see `Batches.reconcile`)."""
        paths = self._paths(flow)

        def step(state: FlowState, trim: Trim) -> Step | None:
            if not self._sink and any(outcome.plan.chunks for outcome in outcomes):
                state = self._with_snapshot(state)
            return catch_up_step(paths, state, outcomes, pending, trim)

        return self._in_steps(lease, flow, step, "catching up")

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str, after: int = 0) -> None:
        """Set the checkpoint to where the sinks stand (see `Amendments.adopt`)."""
        paths = self._paths(flow)

        def step(state: FlowState, trim: Trim) -> Step | None:
            return adopt_step(paths, state, (checkpoint, why, after), trim)

        self._in_steps(lease, flow, step, "adopting")

    def _in_steps(
        self, lease: Lease, flow: str, step_of: Callable[[FlowState, Trim], Step | None], what: str
    ) -> Checkpoint | None:
        """Read, send the next step, and read again until no step is left; the epoch is checked in each."""
        lost: list[Exception] = []
        while len(lost) < _ROUNDS:
            state = self._read(flow, sync=True)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            step = step_of(state, partial(self._trim_one, flow, lost[-1] if lost else None))
            if step is None:
                return state.checkpoint
            cause = self._send(flow, step.operations, f"{what} of flow {flow}")
            lost = [] if cause is None else [*lost, cause]
        raise self._gave_up(f"flow {flow}: {what}", lost) from lost[-1]

    def _trim_one(self, flow: str, refused: Exception | None, number: int) -> list[Operation]:
        return self._trim(flow, number, refused)
