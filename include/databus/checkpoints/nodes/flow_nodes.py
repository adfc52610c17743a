"""Nodes of flows with their values, wherever these are kept: large ones lie outside of ZooKeeper."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from databus.checkpoints.connection.session import Node, ZooKeeperSession
from databus.checkpoints.connection.transaction import Operation, OperationKind, OutcomeUnknownError, RefusedError
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.nodes.large_values import LargeValues, reference
from databus.checkpoints.paths import FlowPaths
from databus.core.errors.checkpoint import CheckpointFormatError

_log = logging.getLogger(__name__)

_LOOKS = 100
"""Reads of a state while commits that learn of new outputs follow each other without a pause."""
_LETS_GO = {OperationKind.SET, OperationKind.DELETE}

Leftovers = Mapping[str, Sequence[str]]
"""Folder of large values → names of those that may be left over from a kill or a lost answer."""


class FlowNodes:
    """Reads and writes nodes of flows; each write is one multi."""

    def __init__(self, session: ZooKeeperSession, large: LargeValues | None):
        """Touch nothing yet.

        Args:
            session: ZooKeeper.
            large: keeps what is too large for a multi; None to refuse it.
        """
        self._session = session
        self._large = large

    def read(self, paths: FlowPaths, *wanted: str, sync: bool = False) -> list[Node | None]:
        """Return nodes of a flow by path, None where there is none.

        Raises:
            CheckpointFormatError: a large value is not there, or not what was stored.
        """
        if not wanted:
            return []
        try:
            return self._whole(paths, wanted, self._session.read(*wanted, sync=sync))
        except CheckpointFormatError:
            # A large value goes with the write that replaces it, which may have come in between.
            return self._whole(paths, wanted, self._session.read(*wanted, sync=True))

    def children(self, paths: FlowPaths, folder: str) -> list[Node | None]:
        """Return the nodes below one, by name."""
        return self.read(paths, *(f"{folder}/{name}" for name in self._session.children(folder)))

    def state(self, flow: str, paths: FlowPaths, *, sync: bool) -> FlowState:
        """Return checkpoint, plan and epoch, of the flow or of a sink that is behind.

        A commit of new outputs in between leaves outputs that are not this checkpoint's: then all is read again, for as
        long as somebody writes.
        """
        former: FlowState | None = None
        for _ in range(_LOOKS):
            state = self._look(flow, paths, sync=sync or former is not None)
            if not state.torn or (former is not None and state.same_commit(former)):
                break
            former = state
        return state

    def _look(self, flow: str, paths: FlowPaths, *, sync: bool) -> FlowState:
        wanted = (paths.checkpoint, paths.plan, paths.outputs, paths.epoch)
        checkpoint, plan, outputs, epoch = self.read(paths, *wanted, sync=sync)
        return FlowState(flow, checkpoint, plan, epoch, outputs)

    def send(self, paths: FlowPaths, operations: Sequence[Operation], what: str) -> Exception | None:
        """Send a write once; return None when it was applied, else why the next round must look.

        Large values that the operations replace or delete go when, and only when, the write was applied.
        """
        former = self._former(paths, operations)
        packed = [self._large.pack(paths.values_folder(o.path), o) for o in operations] if self._large else operations
        try:
            self._session.write(packed, what)
        except (OutcomeUnknownError, RefusedError) as error:
            _log.warning("%s: %s; reading what is there before anything else is done", what, error)
            if isinstance(error, RefusedError):
                self._drop(paths, {o.path: o.data for o in packed})
            return error
        self._drop(paths, former)
        return None

    def leftovers(self, paths: FlowPaths) -> Leftovers:
        """Return what `sweep` has to look at; call it before the claim."""
        if self._large is None:
            return {}
        places = self._places(paths)
        kept = [path for place in places for path in (place.checkpoint, place.outputs)]
        kept += [paths.snapshot, paths.capture_scope]
        folders = [paths.values_folder(path) for path in kept]
        found = {folder: self._large.names(folder) for folder in folders}
        return {folder: names for folder, names in found.items() if names}

    def sweep(self, paths: FlowPaths, leftovers: Leftovers) -> None:
        """Delete large values that nothing refers to, under the claim that was made since `leftovers`."""
        if self._large is None or not leftovers:
            return
        places = self._places(paths)
        nodes = [path for place in places for path in (place.checkpoint, place.plan, place.outputs)]
        nodes += [paths.paused, paths.snapshot, paths.capture_scope]
        for parent in (paths.gaps, paths.boundaries, paths.backfills, *(place.history for place in places)):
            nodes += [f"{parent}/{name}" for name in self._session.children(parent)]
        contents: dict[str, list[bytes]] = {folder: [] for folder in leftovers}
        for path, node in zip(nodes, self._session.read(*nodes, sync=True), strict=True):
            if node is not None:
                contents.setdefault(paths.values_folder(path), []).append(node.data)
        for folder, names in leftovers.items():
            self._large.sweep(folder, names, contents[folder])

    def _places(self, paths: FlowPaths) -> Sequence[FlowPaths]:
        return [paths, *(paths.of_sink(paths.sink_of(sink)) for sink in self._session.children(paths.sinks))]

    def _whole(self, paths: FlowPaths, wanted: Sequence[str], nodes: Sequence[Node | None]) -> list[Node | None]:
        return [self._unpacked(paths, path, node) for path, node in zip(wanted, nodes, strict=True)]

    def _unpacked(self, paths: FlowPaths, path: str, node: Node | None) -> Node | None:
        if node is None or reference(node.data) is None:
            return node
        if self._large is None:
            raise CheckpointFormatError(
                f"{path}: a large value is kept outside of ZooKeeper; this store was opened without its folder",
                hint="Open it with the installation's segment store (DATABUS_SEGMENT_STORE).",
            )
        return replace(node, data=self._large.unpack(paths.values_folder(path), node.data))

    def _former(self, paths: FlowPaths, operations: Sequence[Operation]) -> Mapping[str, bytes]:
        """Return what stands where the operations replace or delete, as far as large values are in use there."""
        large = self._large
        if large is None:
            return {}
        gone = [o.path for o in operations if o.kind in _LETS_GO and large.in_use(paths.values_folder(o.path))]
        nodes = self._session.read(*gone) if gone else []
        return {path: node.data for path, node in zip(gone, nodes, strict=True) if node is not None}

    def _drop(self, paths: FlowPaths, contents: Mapping[str, bytes]) -> None:
        if self._large is not None:
            for path, data in contents.items():
                self._large.drop(paths.values_folder(path), [data])
