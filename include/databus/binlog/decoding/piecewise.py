"""Decode a large segment piece by piece, so that memory depends neither on its size nor on that of a transaction.

The transactions are found first, since every row names the end of its transaction; then the rows are decoded a few MiB
of log at a time. Ordinals go on over the pieces of a transaction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.arena import kernel_columns
from databus.binlog.decoding.decode import DecodedEvents, TableFilter
from databus.binlog.decoding.table_batch import SchemaIds, Transactions
from databus.binlog.decoding.table_rows import LogPlace, row_fault
from databus.binlog.decoding.versioned_rows import HistoryRows
from databus.binlog.kernels import walk as w
from databus.binlog.kernels.images import C_WIDTH
from databus.binlog.log.events import FormatDescription
from databus.binlog.log.row_counting import count_events
from databus.binlog.log.tablemap import TableMap
from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.log.walk import Walk, as_buffer
from databus.binlog.log.walker import Walker
from databus.binlog.schema_history.definitions import Definitions
from databus.core.errors.source import DecodeError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

PIECE_BYTES = 8 << 20
"""Log bytes decoded at once, unless a single event is larger."""
_MOST_EXPANDED = 4
"""No further compressed event of a piece is expanded once the expanded ones take so many times its size."""


class SegmentPiece(DecodedEvents):
    """The rows of some events of a segment; `transactions` are those of the whole segment."""

    def __init__(
        self,
        walker: Walker,
        walk: Walk,
        tables: TableFilter,
        schema_ids: SchemaIds,
        shared: _SegmentState,
        most_bytes: int | None,
    ) -> None:
        super().__init__(walker, walk, tables, schema_ids, most_bytes)
        self._shared = shared
        self._bases = shared.ordinals.bases(self._buffer, walk.rows, walk.slots, self._place)
        self._add_history(shared.history, walk.rows, self._bases)

    def _ordinal_bases(self, rows: Ints) -> Ints:  # noqa: ARG002 - known already
        return self._bases

    def _history_rows(self, rows: Ints, bases: Ints) -> HistoryRows:  # noqa: ARG002 - found already
        return self._shared.history


def decode_pieces(  # noqa: PLR0913 - as decode_events
    buffer: Bytes,
    *,
    file: str,
    base_pos: int,
    tables: TableFilter,
    schema_ids: SchemaIds,
    definitions: Definitions | None,
    forget: Callable[[], None],
    log_format: FormatDescription | None = None,
    commit: CommitPlace | None = None,
    piece_bytes: int | None = None,
    most_bytes: int | None = None,
) -> Iterator[SegmentPiece]:
    """Yield the contents of a segment in log order, piece by piece; arguments are those of `decode_events`.

    The rows of XA COMMITs are elsewhere, unless the buffer is one prepared transaction.

    Args:
        buffer: raw events, as a rule mapped from a file.
        file: name of the log file.
        base_pos: file position of the first event after the leading FORMAT_DESCRIPTION event.
        tables: which tables' rows are wanted.
        schema_ids: numbers for schemas.
        definitions: what TABLE_MAP events leave open; None where the log says it all.
        forget: called when what was touched of the buffer so far may leave memory.
        log_format: format of the events, when no FORMAT_DESCRIPTION event precedes them.
        commit: where the XA COMMIT of the prepared transaction stands that the buffer is; None when it is none.
        piece_bytes: log bytes decoded at once; None for `PIECE_BYTES`.
        most_bytes: as for `decode_events`.

    Raises:
        DecodeError: as `decode_events`; damage of events shows before the first piece, damage of rows while iterating.
    """
    size = piece_bytes or PIECE_BYTES

    def walker() -> Walker:
        return Walker(file, base_pos, format=log_format, prepared=commit is not None, definitions=definitions)

    transactions, gone = _transactions(walker(), buffer, size, forget)
    if commit is not None:
        transactions = commit.transactions
    last, shared, ended = walker(), _SegmentState(), 0
    for number, walk in enumerate(_walked(last, buffer, size)):
        left = _without(walk, gone[number]) if number in gone else walk
        rows = left.rows.copy()
        rows[:, w.R_TRANSACTION] += ended
        statements = [dataclasses.replace(s, transaction=s.transaction + ended) for s in left.statements]
        ended += len(walk.transactions)
        whole = dataclasses.replace(left, transactions=transactions, rows=rows, statements=statements)
        yield SegmentPiece(last, whole, tables, schema_ids, shared, most_bytes)
        forget()


class _SegmentState:
    """State shared by the pieces of one segment."""

    def __init__(self) -> None:
        self.ordinals = _Ordinals()
        self.history = HistoryRows()


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


def _transactions(
    walker: Walker, buffer: Bytes, piece_bytes: int, forget: Callable[[], None]
) -> tuple[Transactions, Mapping[int, Ints]]:
    """Return the transactions, and by piece the lines of rows events that a later piece takes back (ROLLBACK)."""
    parts: list[Transactions] = []
    gone: dict[int, Ints] = {}
    earlier, is_open = np.zeros((0, 2), np.int64), False
    for number, walk in enumerate(_walked(walker, buffer, piece_bytes)):
        if walk.kept is not None:
            for piece in np.unique(earlier[walk.kept :, 0]).tolist():
                lines = earlier[walk.kept :][earlier[walk.kept :, 0] == piece, 1]
                gone[piece] = np.union1d(gone[piece], lines) if piece in gone else lines
            earlier = earlier[: walk.kept]
        ended = len(walk.transactions)
        if ended or not parts:
            parts.append(walk.transactions)
        earlier = earlier[:0] if ended else earlier
        still = np.flatnonzero((walk.rows[:, w.R_TRANSACTION] == ended) & (walk.rows[:, w.R_SLOT] >= 0))
        earlier = np.concatenate((earlier, np.column_stack((np.full(len(still), number), still))))
        is_open = walk.open
        forget()
    if is_open:
        raise DecodeError(f"{walker.file}:{walker.position}: the events end inside a transaction")
    return _joined(parts), gone


def _without(walk: Walk, lines: Ints) -> Walk:
    """Return a walk without some of its rows events."""
    keep = np.ones(len(walk.rows), np.bool_)
    keep[lines] = False
    place = np.cumsum(keep) - 1
    statements = [dataclasses.replace(s, row_event=int(place[s.row_event])) for s in walk.statements]
    return dataclasses.replace(walk, rows=walk.rows[keep], statements=statements)


def _walked(walker: Walker, buffer: Bytes, piece_bytes: int) -> Iterator[Walk]:
    """Walk a buffer a piece at a time."""
    at, size = 0, piece_bytes
    while at < len(buffer):
        walk = walker.walk(as_buffer(buffer[at : at + size]), _MOST_EXPANDED * piece_bytes)
        used = walk.consumed_bytes
        if used == 0:
            if at + size >= len(buffer):
                raise DecodeError(
                    f"{walker.file}:{walker.position}: {len(buffer) - at} bytes are left that are no whole event"
                )
            # So that a large event stands alone.
            needed = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
            size = needed if needed > size else 2 * size
            continue
        yield walk
        at, size = at + used, piece_bytes


def _joined(parts: Sequence[Transactions]) -> Transactions:
    def join(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        if isinstance(values[0], pa.Array):
            return pa.concat_arrays(values)
        if values[0] is None or isinstance(values[0], str):
            return values[0]
        raise TypeError(f"Transactions.{name} is of a kind that cannot be joined")

    return Transactions(**{field.name: join(field.name) for field in dataclasses.fields(Transactions)})
