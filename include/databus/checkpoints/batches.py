"""Batches in ZooKeeper: the first checkpoint, a plan ahead of reading, the commit that moves the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from databus.checkpoints.codec import encode
from databus.checkpoints.connection.transaction import check, create, delete, set_data
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.reconciling import ZooKeeperCatchingUp
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.core.batches.counts import TableCounts
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.positions.offsets import Offset
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan

MOST_ROUNDS = 50
"""Writes of one call in all, however often others change the state between its reads and its writes."""

_ROUNDS = 4
"""Writes in a row that are refused or cut off over one and the same state, before the store gives up."""


class ZooKeeperBatches(ZooKeeperCatchingUp):
    """Batches of the ZooKeeper store; see `databus.core.state.checkpoint_store.Batches`."""

    def load(self, flow: str) -> Checkpoint | None:
        """Return the committed checkpoint, None before the first."""
        return self._read(flow, sync=True).checkpoint

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight, None when the last one was committed."""
        return self._read(flow, sync=True).plan

    def start(self, flow: str, lease: Lease, offset: Offset, who: str, why: str = "") -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0) and why; the same again changes nothing.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the flow has another checkpoint.
        """
        paths = self._paths(flow)
        checkpoint = transitions.first_checkpoint(offset, lease.epoch, who, self._clock.now())
        lost: list[Exception] = []
        for attempt in range(_ROUNDS):
            state = self._read(flow, sync=attempt > 0)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            if state.checkpoint is not None:
                transitions.check_start(flow, offset, state.checkpoint)
                return state.checkpoint
            number = 1 + max((int(name) for name in self._session.children(paths.history)), default=0)
            entry = entries.entry(number, "start", why, None, checkpoint)
            operations = [
                check(paths.epoch, state.epoch_version),
                *state.writes(paths, state.stored(checkpoint, number)),
                create(paths.history_entry(number), encode(entry.to_json())),
            ]
            cause = self._send(flow, operations, f"the start of flow {flow}")
            if cause is None:
                return checkpoint
            lost.append(cause)
        raise self._gave_up(f"flow {flow}: the first checkpoint", lost) from lost[-1]

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan ahead of reading; the same plan again changes nothing.

        A plan in flight is replaced by one of a higher batch number only: the caller has made sure that no sink wrote
        any of it.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: another plan is in flight, or this one does not continue the checkpoint.
        """
        paths = self._paths(plan.flow)
        lost: list[Exception] = []
        for state in self._rounds(lease, plan.flow, None):
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            if state.plan is not None and state.plan.hash == plan.hash:
                return
            if plan.chunks is not None and not self._sink:
                transitions.check_chunks(plan, self._behind(paths))
            try:
                transitions.check_plan(plan, state.checkpoint, state.plan)
            except CheckpointConflictError:
                if state.remembered:
                    continue
                raise
            content = encode(plan.to_json())
            node = state.plan_node
            operations = [
                check(paths.epoch, state.epoch_version),
                set_data(paths.plan, content, node.version) if node else create(paths.plan, content),
            ]
            cause = self._send(plan.flow, operations, f"the plan of flow {plan.flow}, batch {plan.batch}")
            if cause is None:
                self._left[plan.flow, self._sink] = state.planned(plan, content)
                return
            lost.append(cause)
        what = f"flow {plan.flow}: the plan of batch {plan.batch}"
        raise self._gave_up(what, lost, outrun=len(lost) >= MOST_ROUNDS) from lost[-1]

    def commit(
        self,
        lease: Lease,
        plan: Plan,
        checkpoint: Checkpoint,
        receipts: Sequence[Mapping[str, Any]],
        counts: Mapping[str, TableCounts],
    ) -> None:
        """Move the checkpoint, delete the plan and append history in one atomic step, or raise and change nothing.

        Committing what this epoch has committed already changes nothing: a caller may repeat a call that was cut off.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: this is not the plan in flight, or the checkpoint does not follow from it.
            CheckpointTooLargeError: receipts and counts do not fit.
            CheckpointUnavailableError: no answer: whether the commit was applied is not known until the next `load`.
        """
        transitions.check_commit(lease.epoch, plan, checkpoint)
        paths = self._paths(plan.flow)
        lost: list[Exception] = []
        for state in self._rounds(lease, plan.flow, plan):
            previous = state.checkpoint
            if transitions.is_committed(plan, lease.epoch, previous):
                return
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            transitions.check_planned(plan, state.plan, previous)
            # A plan in flight was written after a checkpoint: neither is missing here.
            if previous is None or state.checkpoint_node is None or state.plan_node is None:
                raise CheckpointConflictError(f"flow {plan.flow}: batch {plan.batch} is planned without a checkpoint")
            with_snapshot = self._with_snapshot(state) if plan.chunks is not None and not self._sink else state
            number = state.history_number + 1
            entry = entries.commit_entry(number, previous, checkpoint, receipts, counts)
            stored = state.stored(checkpoint, number)
            operations = [
                check(paths.epoch, state.epoch_version),
                *state.writes(paths, stored),
                delete(paths.plan, state.plan_node.version),
                create(paths.history_entry(number), encode(entry.to_json())),
                *with_snapshot.snapshot_writes(paths, plan.chunks),
                *self._trim(plan.flow, number, lost[-1] if lost else None),
            ]
            cause = self._send(plan.flow, operations, f"the commit of flow {plan.flow}, batch {plan.batch}")
            if cause is None:
                self._left[plan.flow, self._sink] = state.committed(checkpoint, stored, number)
                return
            lost.append(cause)
        what = f"flow {plan.flow}: the commit of batch {plan.batch}"
        raise self._gave_up(what, lost, outrun=len(lost) >= MOST_ROUNDS) from lost[-1]

    def _rounds(self, lease: Lease, flow: str, in_flight: Plan | None) -> Iterator[FlowState]:
        """Yield what each round of a batch's write goes by: first what the last one left, where it is known.

        That spares a read of the server. What else this store writes is forgotten (`_send`); what others wrote since
        (a claim, a pause) has changed a version that the write checks, and the next round reads.

        Args:
            lease: the claim that writes.
            flow: flow name.
            in_flight: the plan that must be in flight.
        """
        left = self._left.pop((flow, self._sink), None)
        if left is not None and left.epoch == lease.epoch and left.plan == in_flight:
            yield left
        yield from rounds(lambda sync: self._read(flow, sync=sync), _ROUNDS, sync=left is not None)


def rounds(read: Callable[[bool], FlowState], fruitless: int, *, sync: bool = False) -> Iterator[FlowState]:
    """Yield the state that each write goes by, until the caller stops asking.

    A write that lost to others (a pause to commits, a commit to pauses) is tried again over what they left; only
    refusals over an unchanged state count as fruitless.

    Args:
        read: returns the state; given whether ZooKeeper has to be up to date first.
        fruitless: writes in a row over one and the same state.
        sync: whether the first read has to be up to date as well.
    """
    same, former = 0, None
    for attempt in range(MOST_ROUNDS):
        state = read(sync or attempt > 0)
        same = same + 1 if state.versions == former else 1
        if same > fruitless:
            return
        former = state.versions
        yield state
