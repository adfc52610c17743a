"""Decode a large segment piece by piece, so that memory depends neither on its size nor on that of a transaction.

The transactions are found first, since every row names the end of its transaction; then the rows are decoded a few MiB
of log at a time. Ordinals go on over the pieces of a transaction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.arena import kernel_columns
from databus.binlog.decode import DecodedEvents, TableFilter
from databus.binlog.kernels import walk as w
from databus.binlog.kernels.images import C_WIDTH
from databus.binlog.kernels.row_counts import count_events
from databus.binlog.schema_ids import SchemaIds
from databus.binlog.table_batch import Transactions
from databus.binlog.table_rows import LogPlace, row_fault
from databus.binlog.tablemap import TableMap
from databus.binlog.walker import Walk, Walker, as_buffer
from databus.core.errors import DecodeError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

PIECE_BYTES = 8 << 20
"""Log bytes decoded at once, unless a single event is larger."""


class Piece(DecodedEvents):
    """The rows of some events of a segment; `transactions` are those of the whole segment."""

    def __init__(
        self, buffer: Bytes, walker: Walker, walk: Walk, tables: TableFilter, schema_ids: SchemaIds, bases: Ints
    ) -> None:
        super().__init__(buffer, walker, walk, tables, schema_ids)
        self._bases = bases

    def _ordinal_bases(self, rows: Ints) -> Ints:  # noqa: ARG002 - known already
        return self._bases


def decode_pieces(
    buffer: Bytes, *, file: str, base_pos: int, tables: TableFilter, schema_ids: SchemaIds, forget: Callable[[], None]
) -> Iterator[Piece]:
    """Yield the contents of a segment in log order, piece by piece; arguments are those of `decode_events`.

    Args:
        buffer: raw events, as a rule mapped from a file.
        file: name of the log file.
        base_pos: file position of the first event after the leading FORMAT_DESCRIPTION event.
        tables: which tables' rows are wanted.
        schema_ids: numbers for schemas.
        forget: called when what was touched of the buffer so far may leave memory.

    Raises:
        DecodeError: as `decode_events`; damage of events shows before the first piece, damage of rows while iterating.
    """
    transactions = _transactions(buffer, file, base_pos, forget)
    walker, ordinals, ended = Walker(file, base_pos), _Ordinals(), 0
    for data, walk in _walked(walker, buffer):
        rows = walk.rows.copy()
        rows[:, w.R_TRANSACTION] += ended
        statements = [dataclasses.replace(s, transaction=s.transaction + ended) for s in walk.statements]
        place = LogPlace(file, walker.position - walk.consumed_bytes)
        bases = ordinals.bases(data, rows, walk.slots, place)
        ended += len(walk.transactions)
        whole = dataclasses.replace(walk, transactions=transactions, rows=rows, statements=statements)
        yield Piece(data, walker, whole, tables, schema_ids, bases)
        forget()


class _Ordinals:
    """Numbers the changes and statements of each transaction, across the pieces it lies in."""

    def __init__(self) -> None:
        self._slots: list[TableMap] = []
        self._columns = np.zeros((0, C_WIDTH), np.int64)
        self._places = np.zeros((0, 2), np.int64)
        self._transaction, self._next = -1, 0

    def bases(self, data: Bytes, rows: Ints, slots: Sequence[TableMap], place: LogPlace) -> Ints:
        """Return the ordinal of each event's first change.

        Raises:
            DecodeError: an event does not fit its table.
        """
        if not len(rows):
            return np.zeros(0, np.int64)
        self._learn(slots)
        counts = np.zeros(len(rows), np.int64)
        bad = int(count_events(data, rows, self._columns, self._places, counts))
        if bad >= 0:
            line = rows[bad]
            table = slots[int(line[w.R_SLOT])]
            raise row_fault(int(counts[bad]), place.where(int(line[w.R_AT])), int(line[w.R_TYPE]), table, -1)
        counts[rows[:, w.R_SLOT] < 0] = 1
        before = np.cumsum(counts) - counts
        transaction = rows[:, w.R_TRANSACTION]
        first = np.searchsorted(transaction, transaction)  # rows events lie in transaction order
        bases: Ints = before - before[first]
        bases[transaction == self._transaction] += self._next
        self._transaction, self._next = int(transaction[-1]), int(bases[-1] + counts[-1])
        return bases

    def _learn(self, slots: Sequence[TableMap]) -> None:
        for table in slots[len(self._slots) :]:
            columns = kernel_columns(table.columns)
            self._places = np.append(self._places, [[len(self._columns), len(columns)]], axis=0)
            self._columns = np.concatenate((self._columns, columns))
            self._slots.append(table)


def _transactions(buffer: Bytes, file: str, base_pos: int, forget: Callable[[], None]) -> Transactions:
    parts: list[Transactions] = []
    walker, is_open = Walker(file, base_pos), False
    for _, walk in _walked(walker, buffer):
        if len(walk.transactions) or not parts:
            parts.append(walk.transactions)
        is_open = walk.open
        forget()
    if is_open:
        raise DecodeError(f"{file}:{walker.position}: the events end inside a transaction")
    return _joined(parts)


def _walked(walker: Walker, buffer: Bytes) -> Iterator[tuple[Bytes, Walk]]:
    """Walk a buffer a piece at a time; yield the whole events of each piece."""
    at, size = 0, PIECE_BYTES
    while at < len(buffer):
        walk = walker.walk(as_buffer(buffer[at : at + size]))
        used = walk.consumed_bytes
        if used == 0:
            if at + size >= len(buffer):
                raise DecodeError(
                    f"{walker.file}:{walker.position}: {len(buffer) - at} bytes are left that are no whole event"
                )
            size *= 2
            continue
        yield as_buffer(buffer[at : at + used]), walk
        at, size = at + used, PIECE_BYTES


def _joined(parts: Sequence[Transactions]) -> Transactions:
    def join(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        if isinstance(values[0], pa.Array):
            return pa.concat_arrays(values)
        if isinstance(values[0], str):
            return values[0]
        raise TypeError(f"Transactions.{name} is of a kind that cannot be joined")

    return Transactions(**{field.name: join(field.name) for field in dataclasses.fields(Transactions)})
