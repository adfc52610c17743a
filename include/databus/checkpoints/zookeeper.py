"""Checkpoint store in ZooKeeper: every write is one multi that checks the epoch; none is sent again without a read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from databus.checkpoints.amendments import ZooKeeperAmendments
from databus.checkpoints.batches import ZooKeeperBatches
from databus.checkpoints.claimant import LeaseClaimant
from databus.checkpoints.flows import ZooKeeperHistory
from databus.checkpoints.holder import LeaseHolder, read_holder
from databus.checkpoints.lagging_sinks import ZooKeeperLaggingSinks
from databus.checkpoints.lease import ZooKeeperLease
from databus.checkpoints.nodes.alert_states import ZooKeeperAlertBook
from databus.checkpoints.nodes.backfills import ZooKeeperBackfills
from databus.checkpoints.nodes.dump_turns import ZooKeeperDumpTurns
from databus.checkpoints.nodes.hidden_columns import ZooKeeperHiddenColumns
from databus.checkpoints.nodes.large_values import LargeValues
from databus.checkpoints.nodes.server_ids import ZooKeeperServerIds
from databus.checkpoints.nodes.source_memory import ZooKeeperAcceptedWants, ZooKeeperTopicsRead
from databus.checkpoints.nodes.watched_nodes import AwaitedNode
from databus.checkpoints.snapshots import ZooKeeperSnapshots
from databus.core.amounts import counted
from databus.core.connections import Connection
from databus.core.errors.checkpoint import CheckpointError
from databus.core.findings import Finding, Level
from databus.core.protocols.recorder import Clock
from databus.core.state.checkpoint import Epoch


class ZooKeeperCheckpoints(
    ZooKeeperBatches, ZooKeeperAmendments, ZooKeeperSnapshots, ZooKeeperLaggingSinks, ZooKeeperHistory
):
    """Implements `databus.core.state.checkpoint_store.CheckpointStore` on ZooKeeper 3.5 or newer.

    Connects at first use, or by `open`. Safe for several threads, which share one session; not across a fork.
    """

    def __init__(self, connection: Connection, clock: Clock | None = None, large: LargeValues | None = None):
        """Read the connection's options; no I/O. Arguments and errors are those of `ZooKeeperFlows`."""
        super().__init__(connection, clock, large)
        self._server_ids = ZooKeeperServerIds(self._session, self._layout)

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

    def epoch(self, flow: str) -> Epoch:
        """Return the epoch of the latest claim, 0 before the first."""
        return self._read(flow, sync=True).epoch

    def holder(self, flow: str) -> LeaseHolder | None:
        """Return who holds the lease, None when it is free."""
        node = self._session.read(self._paths(flow).lease, sync=True)[0]
        return read_holder(node.data, flow) if node else None

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> ZooKeeperLease:
        """Take the lease and raise the epoch; waits up to `wait_s`, then raises LeaseBusyError naming the holder."""
        paths = self._layout.flow(flow)
        leftovers = self._nodes.leftovers(paths)
        lease = LeaseClaimant(self._session, flow, paths, self._clock, run_url).claim(who, wait_s)
        self._recorded.pop(flow, None)  # another holder may have found pages wrong since
        self._nodes.sweep(paths, leftovers)
        self._pauses[flow] = AwaitedNode(self._session, paths.paused)
        return lease

    def connected(self) -> bool:
        """Return whether the store can be asked just now, as far as is known here; asks nothing."""
        return self._session.online
