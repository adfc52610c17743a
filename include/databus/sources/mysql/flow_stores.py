"""Flow stores of one server's log: segments of ranges, and the flow's table definitions."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence

from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.segments.chunk_store import ChunkStore
from databus.binlog.segments.kept_prepares import KeptPrepares
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.segments.staged_beside import REHEARSAL, StagedBeside
from databus.binlog.segments.store import SegmentStore, servers_with_segments
from databus.core.positions.offsets import OffsetRange
from databus.core.protocols.staging import StagedPlans
from databus.sources.mysql.server import MysqlServer

log = logging.getLogger(__name__)

_MOST_BESIDE = 50
"""Folders beside a flow's own that one claim clears: it is not to wait for years of them."""


class FlowStores:
    """The flow's folders in the segment store; opened when first needed.

    Who reads beside the flow (a piece of a backfill, a look) has folders of its own, and reads what the flow keeps.
    """

    def __init__(self, server: MysqlServer, root: str, flow: str, staged: str = ""):
        """Prepare; nothing is opened.

        Args:
            server: the server whose log the flow reads.
            root: the installation's segment store.
            flow: flow name; of a backfill FLOW.BACKFILL.
            staged: name of the folders; "" for the flow's name.
        """
        self._server, self._root, self._flow = server, root, staged or flow
        self._lenders = tuple(n for n in dict.fromkeys((flow, flow.partition(".")[0])) if n != self._flow)
        self._segments: dict[str, SegmentStore] = {}

    def segments(self, server: str = "") -> SegmentStore:
        """Return the store of this server's segments, or of a former server's."""
        server = server or self._server.identity
        if server not in self._segments:
            self._segments[server] = SegmentStore(self._root, self._flow, server)
        return self._segments[server]

    def chunks(self, server: str = "") -> ChunkStore:
        """Return the store of the chunk files beside this server's segments, or beside a former server's."""
        return ChunkStore(self._root, self._flow, server or self._server.identity)

    def former(self) -> Sequence[SegmentStore]:
        """Return the stores of other servers' segments: of those that the flow read before a failover."""
        known = servers_with_segments(self._root, self._flow)
        return [self.segments(server) for server in known if server != self._server.identity]

    def staged_by_flow(self, planned: OffsetRange, server: str) -> tuple[SegmentStore, RangeIndex] | None:
        """Return what the flow beside which this one reads has staged of a range, None when it has not all."""
        stores = (SegmentStore(self._root, name, server) for name in self._lenders)
        found = ((store, store.find(planned)) for store in stores)
        return next(((store, index) for store, index in found if index is not None), None)

    def copies(self) -> Iterator[tuple[SegmentStore, bool]]:
        """Yield the stores that may keep a prepared transaction, and whether one is of a former server."""
        names, here = (self._flow, *self._lenders), self._server.identity
        yield from ((SegmentStore(self._root, name, here), False) for name in names)
        for name in names:
            others = (server for server in servers_with_segments(self._root, name) if server != here)
            yield from ((SegmentStore(self._root, name, server), True) for server in others)

    def sweep(self, plans: StagedPlans) -> None:
        """Delete ranges that a kill left and nobody planned; only under the flow's lease.

        What pieces of its backfills, rehearsals and looks at the log left beside its folder goes too, chunk files that
        no plan names, and copies of prepared transactions that neither the flow nor a sink behind can need.

        Args:
            plans: returns what is planned; asked only where something is left.
        """
        servers = servers_with_segments(self._root, self._flow)
        stores = [self.segments(server) for server in servers]
        left = [(store, found) for store in stores if (found := store.leftovers(time.time()))]
        kept = plans.in_flight() if left else ()
        for store, found in left:
            for folder in store.sweep(found, kept):
                log.info("flow %s: %s was left by a kill and is in no plan: deleted", self._flow, folder)
        self._sweep_chunks(servers, plans)
        self._sweep_copies(servers, plans)
        self._sweep_beside(plans)

    def _sweep_chunks(self, servers: Sequence[str], plans: StagedPlans) -> None:
        stores = [self.chunks(server) for server in servers]
        old = [(store, names) for store in stores if (names := store.old(time.time()))]
        planned = plans.chunks() if old else None
        for store, names in old:
            for name in store.sweep(names, planned):
                log.info("flow %s: the chunk file %s is in no plan: deleted", self._flow, name)

    def _sweep_copies(self, servers: Sequence[str], plans: StagedPlans) -> None:
        # A live flow rehearses each hour, so that its rehearsals' folder is never left for long as a whole.
        rehearsal = REHEARSAL.format(self._flow)
        of_rehearsals = ((rehearsal, server) for server in servers_with_segments(self._root, rehearsal))
        stores = (*((self._flow, server) for server in servers), *of_rehearsals)
        kept = [KeptPrepares(self._root, name, server) for name, server in stores]
        old = [(copies, names) for copies in kept if (names := copies.old(time.time()))]
        places = plans.places() if old else None
        for copies, names in old if places is not None else ():
            for name in copies.sweep(names, places or ()):
                log.info("flow %s: no place names the prepared transaction %s any more: deleted", self._flow, name)

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

    def histories(self) -> Sequence[HistoryStore]:
        """Return the stores of its tables' definitions: those that the flow lends who reads beside it, its own last."""
        lent = [HistoryStore(self._root, name, self._server.identity, lent=True) for name in self._lenders]
        return [*lent, HistoryStore(self._root, self._flow, self._server.identity)]

    def forget(self) -> None:
        """Delete all that the flow keeps of this server's log, under its lease; safe to repeat."""
        self.segments().forget()
        self.histories()[-1].forget()
