"""Chunk planning: chunks of a snapshot, and the range of the log that tells which of their rows still hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from databus.binlog.decoding.table_batch import SchemaIds
from databus.binlog.segments.chunk_store import ChunkStore
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.segment import RangeIndex
from databus.core.batching import Batching
from databus.core.errors.source import (
    SnapshotNotYetVisibleError,
    SnapshotRefusedError,
    SnapshotServerChangedError,
    SourceError,
)
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot import CaptureScope, ChunkFile, Snapshot, TableProgress
from databus.core.tables.schemas import TableSchema
from databus.core.trace import log_prefix
from databus.sources.mysql.dump.range_dumper import RangeDumper
from databus.sources.mysql.flow_log import FlowLog
from databus.sources.mysql.planned_ranges import PlannedRanges
from databus.sources.mysql.row_filters import RowFilters
from databus.sources.mysql.segments.address import LargeValueRules
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.added_tables import added_tables
from databus.sources.mysql.snapshot.chunk_file import open_chunk, without_touched
from databus.sources.mysql.snapshot.chunk_split import ChunkSplit, shared_chunks
from databus.sources.mysql.snapshot.chunks_ahead import ChunksAhead
from databus.sources.mysql.snapshot.consistent_view import after_reads
from databus.sources.mysql.snapshot.snapshot_reader import ReadChunk, SnapshotReader
from databus.sources.mysql.snapshot.touched_keys import redefined, touched_keys
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
    """

    def __init__(
        self, from_log: FlowLog, ranges: RangeDumper, planned: PlannedRanges, filters: RowFilters, spec: MysqlBinlog
    ):
        self._log, self._ranges, self._planned, self._spec = from_log, ranges, planned, spec
        self._filters = filters
        # A connection of its own: chunks are read ahead in another thread.
        own = MysqlServer(from_log.server.connection, spec.flavor)
        self._reader = SnapshotReader(own, ranges.capture, spec.snapshot_options)
        self._ahead = ChunksAhead(self._reader)
        # Where a flow bounds its reads, each is asked for when it may be.
        self._reads_ahead = spec.snapshot_options is None or not spec.snapshot_options.bounded
        self._pause_s, self._paused_until = PAUSE_S, float("-inf")

    def tables(self, conditions: Mapping[str, str]) -> Sequence[TableProgress]:
        """Return the flow's tables, none begun."""
        self._ahead.drop()
        return self._reader.tables(conditions)

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
        chunks, after = self._reader.read(covers, snapshot, limit, store)
        files = [chunk.file for chunk in chunks]
        try:
            self._filters.check(chunk.schema for chunk in chunks)
            high = after_reads(self._log.server, covers)
            plan = self.with_chunks(SourcePlan(OffsetRange(covers, covers), (), 0, 0), files)
        except BaseException:
            self._drop(store, files)
            raise
        return plan, _counted(after, files), high

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
        if why := self._unfit(plan, index, end, high, chunks):
            log.info("flow %s: %d chunks are read again: %s", self._log.flow, len(chunks), why)
            self._drop(store, [chunk.file for chunk in chunks])
            return plan, None
        files = self._compared(chunks, index, store)
        if files is None:
            self._drop(store, [chunk.file for chunk in chunks])
            return plan, None
        # Just written: their bytes are compared with their hashes where they are read.
        return _with_tables(plan, files, [chunk.schema for chunk in chunks]), _counted(snapshot, files)

    def _unfit(
        self,
        plan: SourcePlan,
        index: RangeIndex | None,
        end: BinlogOffset,
        high: BinlogOffset,
        chunks: Sequence[ReadChunk],
    ) -> str:
        """Return why chunks cannot go with a range; "" where they can."""
        if index is not None and (end.file_number, end.pos) < (high.file_number, high.pos):
            return f"the log was read up to {end.file}:{end.pos} alone, they stand at {high.file}:{high.pos}"
        if gone := redefined(plan, {chunk.schema.full_name: chunk.schema for chunk in chunks}):
            return f"{', '.join(sorted(gone))} is defined anew in the range"
        if plan.table_changes or plan.columns_moved:
            return "a statement on names of tables or columns lies in the range"
        logged = {table.full_name for table in plan.tables}
        for chunk in chunks:
            if chunk.schema.full_name in logged and not chunk.key:
                return f"{chunk.schema.full_name} has no key, and rows of it were changed meanwhile"
        return ""

    def _compared(
        self, chunks: Sequence[ReadChunk], index: RangeIndex | None, store: ChunkStore
    ) -> list[ChunkFile] | None:
        """Return the chunks without the rows whose keys the range has; None where changes tell parts of rows.

        Raises:
            SnapshotRefusedError: changes will not tell it in later ranges either.
        """
        logged = set() if index is None else {table.full_name for table in index.tables}
        wanted = {chunk.schema.full_name: chunk.key for chunk in chunks if chunk.schema.full_name in logged}
        if index is None or not wanted:
            return [chunk.file for chunk in chunks]
        segments = self._log.stores.segments(self._log.server.binlog(index.range.end).server)
        touched = touched_keys(index, segments, wanted)
        if touched.untold:
            if self._log.server.variables("binlog_row_image").get("binlog_row_image", "").upper() == "FULL":
                # Of a session with a setting of its own, or from before the setting: the flow has to pass them.
                log.warning(
                    "flow %s: no chunk in this batch: changes of %s do not carry their keys → binlog_row_image=FULL "
                    "is to hold for all sessions", self._log.flow, ", ".join(sorted(touched.untold)),
                )  # fmt: skip
                return None
            raise SnapshotRefusedError(
                f"{self._log.server.place}: changes of {', '.join(sorted(touched.untold))} do not carry their keys, so "
                "rows that a snapshot reads cannot be compared with them",
                hint="SET GLOBAL binlog_row_image=FULL, let sessions begin anew, then `databus snapshot pause "
                f"{self._log.flow}`: the stream goes on past these changes; resume it behind them.",
            )
        if touched.partial:
            log.warning(
                "flow %s: %d chunks are read again: updates of %s were logged without all columns of their rows "
                "(binlog_row_image of the session that wrote them): they cannot stand for rows that were read",
                self._log.flow,
                len(chunks),
                ", ".join(sorted(touched.partial)),
            )
            return None
        return [
            without_touched(store, chunk.file, touched) if chunk.schema.full_name in wanted else chunk.file
            for chunk in chunks
        ]

    def with_chunks(self, plan: SourcePlan, chunks: Sequence[ChunkFile]) -> SourcePlan:
        """Return the plan with chunk files: their tables are numbered behind those of the range."""
        store = self._store(plan)
        heads = [open_chunk(store.address(chunk.name), chunk.sha256).head for chunk in chunks]
        return _with_tables(plan, chunks, [head.schema for head in heads])

    def splits(self, plan: SourcePlan, count: int, large: LargeValueRules) -> list[ChunkSplit]:
        """Return the splits of a plan's chunks, which are read before those of its range."""
        start, end = self._log.server.binlog(plan.range.start), self._log.server.binlog(plan.range.end)
        groups = shared_chunks(plan.chunks, self._store(plan), count)
        prefix = log_prefix(end.generation)
        return [ChunkSplit(chunks, start.file, start.pos, plan.tables, self._filters, large, prefix) for chunks in groups]

    def discard(self, plan: SourcePlan) -> None:
        """Delete a plan's chunk files."""
        self._drop(self._store(plan), plan.chunks)

    def _store(self, plan: SourcePlan) -> ChunkStore:
        return self._log.stores.chunks(self._log.server.binlog(plan.range.end).server)

    def _drop(self, store: ChunkStore, files: Sequence[ChunkFile]) -> None:
        for file in files:
            store.delete(file.name)


def _with_tables(plan: SourcePlan, files: Sequence[ChunkFile], schemas: Sequence[TableSchema]) -> SourcePlan:
    """Return the plan with chunk files of these schemas, which are numbered behind those of the range."""
    if not files:
        return plan
    ids = SchemaIds(plan.tables)
    for schema in schemas:
        ids.number(schema)
    more = len(ids.schemas) - len(plan.tables)
    return replace(
        plan,
        tables=ids.schemas,
        rows=plan.rows + sum(file.rows for file in files),
        rows_before=(*plan.rows_before, *(0,) * more) if plan.rows_before else (),
        chunks=tuple(files),
    )


def _counted(snapshot: Snapshot, files: Sequence[ChunkFile]) -> Snapshot:
    """Return the snapshot with the rows of these chunks counted."""
    tables = tuple(
        replace(
            table,
            rows=table.rows + sum(file.rows for file in files if file.table == table.table),
            superseded=table.superseded + sum(file.superseded for file in files if file.table == table.table),
        )
        for table in snapshot.tables
    )
    return replace(snapshot, tables=tables)
