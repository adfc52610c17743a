"""Rows of MariaDB tables WITH SYSTEM VERSIONING as a SELECT without FOR SYSTEM_TIME sees them change.

The log holds such a table's history in versions: an UPDATE is an Update_rows of the current version and a Write_rows of
the history version, a DELETE is an Update_rows that sets ROW END. A current version has the greatest ROW END.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE, SchemaIds, TableBatch
from databus.binlog.decoding.table_rows import LogPlace, TableRows
from databus.binlog.log.expansion import unexpanded
from databus.binlog.log.tablemap import TableMap

Ints = npt.NDArray[np.int64]

_FOR_EVER = (
    datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC),
    datetime(2106, 2, 7, 6, 28, 15, 999999, tzinfo=UTC),
)
"""ROW END of a current version: the greatest TIMESTAMP, of MariaDB up to 11.4, and since 11.5 on 64 bits."""
_EVENT_SHIFT = 32
_TRANSACTION_SHIFT = 40


def current_op(op: int, before_end: datetime | None, after_end: datetime | None) -> int | None:
    """Return what a change of a version is to the table's present rows; None when it concerns history only.

    Args:
        op: INSERT, UPDATE or DELETE of the version.
        before_end: its ROW END before, None where there is no such image or it lacks the column (it is current then).
        after_end: the same after.
    """
    was, is_now = (end is None or end in _FOR_EVER for end in (before_end, after_end))
    if op == UPDATE:
        return (UPDATE if is_now else DELETE) if was else None
    return op if (is_now if op == INSERT else was) else None


def current_rows(batch: TableBatch, table: TableMap) -> TableBatch:
    """Return the changes of present rows in a batch of versions, without the columns that the server made for itself.

    A version that ends is a delete with its before-image. Ordinals stay those of the log.
    """
    ops, keep = _ops(batch, table)
    hidden = set(table.hidden)
    shown = [number for number in range(batch.images.num_columns) if number not in hidden]
    after = np.where(ops == DELETE, np.int32(-1), batch.after_row).astype(np.int32)
    return replace(
        batch,
        images=batch.images.select(shown),
        op=ops[keep],
        before_row=batch.before_row[keep],
        after_row=after[keep],
        transaction=batch.transaction[keep],
        ordinal=batch.ordinal[keep],
        presence_sets=tuple(bits[shown] for bits in batch.presence_sets),
        exceptions={shown.index(c): texts for c, texts in batch.exceptions.items() if c not in hidden},
    )


def delivered_counts(buffer: npt.NDArray[np.uint8], table: TableMap, rows: Ints, file: str) -> Ints:
    """Return per rows event of a versioned table how many of its changes are delivered.

    Args:
        buffer: raw events.
        table: the table.
        rows: R_… lines of its rows events.
        file: log file, for messages.

    Raises:
        DecodeError: rows are damaged.
    """
    counts = np.zeros(len(rows), np.int64)
    if not len(rows):
        return counts
    bases = np.arange(len(rows), dtype=np.int64) << _EVENT_SHIFT
    for batch in TableRows(buffer, table, rows, bases, SchemaIds(), LogPlace(file, 0, unexpanded(buffer))).batches():
        _, keep = _ops(batch, table)
        np.add.at(counts, batch.ordinal[keep] >> _EVENT_SHIFT, 1)
    return counts


class HistoryRows:
    """The history rows of a stretch of log, by transaction and ordinal: ordinals are counted without them."""

    def __init__(self) -> None:
        self._places: list[Ints] = []
        self._sorted: Ints | None = None

    def add(self, batch: TableBatch, table: TableMap) -> None:
        """Take note of the history rows among a batch of versions."""
        _, keep = _ops(batch, table)
        self._places.append(_place(batch.transaction[~keep], batch.ordinal[~keep]))
        self._sorted = None

    def renumbered(self, batch: TableBatch) -> TableBatch:
        """Return a batch with ordinals that do not count history rows."""
        if not self._places or not len(batch):
            return batch
        return replace(batch, ordinal=batch.ordinal - self._before(batch.transaction, batch.ordinal))

    def dense(self, transaction: int, ordinal: int) -> int:
        """Return one ordinal that does not count history rows."""
        if not self._places:
            return ordinal
        return ordinal - int(self._before(np.array([transaction]), np.array([ordinal]))[0])

    def _before(self, transaction: npt.NDArray[np.integer], ordinal: Ints) -> Ints:
        if self._sorted is None:
            self._sorted = np.sort(np.concatenate(self._places))
        start = np.searchsorted(self._sorted, _place(transaction, np.zeros(len(transaction), np.int64)))
        return np.searchsorted(self._sorted, _place(transaction, ordinal)) - start


def _place(transaction: npt.NDArray[np.integer], ordinal: Ints) -> Ints:
    return (transaction.astype(np.int64) << _TRANSACTION_SHIFT) + ordinal


def _ops(batch: TableBatch, table: TableMap) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Return per change its operation on present rows, and whether it is one."""
    assert table.period is not None  # noqa: S101 - asked for versioned tables only
    end = table.period.end
    current = _current(batch.images.column(end))
    carried = np.array([bits[end] for bits in batch.presence_sets], np.bool_)[batch.presence]
    current |= ~carried
    was, is_now = (np.where(rows >= 0, current[rows], True) for rows in (batch.before_row, batch.after_row))
    ops = batch.op.copy()
    ops[(batch.op == UPDATE) & ~is_now] = DELETE
    keep = np.where(batch.op == INSERT, is_now, was)
    return ops, keep


def _current(ends: pa.Array) -> npt.NDArray[np.bool_]:
    values: Any = pa.array(_FOR_EVER, ends.type)
    current: npt.NDArray[np.bool_] = pc.is_in(ends, value_set=values).to_numpy(zero_copy_only=False)
    return current.copy()
