"""One server's log as a flow reads it: the server, places in its log, dumps of it, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from databus.binlog.segments.kept_log import KeptLog
from databus.binlog.server.dump import Dump
from databus.core.connections import Connection
from databus.core.errors.source import OffsetPurgedError
from databus.core.flow_specs import FlowContext
from databus.core.positions.lag import Lag
from databus.core.positions.offsets import BinlogOffset, Ordering
from databus.sources.mysql.dump.dumps import MysqlDumps
from databus.sources.mysql.dump.kept_segments import SegmentRelay
from databus.sources.mysql.failover.failover import MysqlFailover, Resumption
from databus.sources.mysql.failover.purged_log import purged
from databus.sources.mysql.failover.same_log import SameLog
from databus.sources.mysql.flow_stores import FlowStores
from databus.sources.mysql.positions import MysqlPositions, request_after
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.spec import MysqlBinlog


class FlowLog:
    """The log of one server, for one flow; connections are made when first needed.

    Attributes:
        flow: flow name.
        server: the server.
        dumps: opens dumps.
        positions: places in the log.
        failover: finds places of former servers.
        stores: the flow's folders in the segment store.
        relay: kept segments.
        same_log: compares the log with the one that was read.
    """

    def __init__(self, connection: Connection, spec: MysqlBinlog, context: FlowContext):
        self.flow = context.flow
        self.server = MysqlServer(connection, spec.flavor)
        self.dumps = MysqlDumps(self.server, context.server_ids)
        self.positions = MysqlPositions(self.server, self.dumps.open, context.flow)
        self.failover = MysqlFailover(self.server, self.positions)
        self.stores = FlowStores(self.server, context.settings.segment_store, context.flow, context.staged)
        self.relay = SegmentRelay(self.server, context.settings)
        self.same_log = SameLog(self.server, self.positions, self.relay, context.flow)

    def continued(self, offset: BinlogOffset) -> Resumption | None:
        """Return how a checkpoint of another server is read on; check one of this server, and return None."""
        if self.failover.concerns(offset):
            return self.failover.resume(offset)
        if self.positions.is_deleted(offset) and self.relay.log_from(offset):
            return None
        try:
            self.positions.check(offset)
        except OffsetPurgedError as error:
            kept = self.relay.first_after(offset)
            kept = None if kept is None else kept.counted_as(offset)
            if kept is None or error.missing is None or kept.compare(error.missing.end) is not Ordering.BEFORE:
                raise
            raise purged(self.server.place, offset, kept, self.flow) from None
        return None

    def naming(self, offset: BinlogOffset, switch: Resumption | None) -> AbstractContextManager[None]:
        """Name a replaced log where reading from a place of this server fails."""
        return self.same_log.naming(offset) if switch is None else nullcontext()

    def lag(self, offset: BinlogOffset) -> Lag:
        """Measure bytes to the head, and the age of the first transaction that is not committed."""
        switch = self.continued(offset)
        offset = switch.place if switch else offset
        head, files = self.server.head(), self.server.log_files()
        behind = (
            sum(f.size_bytes for f in files if offset.file_number <= f.number < head.file_number)
            + head.pos
            - offset.pos
        )
        if not behind and switch is None:
            self.same_log.check_at_head(offset, head)
        with self.naming(offset, switch):
            first_ms = self._first_commit_ms(offset, switch) if behind else None
        now = self.server.now()
        if first_ms is None:  # rotations at most: nothing to move
            return Lag(0, 0.0, str(head), now)
        return Lag(behind, max(0.0, now.timestamp() - first_ms / 1000), str(head), now)

    def _first_commit_ms(self, offset: BinlogOffset, switch: Resumption | None) -> int | None:
        kept = self.relay.first_commit_ms(offset)
        return kept or self.positions.first_commit_ms(offset, overlaps=switch is not None)

    def after(self, start: BinlogOffset) -> Iterator[Dump | KeptLog]:
        """Yield what to read for the log from an offset to its head: what is kept, then the rest from the server."""
        kept = self.relay.log_from(start)
        if kept is not None:
            yield kept
            start, head, earliest = kept.end, self.server.head(), self.positions.earliest()
            if (start.file, start.pos) == (head.file, head.pos):
                return
            if start.file_number < earliest.file_number and start.same_gtids(earliest):
                start = earliest
        yield self.dumps.open(request_after(start, follow=False))
