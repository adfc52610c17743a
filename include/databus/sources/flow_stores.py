"""What a flow keeps of one server's log: segments of ranges, and what its tables were."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.segment_store import SegmentStore, servers_with_segments
from databus.binlog.staged_beside import StagedBeside
from databus.core.protocols import StagedPlans
from databus.sources.mysql_server import MysqlServer

log = logging.getLogger(__name__)

_MOST_BESIDE = 50
"""Folders beside a flow's own that one claim clears: it is not to wait for years of them."""


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

    def sweep(self, plans: StagedPlans) -> None:
        """Delete ranges that a kill left and nobody planned; only under the flow's lease.

        What pieces of its backfills, rehearsals and looks at the log left beside its folder goes too.

        Args:
            plans: tells what is planned; asked only where something is left.
        """
        stores = [self.segments(server) for server in servers_with_segments(self._root, self._flow)]
        left = [(store, found) for store in stores if (found := store.leftovers(time.time()))]
        kept = plans.in_flight() if left else ()
        for store, found in left:
            for folder in store.sweep(found, kept):
                log.info("flow %s: %s was left by a kill and is in no plan: deleted", self._flow, folder)
        self._sweep_beside(plans)

    def _sweep_beside(self, plans: StagedPlans) -> None:
        beside, cleared = StagedBeside(self._root, self._flow), 0
        for name in beside.left(time.time()):
            if cleared >= _MOST_BESIDE:
                return
            if not self._unneeded(name, plans):
                continue
            cleared += 1
            with plans.held(name) as alone:
                # Somebody may have gone on with it since it was cleared at.
                unneeded = self._unneeded(name, plans) if alone else []
                for store, folders in unneeded:
                    gone = store.sweep(folders, ()) if store else beside.delete(name)
                    log.info("flow %s: %s is needed no more: deleted", self._flow, ", ".join(gone))

    def _unneeded(self, name: str, plans: StagedPlans) -> list[tuple[SegmentStore | None, Sequence[str]]]:
        """Return what of a folder beside the flow's is needed no more: ranges of its stores, or (None) all of it."""
        needed = plans.beside(name)
        if needed is None:
            return []
        if needed.over:
            return [(None, (name,))]
        stores = [SegmentStore(self._root, name, server) for server in servers_with_segments(self._root, name)]
        found = [(store, store.unplanned(store.leftovers(time.time()), needed.ranges)) for store in stores]
        return [(store, folders) for store, folders in found if folders]

    def forget(self) -> None:
        """Delete all that the flow keeps of this server's log, under its lease; safe to repeat."""
        self.segments().forget()
        self.history().forget()

    def history(self) -> HistoryStore:
        """Return the store of its tables' definitions; a backfill of a flow knows the tables as the flow does."""
        return HistoryStore(self._root, self._flow.partition(".")[0], self._server.identity)
