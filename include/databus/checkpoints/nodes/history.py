"""History in ZooKeeper: entries are appended by the write that they tell of, and go once the ledger has their pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from databus.checkpoints.codec import decode_as
from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import Operation, RefusedError, delete
from databus.checkpoints.nodes.flow_nodes import FlowNodes
from databus.checkpoints.paths import FlowPaths, Layout
from databus.core.state.checkpoint import HistoryEntry


class ZooKeeperHistory:
    """The part of the ZooKeeper store that reads and trims history."""

    _session: ZooKeeperSession
    _nodes: FlowNodes
    _layout: Layout
    _options: ZooKeeperOptions
    _recorded: dict[str, int]
    _sink: str
    _paths: Callable[[str], FlowPaths]
    _send: Callable[[str, Sequence[Operation], str], Exception | None]

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

    def _trim_history(self, flow: str) -> None:
        """Delete what commits do not: entries left over from a time when they had no page, or more were kept."""
        paths = self._layout.flow(flow)
        for name in self._session.children(paths.history)[: -self._options.history]:
            if int(name) <= self._recorded[flow]:
                self._send(flow, [delete(f"{paths.history}/{name}")], "the trimming of history")
