"""Order of rows inside their transactions, and the boundaries of these, over the record batches of a range."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import BEGIN, TABLE_ORDER, TOTAL_ORDER, Op
from databus.core.transactions import TransactionBoundary, event_head, named_table

_FACTS = ("log", "place", "transaction", "event_id", "ts_ms", "server_id")


@dataclass
class _OpenTransaction:
    """A transaction of which rows may still come."""

    begin: TransactionBoundary
    counts: dict[str, int] = field(default_factory=dict)
    total: int = 0
    quarantined: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.begin.log, self.begin.place

    def add(self, table: str, written: int, quarantined: int) -> None:
        if written:
            self.counts[table] = self.counts.get(table, 0) + written
        self.total += written
        self.quarantined += quarantined

    def end(self) -> TransactionBoundary:
        return self.begin.ended(tuple(sorted(self.counts.items())), self.quarantined)


@dataclass
class TransactionOrders:
    """Numbers the rows that one sink writes, transaction by transaction, and collects where these begin and end.

    Rows have to come in the order of the log. Rows that a snapshot read belong to no transaction. The result does not
    depend on where record batches are cut.

    Attributes:
        boundaries: those since the last call of `taken`, in the order of the log.
    """

    boundaries: list[TransactionBoundary] = field(default_factory=list)
    _open: _OpenTransaction | None = None

    def numbered(
        self, rows: pa.RecordBatch, mine: npt.NDArray[np.bool_], held: npt.NDArray[np.bool_]
    ) -> pa.RecordBatch:
        """Return rows with `TOTAL_ORDER` and `TABLE_ORDER` (int64, from 1), null where a row is in no transaction.

        Args:
            rows: `ROW_COLUMNS`.
            mine: bool[rows], which the sink takes, held back or not.
            held: bool[rows], which are held back: they have no number, and are counted as quarantined.
        """
        at = np.flatnonzero(mine & ~np.asarray(pc.equal(rows["op"], Op.READ.value)))
        total, table = np.zeros((2, rows.num_rows), np.int64)
        if len(at):
            total[at], table[at] = self._count(rows if len(at) == rows.num_rows else _taken(rows, at), ~held[at])
        numbered = rows.append_column(TOTAL_ORDER, pa.array(total, mask=total == 0))
        return numbered.append_column(TABLE_ORDER, pa.array(table, mask=table == 0))

    def taken(self) -> list[TransactionBoundary]:
        """Return the boundaries that were collected, once."""
        found, self.boundaries = self.boundaries, []
        return found

    def end(self) -> list[TransactionBoundary]:
        """Return the boundaries that are left at the end of the range, which is the end of a transaction."""
        if self._open is not None:
            self.boundaries.append(self._open.end())
            self._open = None
        return self.taken()

    def _count(
        self, rows: pa.RecordBatch, written: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        starts, run = _runs(rows)
        codes, names = _tables(rows)
        _, first, pair = np.unique(run * len(names) + codes, return_index=True, return_inverse=True)
        total = _counted(run, written)
        table = _counted(pair, written)
        chosen = rows.select(_FACTS).take(pa.array(starts))
        begins = list(map(_begin, *(column.to_pylist() for column in chosen.columns)))
        sums = np.bincount(pair, weights=written).astype(np.int64)
        held = np.bincount(pair, weights=~written).astype(np.int64)
        going_on = self._open is not None and self._open.key == (begins[0].log, begins[0].place)
        if going_on and self._open is not None:
            before = np.array([self._open.counts.get(name, 0) for name in names], np.int64)
            total += np.where(run == 0, self._open.total, 0)
            table += np.where(run == 0, before[codes], 0)
        entered = 0 if going_on else -1
        pairs = np.argsort(first)
        rows_of = first[pairs]
        told = (run[rows_of], codes[rows_of], sums[pairs], held[pairs])
        for of, code, count, kept_back in zip(*(each.tolist() for each in told), strict=True):
            while entered < of:
                entered += 1
                self._enter(begins[entered])
            assert self._open is not None  # noqa: S101 - a run has been entered
            self._open.add(names[code], count, kept_back)
        return np.where(written, total, 0), np.where(written, table, 0)

    def _enter(self, begin: TransactionBoundary) -> None:
        if self._open is not None:
            self.boundaries.append(self._open.end())
        self._open = _OpenTransaction(begin)
        self.boundaries.append(begin)


def _begin(log: str, place: int, transaction: str, event_id: str, ts_ms: int, server_id: int) -> TransactionBoundary:
    return TransactionBoundary(BEGIN, log, place, transaction, event_head(event_id), ts_ms, server_id)


def _taken(rows: pa.RecordBatch, at: npt.NDArray[np.int64]) -> pa.RecordBatch:
    return rows.select(["database", "table", *_FACTS]).take(pa.array(at))


def _runs(rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first row of each transaction, and the number of each row's."""
    begins = np.zeros(rows.num_rows, np.bool_)
    begins[:1] = True
    for codes in (np.asarray(rows["place"]), np.asarray(rows["log"].dictionary_encode().indices)):
        begins[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(begins), np.cumsum(begins) - 1


def _tables(rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the number of each row's table, and their names."""
    database, table = rows["database"].dictionary_encode(), rows["table"].dictionary_encode()
    joined = np.asarray(database.indices).astype(np.int64) * len(table.dictionary) + np.asarray(table.indices)
    _, first, codes = np.unique(joined, return_index=True, return_inverse=True)
    return codes, [named_table(rows["database"][row].as_py(), rows["table"][row].as_py()) for row in first.tolist()]


def _counted(group: npt.NDArray[np.int64], written: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return for each row how many of its group are written, from the group's first row to itself."""
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(written[order])
    grouped = group[order]
    starts = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1]))
    before: npt.NDArray[np.int64] = sums[starts] - written[order][starts]
    found = np.empty(len(group), np.int64)
    found[order] = sums - np.repeat(before, np.diff(np.append(starts, len(group))))
    return found
