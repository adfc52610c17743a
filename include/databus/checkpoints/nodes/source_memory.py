"""Memory of a flow about its source: what it asks of its tables, and topics that a pattern alone names."""

from __future__ import annotations

from collections.abc import Collection

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import OutcomeUnknownError, RefusedError, create, set_data
from databus.checkpoints.paths import Layout
from databus.core.positions.topics_read import TopicsRead
from databus.core.tables.wanted import wants_from_json, wants_to_json


class ZooKeeperAcceptedWants:
    """Implements `databus.core.tables.wanted.AcceptedWants`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout):
        self._session = session
        self._layout = layout

    def load(self, flow: str) -> frozenset[str] | None:
        """Return the wants that were found, None before the first comparison. Raises CheckpointError."""
        node = self._session.read(self._layout.flow(flow).accepted, sync=True)[0]
        return decode_as(node.data, f"accepted wants of flow {flow}", wants_from_json) if node else None

    def keep(self, flow: str, wants: Collection[str]) -> None:
        """Replace them. Raises CheckpointError.

        What another run wrote in between stands, and so may what was there when the answer is lost: then the next run
        compares again.
        """
        paths, data = self._layout.flow(flow), encode(wants_to_json(wants))
        node = self._session.read(paths.accepted, sync=True)[0]
        if node is None:
            self._session.ensure(paths.root)
        operation = create(paths.accepted, data) if node is None else set_data(paths.accepted, data, node.version)
        try:
            self._session.write([operation], f"accepted wants of flow {flow}")
        except (RefusedError, OutcomeUnknownError):
            return


class ZooKeeperTopicsRead:
    """Implements `databus.core.positions.topics_read.TopicsReadStore`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout):
        self._session = session
        self._layout = layout

    def load(self, flow: str) -> TopicsRead | None:
        """Return what was kept last, None before that. Raises CheckpointError."""
        node = self._session.read(self._layout.flow(flow).topics_read, sync=True)[0]
        return decode_as(node.data, f"topics read of flow {flow}", TopicsRead.from_json) if node else None

    def keep(self, flow: str, read: TopicsRead) -> None:
        """Replace it; what another run wrote in between stands. Raises CheckpointError."""
        path, data = self._layout.flow(flow).topics_read, encode(read.to_json())
        node = self._session.read(path, sync=True)[0]
        operation = create(path, data) if node is None else set_data(path, data, node.version)
        try:
            self._session.write([operation], f"topics read of flow {flow}")
        except (RefusedError, OutcomeUnknownError):
            return
