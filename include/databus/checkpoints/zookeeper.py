"""The checkpoint store in ZooKeeper: every write is one multi that checks the epoch; none is sent again without a read.

A write goes in rounds: read the epoch, the checkpoint and the plan; decide whether the write is done already, forbidden
or due; send it. When the answer is lost the next round's read, brought up to date by sync(), tells what became of it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self

from databus.checkpoints.amendments import ZooKeeperMediation
from databus.checkpoints.batch_writes import ROUNDS, ZooKeeperBatchWrites
from databus.checkpoints.claimant import LeaseClaimant
from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import Operation, RefusedError, check, create
from databus.checkpoints.holder import LeaseHolder, read_holder
from databus.checkpoints.lagging_sinks import ZooKeeperSplits
from databus.checkpoints.lease import ZooKeeperLease
from databus.checkpoints.nodes.accepted_wants import ZooKeeperAcceptedWants
from databus.checkpoints.nodes.alert_states import ZooKeeperAlertBook
from databus.checkpoints.nodes.backfills import ZooKeeperBackfills
from databus.checkpoints.nodes.dump_turns import ZooKeeperDumpTurns
from databus.checkpoints.nodes.flow_nodes import FlowNodes
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.nodes.hidden_columns import ZooKeeperHiddenColumns
from databus.checkpoints.nodes.history import ZooKeeperHistory
from databus.checkpoints.nodes.large_values import LargeValues
from databus.checkpoints.nodes.server_ids import ZooKeeperServerIds
from databus.checkpoints.nodes.topics_read import ZooKeeperTopicsRead
from databus.checkpoints.nodes.watched_nodes import AwaitedNode
from databus.checkpoints.paths import FlowPaths, Layout
from databus.checkpoints.reconciling import ZooKeeperCatchingUp
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.core.amounts import counted
from databus.core.connections import Connection
from databus.core.errors.checkpoint import CheckpointConflictError, CheckpointError, CheckpointUnavailableError
from databus.core.findings import Finding, Level
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import Offset
from databus.core.protocols.clock import Clock
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan


class _UtcClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ZooKeeperCheckpoints(ZooKeeperBatchWrites, ZooKeeperHistory, ZooKeeperMediation, ZooKeeperCatchingUp):
    """Implements `databus.core.state.checkpoint_store.CheckpointStore` on ZooKeeper 3.5 or newer.

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
        self._left: dict[tuple[str, str], FlowState] = {}
        self._pauses: dict[str, AwaitedNode] = {}

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

    def accepted_wants(self) -> ZooKeeperAcceptedWants:
        """Return what remembers which tables and columns each flow was found to have."""
        return ZooKeeperAcceptedWants(self._session, self._layout)

    def hidden_columns(self) -> ZooKeeperHiddenColumns:
        """Return what remembers which columns each flow's transforms hid in its tables."""
        return ZooKeeperHiddenColumns(self._session, self._layout)

    def topics_read(self) -> ZooKeeperTopicsRead:
        """Return what remembers how far topics were read that come and go under a flow's patterns."""
        return ZooKeeperTopicsRead(self._session, self._layout)

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
            return (Finding.of(subject, error),)
        return (Finding(subject, Level.OK, f"answers; {counted(len(flows), 'flow')}"),)

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

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> ZooKeeperLease:
        """Take the lease and raise the epoch; waits up to `wait_s`, then raises LeaseBusyError naming the holder."""
        paths = self._layout.flow(flow)
        leftovers = self._nodes.leftovers(paths)
        lease = LeaseClaimant(self._session, flow, paths, self._clock, run_url).claim(who, wait_s)
        self._recorded.pop(flow, None)  # another holder may have found pages wrong since
        self._nodes.sweep(paths, leftovers)
        self._pauses[flow] = AwaitedNode(self._session, paths.paused)
        return lease

    def start(self, flow: str, lease: Lease, offset: Offset, who: str) -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0); the same again changes nothing.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the flow has another checkpoint.
        """
        paths = self._paths(flow)
        checkpoint = transitions.first_checkpoint(offset, lease.epoch, who, self._clock.now())
        lost: list[Exception] = []
        for attempt in range(ROUNDS):
            state = self._read(flow, sync=attempt > 0)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            if state.checkpoint is not None:
                transitions.check_start(flow, offset, state.checkpoint)
                return state.checkpoint
            number = 1 + max((int(name) for name in self._session.children(paths.history)), default=0)
            entry = entries.entry(number, "start", "", None, checkpoint)
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
        self._left.clear()
        return self._splits.detach(self._layout.flow(flow), flow, lease, sink, why)

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Let a sink that caught up go with the flow again; see `CheckpointStore.join`."""
        self._left.clear()
        return self._splits.join(self._layout.flow(flow), flow, lease, sink, who)

    def _paths(self, flow: str) -> FlowPaths:
        return self._layout.flow(flow).of_sink(self._sink)

    def _read(self, flow: str, *, sync: bool) -> FlowState:
        return self._nodes.state(flow, self._paths(flow), sync=sync)

    def _send(self, flow: str, operations: Sequence[Operation], what: str) -> Exception | None:
        """Send a write once; return None when it was applied, else why the next round must look."""
        self._left.pop((flow, self._sink), None)
        return self._nodes.send(self._paths(flow), operations, what)

    def _gave_up(self, what: str, lost: Sequence[Exception], *, outrun: bool = False) -> CheckpointError:
        """Return the error after the last round.

        Args:
            what: what was written.
            lost: why each write was not applied.
            outrun: whether others had changed the flow's nodes before each of them.
        """
        refused = sum(isinstance(cause, RefusedError) for cause in lost)
        unanswered = len(lost) - refused
        ends = [f"refused {refused} times"] * bool(refused)
        ends += [f"cut off {unanswered} times without being applied"] * bool(unanswered)
        counted = " and ".join(ends)
        if isinstance(lost[-1], RefusedError):
            changed = "something else wrote to the flow each time before" if outrun else ""
            return CheckpointConflictError(
                f"{what} was {counted}, the last time at {lost[-1]}{changed and f'; {changed}'}",
                hint="Find what writes to the flow over and over, such as pauses and resumes, stop it, and try again."
                if outrun
                else f"Look at the nodes below {self._layout.flows}: something other than databus has changed them.",
            )
        return CheckpointUnavailableError(f"{what} was {counted}", hint=f"Check the network to {self._options.hosts}.")
