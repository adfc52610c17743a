"""Nodes of a flow in ZooKeeper, as all parts of the checkpoint store read and write them.

A write goes in rounds: read the epoch, the checkpoint and the plan; decide whether the write is done already, forbidden
or due; send it. When the answer is lost the next round's read, brought up to date by sync(), shows what became of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from databus.checkpoints.codec import decode_as
from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import Operation, RefusedError, delete
from databus.checkpoints.nodes.flow_nodes import FlowNodes
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.nodes.large_values import LargeValues
from databus.checkpoints.nodes.watched_nodes import AwaitedNode
from databus.checkpoints.paths import FlowPaths, Layout
from databus.core.connections import Connection
from databus.core.errors.checkpoint import CheckpointConflictError, CheckpointError, CheckpointUnavailableError
from databus.core.protocols.recorder import Clock
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.snapshot import Snapshot


class _UtcClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ZooKeeperFlows:
    """Session, layout and state that the parts of a store share; a view of one sink has its paths."""

    def __init__(self, connection: Connection, clock: Clock | None = None, large: LargeValues | None = None):
        """Read the connection's options; no I/O.

        Args:
            connection: where ZooKeeper is.
            clock: gives the time.
            large: keeps values that are too large for an atomic write; without it they are refused.

        Raises:
            ConfigError: a bad or unknown option.
        """
        self._options = ZooKeeperOptions.from_connection(connection)
        self._session = ZooKeeperSession(self._options, connection.conn_id)
        self._layout = Layout(self._options.root)
        self._clock = clock or _UtcClock()
        self._recorded: dict[str, int] = {}
        self._nodes = FlowNodes(self._session, large)
        self._sink = ""
        self._left: dict[tuple[str, str], FlowState] = {}
        self._pauses: dict[str, AwaitedNode] = {}

    def _paths(self, flow: str) -> FlowPaths:
        return self._layout.flow(flow).of_sink(self._sink)

    def _read(self, flow: str, *, sync: bool) -> FlowState:
        return self._nodes.state(flow, self._paths(flow), sync=sync)

    def _with_snapshot(self, state: FlowState, *, begun: Snapshot | None = None) -> FlowState:
        """Return the state with the flow's snapshot, for a write that moves it: its version is checked then.

        Args:
            state: as it was read.
            begun: a snapshot that the write begins; gaps are read where it or the stored one mends any.
        """
        paths = self._layout.flow(state.flow)
        state = replace(state, snapshot_node=self._nodes.read(paths, paths.snapshot, sync=True)[0])
        if not any(found.mends for found in (state.snapshot, begun) if found is not None):
            return state
        return self._with_gaps(state)

    def _with_gaps(self, state: FlowState) -> FlowState:
        paths = self._layout.flow(state.flow)
        return replace(state, gap_nodes=tuple(node for node in self._nodes.children(paths, paths.gaps) if node))

    def _behind(self, paths: FlowPaths) -> tuple[str, ...]:
        """Return the names of the sinks that have a checkpoint, sorted."""
        names = sorted(paths.sink_of(node) for node in self._session.children(paths.sinks))
        nodes = self._session.read(*(paths.of_sink(name).checkpoint for name in names)) if names else []
        return tuple(name for name, node in zip(names, nodes, strict=True) if node is not None)

    def _send(self, flow: str, operations: Sequence[Operation], what: str) -> Exception | None:
        """Send a write once; return None when it was applied, else why the next round must look."""
        self._left.pop((flow, self._sink), None)
        return self._nodes.send(self._paths(flow), operations, what)

    def _trim(self, flow: str, number: int, refused: Exception | None) -> list[Operation]:
        """Return the delete of the entry that falls out of the history, unless it has no page or is gone already.

        The history of a sink that is behind has no pages: the flow's pages show its ranges.
        """
        oldest = number - self._options.history
        if oldest < 1 or (not self._sink and oldest > self._recorded.get(flow, 0)):
            return []
        operation = delete(self._paths(flow).history_entry(oldest))
        gone = isinstance(refused, RefusedError) and refused.operation == operation
        return [] if gone else [operation]

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


class ZooKeeperHistory(ZooKeeperFlows):
    """History of the ZooKeeper store; see `databus.core.state.checkpoint_store.History`."""

    def history(self, flow: str, last: int) -> Sequence[HistoryEntry]:
        """Return the newest entries, newest first."""
        paths = self._paths(flow)
        names = self._session.children(paths.history)[-last:] if last > 0 else []
        nodes = self._nodes.read(paths, *(f"{paths.history}/{name}" for name in reversed(names)))
        what = f"history of flow {flow}"
        return tuple(decode_as(node.data, what, HistoryEntry.from_json) for node in nodes if node)

    def recorded(self, flow: str, number: int) -> None:
        """Let history entries up to `number` go, those above the number kept: they have ledger pages.

        The first call under a lease deletes what is left over from times when pages could not be written, or when more
        were kept; later ones only remember, and each commit deletes one.
        """
        first = flow not in self._recorded
        self._recorded[flow] = number
        if first:
            self._trim_history(flow)

    def _trim_history(self, flow: str) -> None:
        """Delete what commits do not: entries left over from a time when they had no page, or more were kept."""
        paths = self._layout.flow(flow)
        for name in self._session.children(paths.history)[: -self._options.history]:
            if int(name) <= self._recorded[flow]:
                self._send(flow, [delete(f"{paths.history}/{name}")], "the trimming of history")
