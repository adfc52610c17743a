"""Alert states in ZooKeeper, one node each, replaced only by whoever read the version that stands there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, unquote

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.session import Node, ZooKeeperSession
from databus.checkpoints.connection.transaction import OutcomeUnknownError, RefusedError, create, delete, set_data
from databus.checkpoints.paths import Layout
from databus.core.alerts.book import AlertState, StoredAlertState
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.times import SteadyClock


class ZooKeeperAlertBook:
    """Implements `databus.core.alerts.alert.AlertBook`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout):
        self._session = session
        self._layout = layout
        self._clock: SteadyClock | None = None

    def now(self) -> datetime:
        """Return ZooKeeper's time: asked for once, counted on since. Raises CheckpointError."""
        if self._clock is None:
            self._clock = SteadyClock(self._session.now(self._layout.alerts("")))
        return self._clock.now()

    def load(self, flow: str) -> Mapping[str, StoredAlertState]:
        """Return the flow's states; one that cannot be read has a problem. Raises CheckpointError."""
        folder = self._layout.alerts(flow)
        names = self._session.children(folder)
        nodes = self._session.read(*(f"{folder}/{name}" for name in names), sync=True) if names else []
        found = {unquote(name): node for name, node in zip(names, nodes, strict=True) if node is not None}
        return {key: _noted(node, f"alert {key} of flow {flow}") for key, node in found.items()}

    def swap(self, flow: str, key: str, version: int | None, state: AlertState) -> int | None:
        """Replace a state that nobody changed since it was read. Raises CheckpointError."""
        path, data = self._path(flow, key), encode(state.to_json())
        if version is None:
            self._session.ensure(self._layout.alerts(flow))
        operation = create(path, data) if version is None else set_data(path, data, version)
        try:
            self._session.write([operation], f"alert {key} of flow {flow}")
        except RefusedError:
            return None
        except OutcomeUnknownError:
            node = self._session.read(path, sync=True)[0]
            return node.version if node is not None and node.data == data else None
        return 0 if version is None else version + 1

    def remove(self, flow: str, key: str, version: int) -> None:
        """Forget a state that nobody changed since it was read. Raises CheckpointError."""
        try:
            self._session.write([delete(self._path(flow, key), version)], f"alert {key} of flow {flow}")
        except (RefusedError, OutcomeUnknownError):
            return  # changed, or gone already; who comes next sees what stands there

    def _path(self, flow: str, key: str) -> str:
        return f"{self._layout.alerts(flow)}/{quote(key, safe='')}"


def _noted(node: Node, what: str) -> StoredAlertState:
    try:
        return StoredAlertState(decode_as(node.data, what, AlertState.from_json), node.version)
    except CheckpointFormatError as error:
        # It was raised at most once with each write: no number up to this was an incident's.
        return StoredAlertState(AlertState(number=node.version + 1), node.version, str(error))
