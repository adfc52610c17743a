"""History in ZooKeeper: entries are appended by the write that they tell of, and go once the ledger has their pages."""

from __future__ import annotations

from collections.abc import Sequence

from databus.checkpoints.codec import decode_as
from databus.checkpoints.connection.transaction import delete
from databus.checkpoints.flows import ZooKeeperFlows
from databus.core.state.checkpoint import HistoryEntry


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
