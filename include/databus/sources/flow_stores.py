"""What a flow keeps of one server's log: segments of ranges, and what its tables were."""

from __future__ import annotations

from collections.abc import Sequence

from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.segment_store import SegmentStore, servers_with_segments
from databus.sources.mysql_server import MysqlServer


class FlowStores:
    """The flow's folders in the segment store; opened when first needed."""

    def __init__(self, server: MysqlServer, root: str, flow: str):
        """Prepare; nothing is opened.

        Args:
            server: the server whose log the flow reads.
            root: the installation's segment store.
            flow: flow name; of a backfill FLOW.BACKFILL.
        """
        self._server, self._root, self._flow = server, root, flow
        self._segments: dict[str, SegmentStore] = {}

    def segments(self, server: str = "") -> SegmentStore:
        """Return the store of this server's segments, or of a former server's."""
        server = server or self._server.identity
        if server not in self._segments:
            self._segments[server] = SegmentStore(self._root, self._flow, server)
        return self._segments[server]

    def former(self) -> Sequence[SegmentStore]:
        """Return the stores of other servers' segments: of those that the flow read before a failover."""
        known = servers_with_segments(self._root, self._flow)
        return [self.segments(server) for server in known if server != self._server.identity]

    def history(self) -> HistoryStore:
        """Return the store of its tables' definitions; a backfill of a flow knows the tables as the flow does."""
        return HistoryStore(self._root, self._flow.partition(".")[0], self._server.identity)
