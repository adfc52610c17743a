"""Chunk planning: chunks of a snapshot, and the range of the log that tells which of their rows still hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from databus.binlog.segments.chunk_store import ChunkStore
from databus.binlog.segments.range_bounds import RangeBounds
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors.source import SnapshotNotYetVisibleError, SnapshotServerChangedError, SourceError
from databus.core.findings import Finding
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot import CaptureScope, ChunkFile, Snapshot, TableProgress
from databus.core.trace import log_prefix
from databus.sources.mysql.dump.range_dumper import RangeDumper
from databus.sources.mysql.flow_log import FlowLog
from databus.sources.mysql.planned_ranges import PlannedRanges
from databus.sources.mysql.row_filters import RowFilters
from databus.sources.mysql.segments.address import LargeValueRules
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.added_tables import added_tables
from databus.sources.mysql.snapshot.chunk_file import open_chunk
from databus.sources.mysql.snapshot.chunk_fit import unfit, with_counts, with_tables, without_changed
from databus.sources.mysql.snapshot.chunk_split import ChunkSplit, shared_chunks
from databus.sources.mysql.snapshot.chunks_ahead import ChunksAhead
from databus.sources.mysql.snapshot.snapshot_preflight import replica_findings, snapshot_findings
from databus.sources.mysql.snapshot.snapshot_reader import ReadChunk, SnapshotReader
from databus.sources.mysql.snapshot.views.consistent_view import after_reads
from databus.sources.mysql.spec import MysqlBinlog

log = logging.getLogger(__name__)

PAUSE_S, LONGEST_PAUSE_S = 2.0, 16.0
"""Seconds without an attempt behind a view that did not come in time; twice as long after each, for streams wait."""

_REDEFINED = ("(MySQL error 1412)", "(MySQL error 1146)", "(MySQL error 1054)", "(MySQL error 1205)")
"""Errors of a view that is older than the definition of a table, of tables and columns that are gone meanwhile, and of
a table that somebody holds locked."""


class ChunkPlanner:
    """Plans chunks of one flow.

    Args:
        from_log: the log that the flow reads.
        ranges: stages ranges of it.
        planned: describes them.
        filters: the flow's row filters, which must fit the tables of each.
        spec: what the flow wrote down.
        replicas: conn_id → connection of the replica that the spec has read in place of the source.
    """

    def __init__(
        self,
        from_log: FlowLog,
        ranges: RangeDumper,
        planned: PlannedRanges,
        filters: RowFilters,
        spec: MysqlBinlog,
        replicas: Mapping[str, Connection],
    ):
        self._log, self._ranges, self._planned, self._spec = from_log, ranges, planned, spec
        self._filters = filters
        # A connection of its own: chunks are read ahead in another thread.
        own = MysqlServer(from_log.server.connection, spec.flavor)
        options = spec.snapshot_options
        reads_from = options.read_from if options is not None else ""
        self._replica = MysqlServer(replicas[reads_from]) if reads_from else None
        self._reader = SnapshotReader(own, ranges.capture, options, self._replica)
        self._ahead = ChunksAhead(self._reader)
        # Where a flow bounds its reads, each is asked for when it may be.
        self._reads_ahead = options is None or not options.bounded
        self._pause_s, self._paused_until = PAUSE_S, float("-inf")

    def tables(self, conditions: Mapping[str, str]) -> Sequence[TableProgress]:
        """Return the flow's tables, none begun."""
        self._ahead.drop()
        return self._reader.tables(conditions)

    def findings(self) -> Sequence[Finding]:
        """Probe what reading the tables needs; see `SnapshotSource.snapshot_findings`."""
        self._ahead.drop()
        found = list(snapshot_findings(self._log.server, self._ranges.capture))
        if self._replica is not None:
            found += replica_findings(self._replica, self._ranges.capture, self._log.server)
        return found

    def added(self, before: CaptureScope) -> Sequence[TableProgress]:
        """Return the tables that the flow did not capture before; see `SnapshotSource.snapshot_tables_added`."""
        return added_tables(self._log.server, self._ranges.capture, before, self._spec.snapshot_options)

    def plan(
        self, start: BinlogOffset, snapshot: Snapshot, limit: Batching, *, known: bool
    ) -> tuple[SourcePlan, Snapshot | None] | None:
        """Read the next chunks and stage the log from `start` to its head; see `SnapshotSource.plan_chunks`.

        Args:
            start: where the flow stands.
            snapshot: how far the snapshot has come.
            limit: bounds of the batch.
            known: whether the place was shown to be one of this log by what was read before.
        """
        if time.monotonic() < self._paused_until or self._log.continued(start) is not None:
            return None
        if not known:
            self._log.same_log.check_history(start)
        with self._log.naming(start, None):
            if self._behind(start) > limit.max_bytes:
                return None
            store = self._log.stores.chunks(self._log.server.identity)
            try:
                read = self._ahead.take(start, snapshot, limit) or self._reader.read(start, snapshot, limit, store)
            except (SnapshotNotYetVisibleError, SnapshotServerChangedError) as error:
                log.info("flow %s: no chunk for %g s: %s", self._log.flow, self._pause_s, error)
                self._paused_until = time.monotonic() + self._pause_s
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
                return None
            except SourceError as error:
                if not any(number in error.message for number in _REDEFINED):
                    raise
                log.info(
                    "flow %s: no chunk in this batch, a table changed or was locked while it was read: %s",
                    self._log.flow,
                    error,
                )
                return None
            self._pause_s = PAUSE_S
            try:
                planned = self._with_log(start, read, store)
            except BaseException:
                self._drop(store, [chunk.file for chunk in read[0]])
                raise
            if self._reads_ahead and (behind := planned[1]) is not None and behind.current is not None:
                self._ahead.begin(self._log.server.binlog(planned[0].range.end), behind, limit, store)
            return planned

    def drop_ahead(self) -> None:
        """Throw away what was read for a next batch with chunks: that batch has none."""
        self._ahead.drop()

    def rest(self) -> None:
        """Close connections until chunks are read again."""
        self._ahead.drop()
        self._reader.close()

    def read_alone(
        self, covers: BinlogOffset, snapshot: Snapshot, limit: Batching
    ) -> tuple[SourcePlan, Snapshot, BinlogOffset]:
        """Read the next chunks without the log that goes with them; see `ComparableSource.read_chunks`."""
        self._ahead.drop()  # the reader is one thread's at a time
        store = self._log.stores.chunks(self._log.server.identity)
        chunks, after = self._reader.read(covers, snapshot, limit, store, at_source=True)
        files = [chunk.file for chunk in chunks]
        try:
            self._filters.check(chunk.schema for chunk in chunks)
            high = after_reads(self._log.server, covers)
            plan = self.with_chunks(SourcePlan(OffsetRange(covers, covers), (), 0, 0), files)
        except BaseException:
            self._drop(store, files)
            raise
        return plan, with_counts(after, files), high

    def _behind(self, start: BinlogOffset) -> int:
        """Return the bytes of the log behind a place."""
        head = self._log.server.head()
        if head.file_number == start.file_number:
            return head.pos - start.pos
        files = [file.size_bytes for file in self._log.server.log_files() if file.number >= start.file_number]
        return sum(files) - start.pos

    def _with_log(
        self,
        start: BinlogOffset,
        read: tuple[list[ReadChunk], Snapshot],
        store: ChunkStore,
    ) -> tuple[SourcePlan, Snapshot | None]:
        chunks, snapshot = read
        self._filters.check(chunk.schema for chunk in chunks)
        high = after_reads(self._log.server, start)
        stops = self._spec.on_partition_ddl == "fail"
        bounds = RangeBounds(through=high, stops=stops, flow=self._log.flow)
        nothing = (high.file, high.pos) == (start.file, start.pos)
        index = None if nothing else self._ranges.stage(start, None, bounds, None)
        self._filters.check(() if index is None else index.tables)
        plan = SourcePlan(OffsetRange(start, start), (), 0, 0) if index is None else self._planned.described(index)
        end = self._log.server.binlog(plan.range.end)
        if why := unfit(plan, index, end, high, chunks):
            log.info("flow %s: %d chunks are read again: %s", self._log.flow, len(chunks), why)
            self._drop(store, [chunk.file for chunk in chunks])
            return plan, None
        files = without_changed(self._log, chunks, index, store)
        if files is None:
            self._drop(store, [chunk.file for chunk in chunks])
            return plan, None
        # Just written: their bytes are compared with their hashes where they are read.
        return with_tables(plan, files, [chunk.schema for chunk in chunks]), with_counts(snapshot, files)

    def with_chunks(self, plan: SourcePlan, chunks: Sequence[ChunkFile]) -> SourcePlan:
        """Return the plan with chunk files: their tables are numbered behind those of the range."""
        store = self._store(plan)
        heads = [open_chunk(store.address(chunk.name), chunk.sha256).head for chunk in chunks]
        return with_tables(plan, chunks, [head.schema for head in heads])

    def splits(self, plan: SourcePlan, count: int, large: LargeValueRules) -> list[ChunkSplit]:
        """Return the splits of a plan's chunks, which are read before those of its range."""
        start, end = self._log.server.binlog(plan.range.start), self._log.server.binlog(plan.range.end)
        groups = shared_chunks(plan.chunks, self._store(plan), count)
        prefix = log_prefix(end.generation)
        return [
            ChunkSplit(chunks, start.file, start.pos, plan.tables, self._filters, large, prefix) for chunks in groups
        ]

    def discard(self, plan: SourcePlan) -> None:
        """Delete a plan's chunk files."""
        self._drop(self._store(plan), plan.chunks)

    def _store(self, plan: SourcePlan) -> ChunkStore:
        return self._log.stores.chunks(self._log.server.binlog(plan.range.end).server)

    def _drop(self, store: ChunkStore, files: Sequence[ChunkFile]) -> None:
        for file in files:
            store.delete(file.name)
