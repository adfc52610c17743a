"""Next chunks of a snapshot: their bounds, found one after the other in one consistent view."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.tablemap import TableMap
from databus.binlog.schema_history.definition import TableDefinition, TableName
from databus.binlog.server.wire import ServerConnection
from databus.core.errors.source import SnapshotNotYetVisibleError, SnapshotRefusedError, SourceAccessError
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.chunk_bounds import Chunk, bytes_of_row, next_chunk, rows_of_chunk, whole_table
from databus.sources.mysql.snapshot.chunk_key import ChunkKey, chunk_key, with_logged_key
from databus.sources.mysql.snapshot.cursor import quoted
from databus.sources.mysql.snapshot.logged_table import logged_table
from databus.sources.mysql.snapshot.snapshot_preflight import grant_named
from databus.sources.mysql.tables.information_schema import MysqlColumns
from databus.sources.mysql.tables.visibility import MysqlSight

log = logging.getLogger(__name__)

MOST_CHUNK_BYTES = 32 << 20
MOST_CHUNKS = 100
"""Chunks of one batch, each of which the plan names: many small tables would else make it too large to be written."""


@dataclass(frozen=True)
class ReadTable:
    """Table of a snapshot as the view that bounds its chunks found it; it stays so until that view ends.

    Attributes:
        definition: the table.
        logged: the table as the log will describe it.
        schema: its schema; `schema_id` -1.
        key: index by which it is read in chunks; None for a table that is read in one go.
        row_bytes: mean bytes of a row; None where the server does not say.
    """

    definition: TableDefinition
    logged: TableMap
    schema: TableSchema
    key: ChunkKey | None
    row_bytes: int | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns by which its rows are told apart; () for a table without any."""
        return self.schema.primary_key or (tuple(column.name for column in self.key.columns) if self.key else ())


@dataclass(frozen=True)
class NextChunk:
    """Chunk that is to be read.

    Attributes:
        number: number in the snapshot.
        table: the table.
        chunk: which rows.
        rows: most rows that it was given; 0 of a whole table.
    """

    number: int
    table: ReadTable
    chunk: Chunk
    rows: int


@dataclass(frozen=True)
class MostChunks:
    """Most chunks of a batch.

    Attributes:
        rows: rows of all of them together.
        chunk_rows: rows of one.
        seconds: seconds from now after which none is handed out any more, but for the first.
    """

    rows: int
    chunk_rows: int
    seconds: float


class NextChunks:
    """Next chunks of a snapshot, handed out one at a time to any thread.

    Args:
        server: asked for definitions, one question at a time.
        capture: the flow's tables.
        opened: connection inside the view that finds the bounds.
        snapshot: how far it has come.
        most: how much of it.
        source: the flow's server where `server` is a replica of it: tables are read there as they are defined here.

    Attributes:
        snapshot: the snapshot as it stands behind what was handed out.
    """

    def __init__(
        self,
        server: MysqlServer,
        capture: TableCapture,
        opened: ServerConnection,
        snapshot: Snapshot,
        most: MostChunks,
        source: MysqlServer | None = None,
    ):
        self.snapshot, self._source = snapshot, source
        self._server, self._capture, self._opened = server, capture, opened
        self._left, self._most_chunk_rows = most.rows, most.chunk_rows
        self._deadline = time.monotonic() + most.seconds
        self._first, self._handed = True, 0
        self._tables: dict[TableName, ReadTable | None] = {}
        self._lock = threading.Lock()

    def next(self) -> NextChunk | None:
        """Return the next chunk; None when the batch has enough, or nothing is left.

        Raises:
            SourceError: a table cannot be read.
        """
        with self._lock:
            while (table := self.snapshot.current) is not None and self._left > 0 and self._handed < MOST_CHUNKS:
                # However long the view was waited for, something is read: the next one may take as long.
                if not self._first and time.monotonic() >= self._deadline:
                    return None
                self._first = False
                with grant_named(self._server, *table.table.split(".", 1)):
                    found, progress = self._of(table)
                tables = (progress if each.table == table.table else each for each in self.snapshot.tables)
                self.snapshot = replace(self.snapshot, tables=tuple(tables))
                if found is not None:
                    self._handed += 1
                    self._left -= found.rows
                    return found
        return None

    def was_read(self, chunk: NextChunk, rows: int) -> None:
        """Count the rows that a chunk had, in place of those that it was given."""
        with self._lock:
            self._left += chunk.rows - rows

    def defined(self, opened: ServerConnection, table: ReadTable) -> bool:
        """Return whether another view finds a table as this one did; its look at the table locks the definition.

        Raises:
            SourceError: the table is gone, or cannot be read.
        """
        opened.query(f"SELECT 1 FROM {_place(table.definition.name)} LIMIT 1")  # noqa: S608 - quoted
        with self._lock:
            name = table.definition.name
            return MysqlColumns(self._server).definition(name) == table.definition

    @contextmanager
    def grant_named(self, table: ReadTable) -> Iterator[None]:
        """Name the table and the GRANT where another view is refused its rows."""
        try:
            yield
        except SourceAccessError:
            with self._lock, grant_named(self._server, table.definition.database, table.definition.table):
                raise

    def _of(self, table: TableProgress) -> tuple[NextChunk | None, TableProgress]:
        """Return the next chunk of a table, None where nothing is left, and the progress behind it."""
        name = TableName(*table.table.split(".", 1))
        if not self._capture(name.database, name.table):
            # The log's rows of it are not looked at, so nothing would supersede what is read.
            log.warning("snapshot %d: %s is none of the flow's tables any more", self.snapshot.number, table.table)
            return None, replace(table, state="gone", after=())
        if name not in self._tables:
            self._tables[name] = self._table(name, table)
        read = self._tables[name]
        if read is None:
            log.warning(
                "snapshot %d: %s is gone, nothing more is read of it; if it has another name now, which the flow "
                "captures, `databus snapshot begin` with --table reads it under that",
                self.snapshot.number,
                table.table,
            )
            return None, replace(table, state="gone", after=())
        chunk, rows = self._chunk(read, table)
        if chunk is None:
            return None, replace(table, state="done", after=())
        number = 1 + sum(each.chunks for each in self.snapshot.tables)
        # Nobody asks for the cursor of a table that is done: of thousands it would be most of what is stored.
        state, upto = ("done", ()) if chunk.last else ("reading", tuple(chunk.upto))
        progress = replace(table, state=state, after=upto, chunks=table.chunks + 1)
        return NextChunk(number, read, chunk, rows), progress

    def _table(self, name: TableName, table: TableProgress) -> ReadTable | None:
        """Return a table as it stays until the view ends: the view's first look at it locks it; None for a gone one."""
        definition = self._defined(name)
        # Asked for once the replica's table is locked: a later definition is in the batch's range of the log.
        if self._source is not None and MysqlColumns(self._source).definition(name) != definition:
            raise SnapshotNotYetVisibleError(
                f"{name} is defined otherwise at the replica {self._server.place} than at {self._source.place}"
            )
        if definition is None:
            return None
        key = chunk_key(self._opened.query, definition, table.after)
        keyed = with_logged_key((self._source or self._opened).query, definition)
        logged = logged_table(keyed, self._server.flavor)
        length = bytes_of_row(self._opened.query, definition)
        return ReadTable(definition, logged, logged.to_schema(-1), key, length)

    def _defined(self, name: TableName) -> TableDefinition | None:
        """Return a table's definition; None for a table that is gone.

        Raises:
            SourceAccessError: it may be there, out of the account's sight.
            SnapshotRefusedError: it has a column of a type that is not known here.
        """
        columns = MysqlColumns(self._server)
        if not columns.has(name.database, name.table):
            if MysqlSight.of(self._server.query("SHOW GRANTS")).shows(name.database, name.table):
                return None
            raise SourceAccessError(
                f"{self._server.place}: a snapshot has {name} to read, which the account does not see",
                hint=f"GRANT SELECT ON {_place(name)} TO the account; if the table is gone, "
                "`databus snapshot cancel` ends the snapshot.",
            )
        self._opened.query(f"SELECT 1 FROM {_place(name)} LIMIT 1")  # noqa: S608 - quoted
        found = columns.definition(name)
        if found is None and columns.has(name.database, name.table):
            raise SnapshotRefusedError(
                f"{self._server.place}: {name} cannot be read: it has a column of a type that is not known here",
                hint="Take the table out of the flow, or cancel the snapshot and begin one of the other tables.",
            )
        return found

    def _chunk(self, read: ReadTable, table: TableProgress) -> tuple[Chunk | None, int]:
        if read.key is None:
            return whole_table(read.definition, table.where), 0
        after = table.after
        if not read.key.continues(after):
            log.warning("%s has another key than before: it is read again from its beginning", table.table)
            after = ()
        rows = rows_of_chunk(read.row_bytes, min(self._left, self._most_chunk_rows), MOST_CHUNK_BYTES)
        return next_chunk(self._opened.query, read.definition, read.key, after, rows, table.where), rows


def _place(name: TableName) -> str:
    return f"{quoted(name.database)}.{quoted(name.table)}"
