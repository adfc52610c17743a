"""Windows between two snapshots of PostgreSQL: which transactions they have, in which order.

Transactions of a window come by their highest number. Two that change one row do so one after the other: the second one
waits for the first one's end, and takes its number, the highest one at least, after that. So a row's changes come in
their order, within a window and over windows, and no transaction is cut. (SkyTools' PgQ has batches of this kind.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from databus.core.errors.source import SourceDivergedError
from databus.core.positions.offsets import Offset, Ordering, offset_of
from databus.core.positions.pg_snapshot import PgSnapshot, PgSnapshotOffset

LAST = 2**63 - 1


@dataclass(frozen=True)
class SnapshotWindow:
    """Transactions that `upper` sees and `lower` does not, with a highest number in (after, until].

    Attributes:
        lower: snapshot that was read before.
        upper: snapshot to read.
        after: highest number of the last transaction that was read of the window; 0 for none.
        until: highest number of the last transaction to read.
    """

    lower: PgSnapshot
    upper: PgSnapshot
    after: int = 0
    until: int = LAST

    def has(self, transaction: int) -> bool:
        """Return whether a transaction is new to `upper`."""
        return self.upper.sees(transaction) and not self.lower.sees(transaction)

    def offset(self, number: int) -> PgSnapshotOffset:
        """Return the place behind a transaction, by its highest number."""
        return PgSnapshotOffset(str(self.lower), str(self.upper), number)

    def ordered(self, rows: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Return (highest number, number, transaction) of the window's rows, (number, transaction), in their order."""
        mine = [(number, transaction) for number, transaction in rows if self.has(transaction)]
        highest: dict[int, int] = {}
        for number, transaction in mine:
            highest[transaction] = max(number, highest.get(transaction, 0))
        placed = sorted((highest[transaction], number, transaction) for number, transaction in mine)
        return [row for row in placed if self.after < row[0] <= self.until]


def windows(start: Offset, end: Offset) -> Iterator[SnapshotWindow]:
    """Yield the windows of (start, end], in their order: one, or two where `start` lies inside of one.

    Raises:
        OffsetInvalidError: an offset of another kind.
        SourceDivergedError: the two are not of one history, or not in this order.
    """
    first, last = snapshot_offset(start), snapshot_offset(end)
    if (first.seen, first.within) == (last.seen, last.within) and first.within:
        yield SnapshotWindow(first.lower, first.upper, first.number, last.number)
        return
    if first.compare(last) not in (Ordering.BEFORE, Ordering.EQUAL):
        raise SourceDivergedError(f"{start} is not before {end}", hint="Both have to be of one server's history.")
    if first.within:
        yield SnapshotWindow(first.lower, first.upper, first.number)
    if first.upper != last.lower:
        yield SnapshotWindow(first.upper, last.lower)
    if last.within:
        yield SnapshotWindow(last.lower, last.upper, 0, last.number)


def snapshot_offset(offset: Offset) -> PgSnapshotOffset:
    """Return an offset of this kind.

    Raises:
        OffsetInvalidError: it is of another kind.
    """
    hint = "The checkpoint is of another source: reset it, or give the flow another name."
    return offset_of(PgSnapshotOffset, offset, "a PostgreSQL table", hint)
