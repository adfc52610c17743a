"""The checkpoint store in ZooKeeper: every write is one multi that checks the epoch; none is sent again without a read.

A write goes in rounds: read the epoch, the checkpoint and the plan; decide whether the write is done already, forbidden
or due; send it. When the answer is lost the next round's read, brought up to date by sync(), tells what became of it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

from databus.checkpoints import amendment, transitions
from databus.checkpoints.claimant import LeaseClaimant
from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.flow_state import FlowState, stored_checkpoint
from databus.checkpoints.holder import LeaseHolder, read_holder
from databus.checkpoints.large_values import LargeValues, reference
from databus.checkpoints.layout import FlowPaths, Layout
from databus.checkpoints.lease import ZooKeeperLease
from databus.checkpoints.options import ZooKeeperOptions
from databus.checkpoints.server_ids import ZooKeeperServerIds
from databus.checkpoints.session import Node, ZooKeeperSession
from databus.checkpoints.transaction import (
    Operation,
    OperationKind,
    OutcomeUnknownError,
    RefusedError,
    check,
    create,
    delete,
    set_data,
)
from databus.core.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.connections import Connection
from databus.core.counts import TableCounts
from databus.core.errors import (
    CheckpointConflictError,
    CheckpointError,
    CheckpointFormatError,
    CheckpointUnavailableError,
)
from databus.core.findings import Finding, Level
from databus.core.offsets import Offset
from databus.core.outcome import PlanOutcome
from databus.core.plan import Plan
from databus.core.protocols import Clock, Lease

_log = logging.getLogger(__name__)

_ROUNDS = 4


class _UtcClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ZooKeeperCheckpoints:
    """Implements `databus.core.protocols.CheckpointStore` on ZooKeeper 3.5 or newer.

    Connects at first use, or by `open`. Safe for several threads, which share one session; not across a fork.
    """

    def __init__(self, connection: Connection, clock: Clock | None = None, large: LargeValues | None = None):
        """Read the connection's options; no I/O.

        Args:
            connection: where ZooKeeper is.
            clock: tells the time.
            large: keeps values that are too large for an atomic write; without it they are refused.

        Raises:
            ConfigError: a bad or unknown option.
        """
        self._options = ZooKeeperOptions.from_connection(connection)
        self._session = ZooKeeperSession(self._options, connection.conn_id)
        self._layout = Layout(self._options.root)
        self._clock = clock or _UtcClock()
        self._server_ids = ZooKeeperServerIds(self._session, self._layout)
        self._large = large

    @classmethod
    def open(cls, connection: Connection, clock: Clock | None = None, large: LargeValues | None = None) -> Self:
        """Return a store that is connected.

        Raises:
            CheckpointUnavailableError: ZooKeeper does not answer.
            CheckpointError: it denies access.
            ConfigError: a bad or unknown option.
        """
        store = cls(connection, clock, large)
        try:
            store.list_flows()
        except CheckpointError:
            store.close()
            raise
        return store

    def server_ids(self) -> ZooKeeperServerIds:
        """Return what leases replication server ids; they end with this store's session."""
        return self._server_ids

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session; leases and server ids still held end with it. Safe to call twice."""
        self._session.close()

    def preflight(self) -> Sequence[Finding]:
        """Probe whether ZooKeeper answers and grants access; changes nothing."""
        subject = f"zookeeper: {self._options.hosts}{self._layout.root}"
        try:
            flows = self.list_flows()
        except CheckpointError as error:
            return (Finding(subject, Level.ERROR, error.message, error.hint, error.code),)
        return (Finding(subject, Level.OK, f"answers; {len(flows)} flows"),)

    def list_flows(self) -> Sequence[str]:
        """Return the names of all flows that were ever claimed, sorted."""
        return tuple(self._session.children(self._layout.flows))

    def load(self, flow: str) -> Checkpoint | None:
        """Return the committed checkpoint, None before the first."""
        return self._read(flow, sync=True).checkpoint

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight, None when the last one was committed."""
        return self._read(flow, sync=True).plan

    def epoch(self, flow: str) -> Epoch:
        """Return the epoch of the latest claim, 0 before the first."""
        return self._read(flow, sync=True).epoch

    def holder(self, flow: str) -> LeaseHolder | None:
        """Return who holds the lease, None when it is free."""
        node = self._session.read(self._layout.flow(flow).lease, sync=True)[0]
        return read_holder(node.data, flow) if node else None

    def history(self, flow: str, last: int) -> Sequence[HistoryEntry]:
        """Return the newest entries, newest first."""
        paths = self._layout.flow(flow)
        names = self._session.children(paths.history)[-last:] if last > 0 else []
        nodes = self._session.read(*(f"{paths.history}/{name}" for name in reversed(names))) if names else []
        what = f"history of flow {flow}"
        found = (self._whole(flow, node) for node in nodes)
        return tuple(decode_as(node.data, what, HistoryEntry.from_json) for node in found if node)

    def claim(self, flow: str, who: str, wait_s: float) -> ZooKeeperLease:
        """Take the lease and raise the epoch; waits up to `wait_s`, then raises LeaseBusyError naming the holder."""
        paths = self._layout.flow(flow)
        lease = LeaseClaimant(self._session, flow, paths, self._clock).claim(who, wait_s)
        self._trim_history(flow, paths)
        self._sweep(flow, paths)
        return lease

    def start(self, flow: str, lease: Lease, offset: Offset, who: str) -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0); the same again changes nothing.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the flow has another checkpoint.
        """
        paths = self._layout.flow(flow)
        checkpoint = transitions.first_checkpoint(offset, lease.epoch, who, self._clock.now())
        cause: Exception | None = None
        for attempt in range(_ROUNDS):
            state = self._read(flow, sync=attempt > 0)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            if state.checkpoint is not None:
                transitions.check_start(flow, offset, state.checkpoint)
                return state.checkpoint
            number = 1 + max((int(name) for name in self._session.children(paths.history)), default=0)
            entry = transitions.first_entry(number, checkpoint)
            operations = [
                check(paths.epoch, state.epoch_version),
                create(paths.checkpoint, stored_checkpoint(checkpoint, number)),
                create(paths.history_entry(number), encode(entry.to_json())),
            ]
            cause = self._send(flow, operations, f"the start of flow {flow}")
            if cause is None:
                return checkpoint
        raise self._gave_up(f"flow {flow}: the first checkpoint", cause) from cause

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan ahead of reading; the same plan again changes nothing.

        A plan in flight is replaced by one of a higher batch number only: the caller has made sure that no sink wrote
        any of it.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: another plan is in flight, or this one does not continue the checkpoint.
        """
        paths = self._layout.flow(plan.flow)
        cause: Exception | None = None
        for attempt in range(_ROUNDS):
            state = self._read(plan.flow, sync=attempt > 0)
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            if state.plan is not None and state.plan.hash == plan.hash:
                return
            transitions.check_plan(plan, state.checkpoint, state.plan)
            content = encode(plan.to_json())
            node = state.plan_node
            operations = [
                check(paths.epoch, state.epoch_version),
                set_data(paths.plan, content, node.version) if node else create(paths.plan, content),
            ]
            cause = self._send(plan.flow, operations, f"the plan of flow {plan.flow}, batch {plan.batch}")
            if cause is None:
                return
        raise self._gave_up(f"flow {plan.flow}: the plan of batch {plan.batch}", cause) from cause

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
            CheckpointUnavailableError: no answer: whether the commit was applied is not known, the next `load` tells.
        """
        transitions.check_commit(lease.epoch, plan, checkpoint)
        paths = self._layout.flow(plan.flow)
        cause: Exception | None = None
        for attempt in range(_ROUNDS):
            state = self._read(plan.flow, sync=attempt > 0)
            previous = state.checkpoint
            if transitions.is_committed(plan, lease.epoch, previous):
                return
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            transitions.check_planned(plan, state.plan, previous)
            # A plan in flight was written after a checkpoint: neither is missing here.
            if previous is None or state.checkpoint_node is None or state.plan_node is None:
                raise CheckpointConflictError(f"flow {plan.flow}: batch {plan.batch} is planned without a checkpoint")
            number = state.history_number + 1
            entry = transitions.commit_entry(number, previous, checkpoint, receipts, counts)
            operations = [
                check(paths.epoch, state.epoch_version),
                set_data(paths.checkpoint, stored_checkpoint(checkpoint, number), state.checkpoint_node.version),
                delete(paths.plan, state.plan_node.version),
                create(paths.history_entry(number), encode(entry.to_json())),
                *self._trim(paths, number, cause),
            ]
            superseded = self._superseded(paths, number)
            cause = self._send(plan.flow, operations, f"the commit of flow {plan.flow}, batch {plan.batch}")
            if cause is None:
                self._drop(plan.flow, superseded)
                return
        raise self._gave_up(f"flow {plan.flow}: the commit of batch {plan.batch}", cause) from cause

    def reconcile(
        self, lease: Lease, flow: str, outcomes: Sequence[PlanOutcome], pending: Plan | None
    ) -> Checkpoint | None:
        """Catch up with batches that were moved while ZooKeeper was away (see `CheckpointStore.reconcile`)."""
        paths = self._layout.flow(flow)
        return self._amend(
            lease,
            flow,
            lambda state, trim: amendment.catch_up_step(paths, state, outcomes, pending, trim),
            "catching up",
        )

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str) -> None:
        """Set the checkpoint to where the sinks stand (see `CheckpointStore.adopt`)."""
        paths = self._layout.flow(flow)
        self._amend(
            lease, flow, lambda state, trim: amendment.adopt_step(paths, state, checkpoint, why, trim), "adopting"
        )

    def connected(self) -> bool:
        """Tell whether the store can be asked just now, as far as is known here; asks nothing."""
        return self._session.online

    def _amend(
        self, lease: Lease, flow: str, step_of: Callable[[FlowState, amendment.Trim], amendment.Step | None], what: str
    ) -> Checkpoint | None:
        """Read, send the next step, and read again until no step is left; the epoch is checked in each."""
        paths, cause, fruitless = self._layout.flow(flow), None, 0
        while fruitless < _ROUNDS:
            state = self._read(flow, sync=True)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            step = step_of(state, functools.partial(self._trim_one, paths, cause))
            if step is None:
                return state.checkpoint
            cause = self._send(flow, step.operations, f"{what} of flow {flow}")
            fruitless = 0 if cause is None else fruitless + 1
        raise self._gave_up(f"flow {flow}: {what}", cause) from cause

    def _trim_one(self, paths: FlowPaths, refused: Exception | None, number: int) -> list[Operation]:
        return self._trim(paths, number, refused)

    def _read(self, flow: str, *, sync: bool) -> FlowState:
        paths = self._layout.flow(flow)
        wanted = (paths.checkpoint, paths.plan, paths.epoch)

        def read(*, sync: bool) -> FlowState:
            checkpoint, plan, epoch = self._session.read(*wanted, sync=sync)
            return FlowState(flow, self._whole(flow, checkpoint), self._whole(flow, plan), epoch)

        try:
            return read(sync=sync)
        except CheckpointFormatError:
            # A large value goes with the commit that replaces it, which may have come in between.
            return read(sync=True)

    def _whole(self, flow: str, node: Node | None) -> Node | None:
        """Return a node with its value, wherever that is kept."""
        if node is None or reference(node.data) is None:
            return node
        if self._large is None:
            raise CheckpointFormatError(
                f"flow {flow}: a large value is kept outside of ZooKeeper; this store was opened without its folder",
                hint="Open it with the installation's segment store (DATABUS_SEGMENT_STORE).",
            )
        return replace(node, data=self._large.unpack(flow, node.data))

    def _superseded(self, paths: FlowPaths, number: int) -> Sequence[Node | None]:
        """Return the nodes that the commit of a history number replaces or deletes, where large values are in use."""
        if self._large is None or not self._large.in_use(paths.name):
            return ()
        oldest = [paths.history_entry(number - self._options.history)] if number > self._options.history else []
        return self._session.read(paths.checkpoint, paths.plan, *oldest)

    def _drop(self, flow: str, nodes: Sequence[Node | None]) -> None:
        if self._large is not None:
            self._large.drop(flow, [node.data for node in nodes if node is not None])

    def _sweep(self, flow: str, paths: FlowPaths) -> None:
        """Delete large values that nothing refers to; kills and lost answers leave some."""
        if self._large is None or not self._large.names(flow):
            return
        entries = (f"{paths.history}/{name}" for name in self._session.children(paths.history))
        nodes = self._session.read(paths.checkpoint, paths.plan, *entries)
        self._large.sweep(flow, [node.data for node in nodes if node is not None])

    def _send(self, flow: str, operations: Sequence[Operation], what: str) -> Exception | None:
        """Send a write once; return None when it was applied, else why the next round must look."""
        if self._large is not None:
            operations = self._large.pack(flow, operations)
        try:
            self._session.write(operations, what)
        except (OutcomeUnknownError, RefusedError) as error:
            _log.warning("%s: %s; reading what is there before anything else is done", what, error)
            return error
        return None

    def _gave_up(self, what: str, cause: Exception | None) -> CheckpointError:
        """Return the error after the last round: each write was refused, or none was answered."""
        if isinstance(cause, RefusedError):
            return CheckpointConflictError(
                f"{what} was refused {_ROUNDS} times, the last time at {cause}",
                hint=f"Look at the nodes below {self._layout.flows}: something other than databus has changed them.",
            )
        return CheckpointUnavailableError(
            f"{what} was cut off {_ROUNDS} times without being applied",
            hint=f"Check the network to {self._options.hosts}.",
        )

    def _trim(self, paths: FlowPaths, number: int, refused: Exception | None) -> list[Operation]:
        """Return the delete of the entry that falls out of the history, unless it proved to be gone already."""
        oldest = number - self._options.history
        gone = isinstance(refused, RefusedError) and refused.operation == delete(paths.history_entry(oldest))
        return [] if oldest < 1 or gone else [delete(paths.history_entry(oldest))]

    def _trim_history(self, flow: str, paths: FlowPaths) -> None:
        """Delete what a commit does not: entries left over after the configured number was lowered."""
        for name in self._session.children(paths.history)[: -self._options.history]:
            operation = Operation(OperationKind.DELETE, f"{paths.history}/{name}")
            self._send(flow, [operation], "the trimming of history")
