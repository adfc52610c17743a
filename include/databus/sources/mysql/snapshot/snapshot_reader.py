"""Snapshot reader: the next chunks of a flow's tables, read in one consistent view that covers its checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from databus.binlog.log.capture import TableCapture
from databus.binlog.schema_history.definition import TableDefinition, TableName
from databus.binlog.segments.chunk_store import ChunkStore
from databus.binlog.server.wire import ServerConnection
from databus.core.batching import Batching
from databus.core.errors.source import SnapshotRefusedError, SourceAccessError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.snapshot import ChunkFile, Snapshot, TableProgress
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.chunk_bounds import (
    Chunk,
    bytes_of_row,
    next_chunk,
    rows_estimated,
    rows_of_chunk,
    whole_table,
)
from databus.sources.mysql.snapshot.chunk_file import write_chunk
from databus.sources.mysql.snapshot.chunk_form import ChunkHead
from databus.sources.mysql.snapshot.chunk_key import ChunkKey, chunk_key, with_logged_key
from databus.sources.mysql.snapshot.consistent_view import ConsistentView
from databus.sources.mysql.snapshot.logged_table import logged_table
from databus.sources.mysql.snapshot.snapshot_preflight import grant_named
from databus.sources.mysql.snapshot.table_reader import read_table
from databus.sources.mysql.snapshot_options import SnapshotOptions
from databus.sources.mysql.tables.information_schema import MysqlColumns
from databus.sources.mysql.tables.visibility import MysqlSight

log = logging.getLogger(__name__)

BATCH_S = 1.0
"""Chunks are read for so long in one view: the stream waits meanwhile, and definition statements on the table, too."""

MOST_CHUNK_BYTES = 32 << 20
MOST_CHUNKS = 100
"""Chunks of one batch, each of which the plan names: many small tables would else make it too large to be written."""

WAIT_S = 2.0
"""A server that does not show yet what its log holds is waited for so long; then the batch goes on without a chunk."""


@dataclass(frozen=True)
class ReadChunk:
    """Chunk that was read and not yet compared with the log.

    Attributes:
        file: all of its rows.
        schema: the table as the log describes it; `schema_id` -1.
        key: columns by which its rows are told apart; () for a table without any.
    """

    file: ChunkFile
    schema: TableSchema
    key: tuple[str, ...]


class SnapshotReader:
    """Reads chunks for one flow.

    Args:
        server: the server, for what is asked outside of views.
        capture: the flow's tables.
        options: order of tables, their conditions, size of chunks; None for the defaults.
    """

    def __init__(self, server: MysqlServer, capture: TableCapture, options: SnapshotOptions | None = None):
        self._server, self._capture, self._options = server, capture, options or SnapshotOptions()

    def tables(self, conditions: Mapping[str, str]) -> tuple[TableProgress, ...]:
        """Return the flow's tables as they stand, in the order of reading, with the rows that the server estimates.

        Args:
            conditions: `database.table` → condition that its rows must meet; of the others the options say it.

        Raises:
            SnapshotConditionError: a condition is none, or the server refuses it.
            SourceError: the tables cannot be listed.
        """
        columns = MysqlColumns(self._server)
        conditions = self._options.conditions(conditions)
        names = sorted(name for name in columns.table_names() if self._capture(name.database, name.table))
        names.sort(key=lambda name: self._options.place_of(str(name)))
        found = columns.definitions(sorted({name.database for name in names}))
        made = []
        for name in names:
            where = conditions.get(str(name), "")
            with grant_named(self._server, name.database, name.table):
                rows = rows_estimated(self._server.query, found[name], where) if name in found else None
            made.append(TableProgress(str(name), estimate=rows, where=where))
        return tuple(made)

    def read(
        self, covers: BinlogOffset, snapshot: Snapshot, limit: Batching, store: ChunkStore
    ) -> tuple[list[ReadChunk], Snapshot]:
        """Read the next chunks; return them with the snapshot as it stands behind them.

        Args:
            covers: where the flow stands.
            snapshot: how far it has come.
            limit: bounds of the batch; rows and bytes are those of the chunks here.
            store: takes the chunk files.

        Raises:
            SnapshotNotYetVisibleError: the server does not show yet what lies before `covers`.
            SourceError: a table cannot be read.
        """
        chunks: list[ReadChunk] = []
        try:
            return chunks, self._read(chunks, covers, snapshot, limit, store)
        except BaseException:
            for chunk in chunks:
                store.delete(chunk.file.name)
            raise

    def _read(
        self, chunks: list[ReadChunk], covers: BinlogOffset, snapshot: Snapshot, limit: Batching, store: ChunkStore
    ) -> Snapshot:
        """Append the next chunks, and return the snapshot as it stands behind them."""
        rows = 0
        with ConsistentView(self._server.connection, self._server.flavor, covers, WAIT_S) as view:
            # However long the view was waited for, something is read: the next one may take as long.
            deadline, first = time.monotonic() + BATCH_S, True
            while (table := snapshot.current) is not None and rows < limit.max_rows and len(chunks) < MOST_CHUNKS:
                if not first and time.monotonic() >= deadline:
                    break
                first = False
                with grant_named(self._server, *table.table.split(".", 1)):
                    read, progress = self._next(view, snapshot, table, limit.max_rows - rows, store)
                if read is not None:
                    chunks.append(read)
                    rows += read.file.rows
                snapshot = replace(
                    snapshot, tables=tuple(progress if each.table == table.table else each for each in snapshot.tables)
                )
        return snapshot

    def _next(
        self,
        view: ConsistentView,
        snapshot: Snapshot,
        table: TableProgress,
        most_rows: int,
        store: ChunkStore,
    ) -> tuple[ReadChunk | None, TableProgress]:
        """Read the next chunk of a table; return it (None where nothing is left) and the progress behind it."""
        name = TableName(*table.table.split(".", 1))
        if not self._capture(name.database, name.table):
            # The log's rows of it are not looked at, so nothing would supersede what is read.
            log.warning("snapshot %d: %s is none of the flow's tables any more", snapshot.number, table.table)
            return None, replace(table, state="gone", after=())
        definition = self._defined(view.opened, name)
        if definition is None:
            log.warning(
                "snapshot %d: %s is gone, nothing more is read of it; if it has another name now, which the flow "
                "captures, `databus snapshot begin` with --table reads it under that",
                snapshot.number,
                table.table,
            )
            return None, replace(table, state="gone", after=())
        key = chunk_key(view.opened.query, definition, table.after)
        chunk = self._chunk(view.opened, definition, key, table, most_rows)
        if chunk is None:
            return None, replace(table, state="done", after=())
        described = logged_table(with_logged_key(view.opened.query, definition), self._server.flavor)
        schema = described.to_schema(-1)
        number = 1 + sum(each.chunks for each in snapshot.tables)
        head = ChunkHead(schema, snapshot.number, number, int(view.read_at.timestamp() * 1000))
        file = write_chunk(
            store, head, read_table(view.opened, described, chunk.condition, schema, forced=chunk.forced)
        )
        # Nobody asks for the cursor of a table that is done: of thousands it would be most of what is stored.
        state, upto = ("done", ()) if chunk.last else ("reading", tuple(chunk.upto))
        progress = replace(table, state=state, after=upto, chunks=table.chunks + 1)
        columns = tuple(column.name for column in key.columns) if key else ()
        return ReadChunk(file, schema, schema.primary_key or columns), progress

    def _defined(self, opened: ServerConnection, name: TableName) -> TableDefinition | None:
        """Return a table's definition, which holds until the view ends: the view's first look at the table locks it.

        Returns:
            None for a table that is gone.

        Raises:
            SourceAccessError: it may be there, out of the account's sight.
            SnapshotRefusedError: it has a column of a type that is not known here.
        """
        if not MysqlColumns(self._server).has(name.database, name.table):
            if MysqlSight.of(self._server.query("SHOW GRANTS")).shows(name.database, name.table):
                return None
            raise SourceAccessError(
                f"{self._server.place}: a snapshot has {name} to read, which the account does not see",
                hint=f"GRANT SELECT ON {_quoted(name.database)}.{_quoted(name.table)} TO the account; if the table is "
                "gone, `databus snapshot cancel` ends the snapshot.",
            )
        opened.query(f"SELECT 1 FROM {_quoted(name.database)}.{_quoted(name.table)} LIMIT 1")  # noqa: S608 - quoted
        found = MysqlColumns(self._server).definitions([name.database]).get(name)
        if found is None and MysqlColumns(self._server).has(name.database, name.table):
            raise SnapshotRefusedError(
                f"{self._server.place}: {name} cannot be read: it has a column of a type that is not known here",
                hint="Take the table out of the flow, or cancel the snapshot and begin one of the other tables.",
            )
        return found

    def _chunk(
        self,
        opened: ServerConnection,
        definition: TableDefinition,
        key: ChunkKey | None,
        table: TableProgress,
        most_rows: int,
    ) -> Chunk | None:
        if key is None:
            return whole_table(definition, table.where)
        after = table.after
        if not key.continues(after):
            log.warning("%s has another key than before: it is read again from its beginning", table.table)
            after = ()
        most_rows = min(most_rows, self._options.chunk_rows or most_rows)
        rows = rows_of_chunk(bytes_of_row(opened.query, definition), most_rows, MOST_CHUNK_BYTES)
        return next_chunk(opened.query, definition, key, after, rows, table.where)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
