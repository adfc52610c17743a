"""Rows of a table as TableBatches, with the types and values that decoding the log gives."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.arena import MAX_TEXT_BYTES, Arena, allocate
from databus.binlog.decoding.arrow_columns import arrow_type
from databus.binlog.decoding.table_batch import MAX_IMAGES, READ, TableBatch
from databus.binlog.kernels import images as im
from databus.binlog.kernels import kinds as k
from databus.binlog.kernels import result_rows as rr
from databus.binlog.kernels import values as v
from databus.binlog.log.tablemap import TableMap
from databus.binlog.server.wire import ServerConnection
from databus.binlog.values.value_texts import exception_text
from databus.core.errors.source import DecodeError
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.snapshot.column_reads import ColumnRead, column_read, sent_matrix, sent_ways
from databus.sources.mysql.snapshot.prepared_select import PreparedSelect

BATCH_BYTES = 32 << 20
"""A batch ends behind so many bytes received, however many columns their values lie in."""

_TEXT_BYTES = 8 << 20
"""Room for one column's values in a batch, unless a single row needs more."""
_ALL_TEXT_BYTES = 256 << 20
_SLACK = 256

_SESSION = (
    "SET SESSION time_zone = '+00:00', character_set_results = NULL, sql_mode = '', net_write_timeout = 3600, "
    "sql_select_limit = 18446744073709551615, sql_big_selects = 1 "
    "/*!80000 , max_execution_time = 0 */ /*M!100100 , max_statement_time = 0 */"
)
"""Session settings: instants in UTC, stored bytes of texts, plain quoting, and no limit that cuts a result."""


def select_statement(table: TableMap, reads: Sequence[ColumnRead], condition: str, forced: str = "") -> str:
    """Return the SELECT of some columns; an empty condition asks for all rows, `forced` is an index hint or ""."""
    quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (table.database, table.table))
    wanted = ", ".join(read.expression for read in reads)
    return f"SELECT {wanted} FROM {quoted} {forced}".rstrip() + (f" WHERE {condition}" if condition else "")  # noqa: S608 - names are quoted


def read_table(
    opened: ServerConnection,
    table: TableMap,
    condition: str,
    schema: TableSchema,
    most_images: int = MAX_IMAGES,
    forced: str = "",
) -> Generator[TableBatch]:
    """Yield the rows of a table for which a condition holds; of a system-versioned table, the present ones.

    The rows stream: one batch, one receive buffer and, above 16 MiB, one row are in memory. Columns that the server
    made for itself are left out, as in changes of present rows. After an error, and when the caller stops before the
    end, the connection is closed; else it is as before, but for the session's settings.

    Args:
        opened: a connection without an answer under way; inside of a consistent view its rows are the view's.
        table: the table as the log describes it.
        condition: SQL for WHERE in the default sql_mode's quoting, without `?` outside of texts; "" for all rows.
        schema: the table's schema with its number.
        most_images: rows of one batch.
        forced: index hint behind the table's name, "" for none.

    Yields:
        Batches of `op` READ: ordinals from 0 over all batches, transaction 0, every column present.

    Raises:
        SourceError: the server refuses or ends the SELECT, in the classes of `server_error`.
        SourceUnavailableError: the connection is lost.
        DecodeError: a value that its type does not allow, or of more than 2 GiB.
    """
    reads = [column_read(c) for number, c in enumerate(table.columns) if number not in table.hidden]
    whole = False
    try:
        opened.query(_SESSION)
        select = PreparedSelect(opened, select_statement(table, reads, condition, forced), f"reading {table.full_name}")
        rows = _ResultRows(select, reads, schema, most_images)
        yield from rows.batches()
        select.finish()
        whole = True
    finally:
        if not whole:
            opened.cut()


@dataclass
class _ReadBatch:
    """A batch under way.

    Attributes:
        arena: where values are written.
        exceptions: X_… lines.
        received: bytes of its rows.
    """

    arena: Arena
    exceptions: np.ndarray
    received: int = 0


class _ResultRows:
    """The rows of a SELECT, a bounded batch at a time."""

    def __init__(self, select: PreparedSelect, reads: list[ColumnRead], schema: TableSchema, most_images: int):
        self._select, self._reads, self._schema = select, reads, schema
        self._where = f"reading {schema.full_name}"
        self._most_images = most_images
        self._ways = sent_ways(reads, select.types, self._where)
        self._matrix = sent_matrix(reads)
        self._arrow_schema = pa.schema([pa.field(r.column.name, arrow_type(r.column)) for r in reads])
        self._cursor = np.zeros(v.K_WIDTH, np.int64)
        self._done = 0
        varying = max(1, sum(k.WIDTH[read.sent.kind] == 0 for read in reads))
        self._text_bytes = min(_TEXT_BYTES, _ALL_TEXT_BYTES // varying) + _SLACK

    def batches(self) -> Iterator[TableBatch]:
        select = self._select
        batch = self._empty()
        while True:
            before = select.at
            status = self._decode(batch)
            batch.received += select.at - before
            full = status == rr.FULL or batch.received >= BATCH_BYTES
            if status == rr.END_OF_RESULT or (full and self._images) or status == rr.SEVERAL_PACKETS:
                if self._images:
                    yield self._made(batch)
                    batch = self._empty()
                if status == rr.END_OF_RESULT:
                    return
                if status == rr.SEVERAL_PACKETS:
                    yield self._alone(select.row_in_several_packets())
            elif status == rr.FULL:  # not one row fits into the room of a batch
                length = int.from_bytes(select.buffer[select.at : select.at + 3].tobytes(), "little")
                start = select.at + 4
                yield self._alone(select.buffer[start : start + length])
                select.at = start + length
            elif status == rr.STARVED:
                select.receive()
            else:
                raise select.error() if status > 0 else self._fault(status)

    @property
    def _images(self) -> int:
        return int(self._cursor[v.K_IMAGES])

    def _empty(self) -> _ReadBatch:
        self._cursor[:] = 0
        text = np.full(len(self._matrix), self._text_bytes, np.int64)
        return self._batch(allocate(self._matrix, self._most_images, text))

    def _batch(self, arena: Arena) -> _ReadBatch:
        lines = max(4 * len(self._reads), arena.max_images)
        return _ReadBatch(arena, np.empty((lines, v.X_WIDTH), np.int64))

    def _decode(self, batch: _ReadBatch) -> int:
        select, arena = self._select, batch.arena
        self._cursor[v.K_AT] = select.at
        status = rr.decode_result(
            select.buffer,
            select.end,
            self._ways,
            arena.columns,
            self._cursor,
            arena.max_images,
            arena.memory,
            batch.exceptions,
        )
        select.at = int(self._cursor[v.K_AT])
        return int(status)

    def _alone(self, row: np.ndarray) -> TableBatch:
        """Return the batch of one row, given without packet headers, that is too large for another."""
        self._cursor[:] = 0
        sizes = np.zeros(len(self._matrix), np.int64)
        status = rr.sent_sizes(row, 0, len(row), self._ways, sizes)
        if status == 0:
            room = np.maximum(sizes, self._matrix[:, im.C_META2]) + _SLACK
            if room.max() > MAX_TEXT_BYTES:
                raise DecodeError(f"{self._where}: a value is larger than 2 GiB")
            batch = self._batch(allocate(self._matrix, 1, room))
            status = rr.decode_row(
                row, 0, len(row), self._ways, batch.arena.columns, self._cursor, batch.arena.memory, batch.exceptions
            )
        if status != 0:
            raise self._fault(int(status))
        made = self._made(batch)
        self._cursor[:] = 0
        return made

    def _made(self, batch: _ReadBatch) -> TableBatch:
        """Return what was written of a batch."""
        rows, lines = self._images, batch.exceptions[: self._cursor[v.K_EXCEPTIONS]]
        exceptions: dict[int, dict[int, str | bytes]] = {}
        for number, row, value, us in lines.tolist():
            exceptions.setdefault(number, {})[row] = exception_text(self._reads[number].column, value, us)
        arrays = []
        for number, read in enumerate(self._reads):
            array, undecodable = read.array(number, batch.arena, rows)
            arrays.append(array)
            if undecodable:
                exceptions.setdefault(number, {}).update(undecodable)
        first, self._done = self._done, self._done + rows
        return TableBatch(
            schema=self._schema,
            images=pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema),
            op=np.full(rows, READ, np.int8),
            before_row=np.full(rows, -1, np.int32),
            after_row=np.arange(rows, dtype=np.int32),
            transaction=np.zeros(rows, np.int32),
            ordinal=np.arange(first, first + rows, dtype=np.int64),
            presence=np.zeros(rows, np.int32),
            presence_sets=(np.ones(len(self._reads), np.bool_),),
            exceptions=exceptions,
        )

    def _fault(self, fault: int) -> DecodeError:
        number = int(self._cursor[v.K_COLUMN])
        name = f".{self._reads[number].column.name}" if number >= 0 else ""
        what = {
            im.CUT_SHORT: "ends inside a value",
            im.BAD_VALUE: "holds a value that its type does not allow",
            im.BAD_ENUM: "holds a member that the column's list does not have",
        }[fault]
        return DecodeError(
            f"{self._where}: a row{name} {what}", hint="The definition of the table may have changed; read it anew."
        )
