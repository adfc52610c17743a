"""Chunk planning: chunks of a snapshot, and the range of the log that tells which of their rows still hold."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from databus.binlog.decoding.table_batch import SchemaIds
from databus.binlog.segments.chunk_store import ChunkStore
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.segment import RangeIndex
from databus.core.batching import Batching
from databus.core.errors.source import SnapshotNotYetVisibleError, SnapshotServerChangedError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot import ChunkFile, Snapshot, TableProgress
from databus.core.trace import log_prefix
from databus.sources.mysql.dump.range_dumper import RangeDumper
from databus.sources.mysql.flow_log import FlowLog
from databus.sources.mysql.planned_ranges import PlannedRanges
from databus.sources.mysql.segments.address import LargeValueRules
from databus.sources.mysql.snapshot.chunk_file import open_chunk, without_touched
from databus.sources.mysql.snapshot.chunk_split import ChunkSplit
from databus.sources.mysql.snapshot.consistent_view import after_reads
from databus.sources.mysql.snapshot.snapshot_reader import ReadChunk, SnapshotReader
from databus.sources.mysql.snapshot.touched_keys import touched_keys
from databus.sources.mysql.spec import MysqlBinlog

log = logging.getLogger(__name__)


class ChunkPlanner:
    """Plans chunks of one flow.

    Args:
        from_log: the log that the flow reads.
        ranges: stages ranges of it.
        planned: describes them.
        spec: what the flow wrote down.
    """

    def __init__(self, from_log: FlowLog, ranges: RangeDumper, planned: PlannedRanges, spec: MysqlBinlog):
        self._log, self._ranges, self._planned, self._spec = from_log, ranges, planned, spec
        self._reader = SnapshotReader(from_log.server, ranges.capture)

    def tables(self) -> Sequence[TableProgress]:
        """Return the flow's tables, none begun."""
        return self._reader.tables()

    def plan(
        self, start: BinlogOffset, snapshot: Snapshot, limit: Batching, bounds: RangeBounds
    ) -> tuple[SourcePlan, Snapshot | None] | None:
        """Read the next chunks and stage the log from `start` to its head; see `SnapshotSource.plan_chunks`.

        Args:
            start: where the flow stands, on this server.
            snapshot: how far the snapshot has come.
            limit: bounds of the batch.
            bounds: of the range, for what it refuses.
        """
        head = self._log.server.head()
        if head.file_number != start.file_number or head.pos - start.pos > limit.max_bytes:
            behind = self._log.lag(start).bytes
            if behind is None or behind > limit.max_bytes:
                return None
        store = self._log.stores.chunks(start.server or self._log.server.identity)
        try:
            chunks, after = self._reader.read(start, snapshot, limit, store)
        except (SnapshotNotYetVisibleError, SnapshotServerChangedError) as error:
            log.info("flow %s: no chunk in this batch: %s", self._log.flow, error)
            return None
        try:
            return self._with_log(start, (chunks, after), store, bounds)
        except BaseException:
            self._drop(store, [chunk.file for chunk in chunks])
            raise

    def _with_log(
        self,
        start: BinlogOffset,
        read: tuple[list[ReadChunk], Snapshot],
        store: ChunkStore,
        bounds: RangeBounds,
    ) -> tuple[SourcePlan, Snapshot | None]:
        chunks, snapshot = read
        high = after_reads(self._log.server, start)
        index = self._ranges.stage(start, None, replace(bounds, through=high), None)
        plan = SourcePlan(OffsetRange(start, start), (), 0, 0) if index is None else self._planned.described(index)
        end = self._log.server.binlog(plan.range.end)
        if why := self._unfit(plan, index, end, high, chunks):
            log.info("flow %s: %d chunks are read again: %s", self._log.flow, len(chunks), why)
            self._drop(store, [chunk.file for chunk in chunks])
            return plan, None
        files = [self._narrowed(chunk, index, store) for chunk in chunks]
        counted = _counted(snapshot, files)
        return self.with_chunks(plan, [file for file in files if file.rows]), counted

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
        if plan.statements or plan.table_changes or plan.unlogged:
            return "a statement on tables lies in the range"
        for chunk in chunks:
            logged = [table for table in plan.tables if table.full_name == chunk.schema.full_name]
            if any(replace(table, schema_id=-1) != chunk.schema for table in logged):
                return f"{chunk.schema.full_name} is defined otherwise in the log"
            if logged and not chunk.key:
                return f"{chunk.schema.full_name} has no key, and rows of it were changed meanwhile"
        return ""

    def _narrowed(self, chunk: ReadChunk, index: RangeIndex | None, store: ChunkStore) -> ChunkFile:
        """Return the chunk without the rows whose keys the range has."""
        if index is None or chunk.schema.full_name not in {table.full_name for table in index.tables}:
            return chunk.file
        touched = touched_keys(index, store, self._ranges.capture, chunk.schema, chunk.key)
        return without_touched(store, chunk.file, touched)

    def with_chunks(self, plan: SourcePlan, chunks: Sequence[ChunkFile]) -> SourcePlan:
        """Return the plan with chunk files: their tables are numbered behind those of the range."""
        if not chunks:
            return plan
        ids = SchemaIds(plan.tables)
        store = self._store(plan)
        for chunk in chunks:
            ids.number(open_chunk(store.address(chunk.name), chunk.sha256).head.schema)
        more = len(ids.schemas) - len(plan.tables)
        return replace(
            plan,
            tables=ids.schemas,
            rows=plan.rows + sum(chunk.rows for chunk in chunks),
            rows_before=(*plan.rows_before, *(0,) * more) if plan.rows_before else (),
            chunks=tuple(chunks),
        )

    def splits(self, plan: SourcePlan, filters: object, large: LargeValueRules) -> Sequence[ChunkSplit]:
        """Return the split of a plan's chunks, which is read before those of its range."""
        if not plan.chunks:
            return ()
        server = self._log.server.binlog(plan.range.end)
        prefix = log_prefix(server.generation)
        store = self._store(plan)
        return (ChunkSplit.of(store, plan.chunks, plan.tables, server.server, filters, large, prefix),)

    def discard(self, plan: SourcePlan) -> None:
        """Delete a plan's chunk files."""
        self._drop(self._store(plan), plan.chunks)

    def _store(self, plan: SourcePlan) -> ChunkStore:
        return self._log.stores.chunks(self._log.server.binlog(plan.range.end).server)

    def _drop(self, store: ChunkStore, files: Sequence[ChunkFile]) -> None:
        for file in files:
            store.delete(file.name)


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
