"""Decode a transaction that is larger than what is held in memory: find its end first, then read it again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from databus.binlog.arena import kernel_columns
from databus.binlog.decode import DecodedEvents, TableFilter
from databus.binlog.kernels.row_counts import count_events
from databus.binlog.kernels.walk import R_SLOT
from databus.binlog.log_piece import LogPiece
from databus.binlog.schema_ids import SchemaIds
from databus.binlog.table_batch import TableBatch, TableEvent, Transactions
from databus.binlog.walker import Walk, Walker, as_buffer
from databus.core.errors import DecodeError


class LongTransaction:
    """One transaction in a seekable source.

    Args:
        source: raw events.
        offset: where in the source the transaction begins.
        piece_bytes: how much to hold at a time.
    """

    def __init__(self, source: BinaryIO, offset: int, piece_bytes: int) -> None:
        self._source, self._offset, self._piece_bytes = source, offset, piece_bytes

    def find_end(self, walker: Walker) -> Transactions:
        """Return the transaction, whose end is where it was committed.

        Args:
            walker: stands at the transaction's beginning.

        Raises:
            DecodeError: an event is damaged, or the source ends before the transaction does.
        """
        self._source.seek(self._offset)
        piece = LogPiece(self._piece_bytes)
        more = True
        while more:
            more = piece.fill(self._source)
            found = piece.walk(walker).transactions
            if len(found):
                return Transactions(
                    found.file,
                    found.start_pos[:1],
                    found.end_pos[:1],
                    found.gtid.slice(0, 1),
                    found.ts_ms[:1],
                    found.server_id[:1],
                )
            piece.drop_walked()
        raise open_at_end(walker, piece.filled)

    def read(
        self, walker: Walker, transactions: Transactions, tables: TableFilter, schema_ids: SchemaIds
    ) -> Iterator[TableBatch | TableEvent]:
        """Decode the transaction.

        Args:
            walker: stands at its beginning, and at its end afterwards.
            transactions: what `find_end` returned.
            tables: which tables' rows are wanted; ordinals count all.
            schema_ids: numbers for the schemas met.
        """
        self._source.seek(self._offset)
        left = int(transactions.end_pos[0]) - walker.position
        piece = LogPiece(self._piece_bytes)
        ordinal = 0
        while left:
            before = piece.filled
            if not piece.fill(self._source, left):
                raise open_at_end(walker, piece.filled)
            left -= piece.filled - before
            walk = piece.walk(walker)
            walk = dataclasses.replace(walk, transactions=transactions)
            buffer = piece.walked_bytes()
            for item in DecodedEvents(buffer, walker, walk, tables, schema_ids):
                if isinstance(item, TableBatch):
                    yield dataclasses.replace(item, ordinal=item.ordinal + ordinal)
                else:
                    yield dataclasses.replace(item, ordinal=item.ordinal + ordinal)
            ordinal += _changes(buffer, walk)
            piece.drop_walked()


def open_at_end(walker: Walker, rest_bytes: int, hint: str | None = None) -> DecodeError:
    """Return the error for a log that ends inside an event or a transaction."""
    what = f"the log ends inside an event, {rest_bytes} bytes of which are there" if rest_bytes else (
        "the log ends inside a transaction"
    )  # fmt: skip
    return DecodeError(
        f"{walker.file}:{walker.position}: {what}", hint=hint or "The file was cut short, or is still being written."
    )


def _changes(buffer: np.ndarray, walk: Walk) -> int:
    """Return how many ordinals the events of a walk take: one per row change and per statement."""
    matrices = [kernel_columns(table.columns) for table in walk.slots]
    if not matrices:
        return len(walk.rows)
    ends = np.cumsum([len(m) for m in matrices])
    places = np.stack([ends - [len(m) for m in matrices], [len(m) for m in matrices]], axis=1)
    counts = np.zeros(len(walk.rows), np.int64)
    # Rows that do not fit their table have been refused while they were decoded.
    count_events(as_buffer(buffer), walk.rows, np.concatenate(matrices), places.astype(np.int64), counts)
    return int(counts.sum()) + int((walk.rows[:, R_SLOT] < 0).sum())
