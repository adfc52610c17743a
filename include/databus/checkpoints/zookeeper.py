"""The checkpoint store in ZooKeeper: every write is one multi that checks the epoch; none is sent again without a read.

A write goes in rounds: read the epoch, the checkpoint and the plan; decide whether the write is done already, forbidden
or due; send it. When the answer is lost the next round's read, brought up to date by sync(), tells what became of it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self

from databus.checkpoints import entries, transitions
from databus.checkpoints.alert_states import ZooKeeperAlertBook
from databus.checkpoints.backfills import ZooKeeperBackfills
from databus.checkpoints.catching_up import ZooKeeperCatchingUp
from databus.checkpoints.claimant import LeaseClaimant
from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.dump_turns import ZooKeeperDumpTurns
from databus.checkpoints.flow_nodes import FlowNodes
from databus.checkpoints.flow_state import FlowState, stored_checkpoint
from databus.checkpoints.history import ZooKeeperHistory
from databus.checkpoints.holder import LeaseHolder, read_holder
from databus.checkpoints.large_values import LargeValues
from databus.checkpoints.layout import FlowPaths, Layout
from databus.checkpoints.lease import ZooKeeperLease
from databus.checkpoints.mediation import ZooKeeperMediation
from databus.checkpoints.options import ZooKeeperOptions
from databus.checkpoints.server_ids import ZooKeeperServerIds
from databus.checkpoints.session import ZooKeeperSession
from databus.checkpoints.splits import ZooKeeperSplits
from databus.checkpoints.transaction import Operation, RefusedError, check, create, delete, set_data
from databus.core.checkpoint import Checkpoint, Epoch
from databus.core.checkpoint_store import Lease
from databus.core.connections import Connection
from databus.core.counts import TableCounts
from databus.core.errors import CheckpointConflictError, CheckpointError, CheckpointUnavailableError
from databus.core.findings import Finding, Level
from databus.core.gaps import Gap
from databus.core.offsets import Offset
from databus.core.plan import Plan
from databus.core.protocols import Clock

_ROUNDS = 4


class _UtcClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ZooKeeperCheckpoints(ZooKeeperHistory, ZooKeeperMediation, ZooKeeperCatchingUp):
    """Implements `databus.core.checkpoint_store.CheckpointStore` on ZooKeeper 3.5 or newer.

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
        self._recorded: dict[str, int] = {}
        self._nodes = FlowNodes(self._session, large)
        self._splits = ZooKeeperSplits(self._session, self._nodes, self._options, self._clock)
        self._sink = ""

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

    def backfills(self) -> ZooKeeperBackfills:
        """Return where backfills and their boundaries are kept."""
        return ZooKeeperBackfills(self._session, self._layout, self._nodes)

    def dump_turns(self) -> ZooKeeperDumpTurns:
        """Return what gives turns to dump a server's log; they end with this store's session."""
        return ZooKeeperDumpTurns(self._session, self._layout)

    def alert_book(self) -> ZooKeeperAlertBook:
        """Return what remembers alert states for all who evaluate rules."""
        return ZooKeeperAlertBook(self._session, self._layout)

    def last_claim(self, flow: str) -> datetime | None:
        """Return when the lease was last claimed, by ZooKeeper's clock; None before the first claim."""
        return self._session.changed_at(self._paths(flow).epoch)

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
        node = self._session.read(self._paths(flow).lease, sync=True)[0]
        return read_holder(node.data, flow) if node else None

    def gaps(self, flow: str) -> Sequence[Gap]:
        """Return the flow's named gaps, oldest first; none for a flow that never had one."""
        paths = self._layout.flow(flow)
        nodes = self._nodes.children(paths, paths.gaps)
        return tuple(decode_as(node.data, f"gaps of flow {flow}", Gap.from_json) for node in nodes if node)

    def claim(self, flow: str, who: str, wait_s: float) -> ZooKeeperLease:
        """Take the lease and raise the epoch; waits up to `wait_s`, then raises LeaseBusyError naming the holder."""
        paths = self._layout.flow(flow)
        leftovers = self._nodes.leftovers(paths)
        lease = LeaseClaimant(self._session, flow, paths, self._clock).claim(who, wait_s)
        self._recorded.pop(flow, None)  # another holder may have found pages wrong since
        self._nodes.sweep(paths, leftovers)
        return lease

    def start(self, flow: str, lease: Lease, offset: Offset, who: str) -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0); the same again changes nothing.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the flow has another checkpoint.
        """
        paths = self._paths(flow)
        checkpoint = transitions.first_checkpoint(offset, lease.epoch, who, self._clock.now())
        cause: Exception | None = None
        for attempt in range(_ROUNDS):
            state = self._read(flow, sync=attempt > 0)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            if state.checkpoint is not None:
                transitions.check_start(flow, offset, state.checkpoint)
                return state.checkpoint
            number = 1 + max((int(name) for name in self._session.children(paths.history)), default=0)
            entry = entries.entry(number, "start", "", None, checkpoint)
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
        paths = self._paths(plan.flow)
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
        paths = self._paths(plan.flow)
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
            entry = entries.commit_entry(number, previous, checkpoint, receipts, counts)
            operations = [
                check(paths.epoch, state.epoch_version),
                set_data(paths.checkpoint, stored_checkpoint(checkpoint, number), state.checkpoint_node.version),
                delete(paths.plan, state.plan_node.version),
                create(paths.history_entry(number), encode(entry.to_json())),
                *self._trim(plan.flow, number, cause),
            ]
            cause = self._send(plan.flow, operations, f"the commit of flow {plan.flow}, batch {plan.batch}")
            if cause is None:
                return
        raise self._gave_up(f"flow {plan.flow}: the commit of batch {plan.batch}", cause) from cause

    def connected(self) -> bool:
        """Tell whether the store can be asked just now, as far as is known here; asks nothing."""
        return self._session.online

    def of_sink(self, sink: str) -> ZooKeeperCheckpoints:
        """Return a view in which checkpoint, plan and history are those of a sink that is behind."""
        view = copy.copy(self)
        view._sink = sink  # noqa: SLF001 - a view of our own
        return view

    def sinks_behind(self, flow: str) -> Sequence[str]:
        """Return the names of the sinks that have a checkpoint of their own, sorted."""
        return self._splits.behind(self._layout.flow(flow))

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of the flow's checkpoints and plans, those of sinks behind included."""
        return self._splits.highest_batch(self._layout.flow(flow))

    def detach(self, flow: str, lease: Lease, sink: str, why: str) -> Checkpoint:
        """Give a sink a checkpoint of its own and the plan in flight; see `CheckpointStore.detach`."""
        return self._splits.detach(self._layout.flow(flow), flow, lease, sink, why)

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Let a sink that caught up go with the flow again; see `CheckpointStore.join`."""
        return self._splits.join(self._layout.flow(flow), flow, lease, sink, who)

    def _paths(self, flow: str) -> FlowPaths:
        return self._layout.flow(flow).of_sink(self._sink)

    def _read(self, flow: str, *, sync: bool) -> FlowState:
        return self._nodes.state(flow, self._paths(flow), sync=sync)

    def _send(self, flow: str, operations: Sequence[Operation], what: str) -> Exception | None:
        """Send a write once; return None when it was applied, else why the next round must look."""
        return self._nodes.send(self._paths(flow), operations, what)

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
