"""Fit of chunks with the range of the log that goes with them: which can go along, which of their rows still hold."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from databus.binlog.decoding.table_batch import SchemaIds
from databus.binlog.segments.chunk_store import ChunkStore
from databus.binlog.segments.segment import RangeIndex
from databus.core.errors.source import SnapshotRefusedError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot import ChunkFile, Snapshot
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.flow_log import FlowLog
from databus.sources.mysql.snapshot.chunk_file import without_touched
from databus.sources.mysql.snapshot.snapshot_reader import ReadChunk
from databus.sources.mysql.snapshot.touched_keys import redefined, touched_keys

log = logging.getLogger(__name__)


def unfit(
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


def without_changed(
    from_log: FlowLog, chunks: Sequence[ReadChunk], index: RangeIndex | None, store: ChunkStore
) -> list[ChunkFile] | None:
    """Return the chunks without the rows whose keys the range has; None where changes tell parts of rows.

    Raises:
        SnapshotRefusedError: changes will not tell it in later ranges either.
    """
    logged = set() if index is None else {table.full_name for table in index.tables}
    wanted = {chunk.schema.full_name: chunk.key for chunk in chunks if chunk.schema.full_name in logged}
    if index is None or not wanted:
        return [chunk.file for chunk in chunks]
    segments = from_log.stores.segments(from_log.server.binlog(index.range.end).server)
    touched = touched_keys(index, segments, wanted)
    if touched.untold:
        if from_log.server.variables("binlog_row_image").get("binlog_row_image", "").upper() == "FULL":
            # Of a session with a setting of its own, or from before the setting: the flow has to pass them.
            log.warning(
                "flow %s: no chunk in this batch: changes of %s do not carry their keys → binlog_row_image=FULL "
                "is to hold for all sessions", from_log.flow, ", ".join(sorted(touched.untold)),
            )  # fmt: skip
            return None
        raise SnapshotRefusedError(
            f"{from_log.server.place}: changes of {', '.join(sorted(touched.untold))} do not carry their keys, so "
            "rows that a snapshot reads cannot be compared with them",
            hint="SET GLOBAL binlog_row_image=FULL, let sessions begin anew, then `databus snapshot pause "
            f"{from_log.flow}`: the stream goes on past these changes; resume it behind them.",
        )
    if touched.partial:
        log.warning(
            "flow %s: %d chunks are read again: updates of %s were logged without all columns of their rows "
            "(binlog_row_image of the session that wrote them): they cannot stand for rows that were read",
            from_log.flow,
            len(chunks),
            ", ".join(sorted(touched.partial)),
        )
        return None
    return [
        without_touched(store, chunk.file, touched) if chunk.schema.full_name in wanted else chunk.file
        for chunk in chunks
    ]


def with_tables(plan: SourcePlan, files: Sequence[ChunkFile], schemas: Sequence[TableSchema]) -> SourcePlan:
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


def with_counts(snapshot: Snapshot, files: Sequence[ChunkFile]) -> Snapshot:
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
