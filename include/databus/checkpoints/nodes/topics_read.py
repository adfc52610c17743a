"""Topics under a flow's patterns, as it read them last: a small node beside its checkpoint."""

from __future__ import annotations

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import OutcomeUnknownError, RefusedError, create, set_data
from databus.checkpoints.paths import Layout
from databus.core.positions.topics_read import TopicsRead


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
