"""What a flow keeps of one server's log: segments of ranges, and what its tables were."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence

from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.segment_store import SegmentStore, servers_with_segments
from databus.core.offsets import OffsetRange
from databus.sources.mysql_server import MysqlServer

log = logging.getLogger(__name__)


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

    def sweep(self, planned: Callable[[], Collection[OffsetRange]]) -> None:
        """Delete ranges that a kill left and nobody planned; only under the flow's lease.

        Args:
            planned: returns the ranges of all plans in flight, those of sinks behind included; asked only where
                something is left.
        """
        stores = [self.segments(server) for server in servers_with_segments(self._root, self._flow)]
        left = [(store, found) for store in stores if (found := store.leftovers(time.time()))]
        kept = planned() if left else ()
        for store, found in left:
            for folder in store.sweep(found, kept):
                log.info("flow %s: %s was left by a kill and is in no plan: deleted", self._flow, folder)

    def history(self) -> HistoryStore:
        """Return the store of its tables' definitions; a backfill of a flow knows the tables as the flow does."""
        return HistoryStore(self._root, self._flow.partition(".")[0], self._server.identity)
