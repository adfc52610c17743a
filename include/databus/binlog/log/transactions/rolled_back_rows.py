"""Rows that their own transaction takes back: ROLLBACK, ROLLBACK TO a savepoint, and the first phase of XA.

Servers write row changes of non-transactional tables into transactions of their own (MySQL and MariaDB source,
`use_trans_cache`: with row-based logging a change goes to the transaction's cache if and only if its table is
transactional). So all rows inside a transaction that ends with ROLLBACK, or behind a savepoint that is rolled back to,
are of transactional tables, and a replica drops them all. Definition statements stay: nothing takes them back.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels import walk as w

Ints = npt.NDArray[np.int64]


class RolledBackRows:
    """The rows events of one walker's open transaction that still count; lasts between walks."""

    def __init__(self) -> None:
        self._savepoints: list[tuple[str, int]] = []
        self._transaction = -1
        self._dropped: npt.NDArray[np.bool_] | None = None
        self._earlier = 0
        self.kept: int | None = None

    def start_walk(self, earlier: int) -> None:
        """Begin a walk over the next stretch.

        Args:
            earlier: rows events of the open transaction in earlier stretches that still count.
        """
        self._dropped, self._earlier, self.kept = None, earlier, None

    def savepoint(self, name: str, transaction: Ints) -> None:
        """Set a savepoint; an older one of the same name goes.

        Args:
            name: as names are compared.
            transaction: the open transaction's line.
        """
        others = [s for s in self._of(transaction) if s[0] != name]
        self._savepoints = [*others, (name, int(transaction[w.T_ROW_EVENTS]))]

    def release(self, name: str, transaction: Ints) -> None:
        """Drop a savepoint and those set after it; an unknown one is none."""
        known = self._of(transaction)
        places = [i for i, s in enumerate(known) if s[0] == name]
        self._savepoints = known[: places[0]] if places else known

    def rollback_to(self, name: str, transaction: Ints) -> int | None:
        """Drop the savepoints set after one; returns how many rows events stand before it, None when it is unknown."""
        for place, (known, row_events) in enumerate(self._of(transaction)):
            if known == name:
                self._savepoints = self._savepoints[: place + 1]
                return row_events
        return None

    def _of(self, transaction: Ints) -> list[tuple[str, int]]:
        """Return the savepoints of the open transaction, which its start distinguishes from earlier ones."""
        if self._transaction != int(transaction[w.T_START]):
            self._transaction, self._savepoints = int(transaction[w.T_START]), []
        return self._savepoints

    def drop(self, first: int, state: Ints, transactions: Ints, rows: Ints) -> Ints:
        """Take back the open transaction's rows events from number `first` on; returns their lines in this stretch."""
        count, transaction = int(state[w.S_EVENTS]), int(state[w.S_TRANSACTIONS])
        if self._dropped is None:
            self._dropped = np.zeros(len(rows), np.bool_)
        begin = int(np.searchsorted(rows[:count, w.R_TRANSACTION], transaction))
        standing = begin + np.flatnonzero(~self._dropped[begin:count] & (rows[begin:count, w.R_SLOT] >= 0))
        before = self._earlier if transaction == 0 else 0
        gone = standing[max(0, first - before) :]
        self._dropped[gone] = True
        if first < before:
            self._earlier = self.kept = first
        transactions[transaction, w.T_ROW_EVENTS] = first
        return rows[gone].copy()

    def places(self, count: int) -> tuple[npt.NDArray[np.bool_], Ints] | None:
        """Return which of the stretch's lines stand, and each line's place among those; None when all do."""
        if self._dropped is None or not self._dropped[:count].any():
            return None
        standing = ~self._dropped[:count]
        return standing, np.cumsum(standing) - 1
