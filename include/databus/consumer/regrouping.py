"""Regrouping of the source's transactions from the partitions that their rows are spread over (ADR 80).

Pure: records and a clock go in, transactions come out. A transaction is complete when END is there and as many rows as
END counts. They come out in the order of their ENDs, and in each partition in the order of its records: so a checkpoint
is one offset for each partition, behind all transactions that came out and before all that did not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from databus.consumer.change import Change, Place, Transaction
from databus.consumer.messages import TransactionMark
from databus.consumer.spill import ChangeList, SpillRoom

_PAGE = 512
"""Numbers of a page of bits."""


class Numbers:
    """Set of whole numbers, small where they are dense."""

    def __init__(self) -> None:
        self._bits: dict[int, bytearray] = {}
        self.count = 0

    def add(self, number: int) -> bool:
        """Add a number; return whether it was not there."""
        page, place = divmod(number, _PAGE)
        bits = self._bits.get(page)
        if bits is None:
            bits = self._bits[page] = bytearray(_PAGE // 8)
        byte, bit = place >> 3, 1 << (place & 7)
        if bits[byte] & bit:
            return False
        bits[byte] |= bit
        self.count += 1
        return True


@dataclass(eq=False)
class _Unit:
    """Transaction that is being put together, or a change that belongs to none.

    Attributes:
        id: of the transaction; "" of a change alone.
        changes: its changes that filters let pass.
        since: time of its first record.
        rows: orders of its rows.
        end: END, once it has come.
        places: partitions that have records of it.
        out: whether it has come out.
    """

    id: str
    changes: ChangeList
    since: float
    rows: Numbers = field(default_factory=Numbers)
    end: TransactionMark | None = None
    places: set[Place] = field(default_factory=set)
    out: bool = False

    @property
    def whole(self) -> bool:
        """True where all that END counts is there; a change alone always is whole."""
        return not self.id or (self.end is not None and self.rows.count >= self.end.event_count)


class Regrouper:
    """Takes records in the order of each partition, and gives transactions.

    Args:
        patience_s: seconds that what is missing of a transaction is waited for, from its first record on; longer as
            long as a partition was not read to its end since.
        room: where changes are kept until then.
    """

    def __init__(self, patience_s: float, room: SpillRoom):
        self._patience, self._room = patience_s, room
        self._open: dict[str, _Unit] = {}
        self._ends: deque[_Unit] = deque()
        self._queues: dict[Place, deque[tuple[int, _Unit]]] = {}
        self._now = self._settled = 0.0

    @property
    def waiting(self) -> int:
        """Transactions of which something is missing."""
        return len(self._open)

    def take(
        self, item: Change | TransactionMark, place: Place, offset: int, now: float, *, wanted: bool = True
    ) -> None:
        """Take a record.

        Args:
            item: what it says.
            place: its partition.
            offset: its offset.
            now: seconds of a clock that never goes back.
            wanted: whether filters let the change pass; it counts in any case.
        """
        name = item.id if isinstance(item, TransactionMark) else item.transaction
        unit = self._open.get(name)
        if unit is None:
            unit = _Unit(name, self._room.new(), now)
            if name:
                self._open[name] = unit
        queue = self._queues.setdefault(place, deque())
        if not queue or queue[-1][1] is not unit:
            queue.append((offset, unit))
        unit.places.add(place)
        if isinstance(item, TransactionMark):
            if item.ends:
                if unit.end is None:
                    self._ends.append(unit)
                unit.end = item
        elif unit.rows.add(item.order) and wanted:
            unit.changes.add(item.order, item)

    def ready(self, now: float, settled: float) -> Iterator[Transaction]:
        """Yield what is complete, or was waited for long enough; each has come out when it is yielded.

        Args:
            now: time of the same clock.
            settled: latest time at which each partition has been read to its end.
        """
        self._now, self._settled = now, settled
        while (unit := self._next()) is not None:
            self._let_out(unit)
            unit.changes.finish()
            made = _transaction(unit, now)
            if made.changes or not made.complete:
                yield made

    def committable(self, place: Place, read: int) -> int:
        """Return the offset from which a partition is read again: that of the first record that did not come out.

        Args:
            place: the partition.
            read: offset behind what was taken of it.
        """
        queue = self._queues.get(place)
        return queue[0][0] if queue else read

    def forget(self) -> None:
        """Forget everything that has not come out: it is read again."""
        for unit in {id(unit): unit for queue in self._queues.values() for _, unit in queue}.values():
            unit.changes.finish()
        self._open.clear()
        self._ends.clear()
        self._queues.clear()

    def _next(self) -> _Unit | None:
        for queue in self._queues.values():
            if queue and not queue[0][1].id:
                return queue[0][1]
        if self._ends and (found := self._first_of(self._ends[0])) is not None:
            return found
        oldest = next(iter(self._open.values()), None)
        if oldest is not None and oldest.end is None and self._given_up(oldest):
            return self._first_of(oldest)
        return None

    def _first_of(self, unit: _Unit) -> _Unit | None:
        """Return a unit, or what has to come out before it; None where that, or the unit, is waited for.

        Where each of several waits for another (a backfill beside the live flow), the first one comes out.
        """
        passed: set[int] = set()
        while id(unit) not in passed:
            if not (unit.whole or self._given_up(unit)):
                return None
            passed.add(id(unit))
            before = next((first for first in map(self._head, unit.places) if first is not unit), None)
            if before is None:
                return unit
            unit = before
        return unit

    def _head(self, place: Place) -> _Unit:
        return self._queues[place][0][1]

    def _given_up(self, unit: _Unit) -> bool:
        return self._now - unit.since >= self._patience and self._settled >= unit.since

    def _let_out(self, unit: _Unit) -> None:
        unit.out = True
        if unit.id:
            del self._open[unit.id]
        if unit.end is not None:
            self._ends.remove(unit)
        for place in unit.places:
            queue = self._queues[place]
            while queue and queue[0][1].out:
                queue.popleft()
            if not queue:
                del self._queues[place]


def _transaction(unit: _Unit, now: float) -> Transaction:
    if not unit.id:
        return Transaction("", unit.changes, complete=True, ts_ms=unit.changes[0].ts_ms if unit.changes else None)
    rows, end = unit.rows.count, unit.end
    if end is None:
        why = f"END did not come in {now - unit.since:.0f} s"
        ts_ms = unit.changes[0].ts_ms if unit.changes else None
        return Transaction(unit.id, unit.changes, complete=False, why=why, ts_ms=ts_ms)
    why = ""
    if rows < end.event_count:
        why = f"{rows} of {end.event_count} rows came in {now - unit.since:.0f} s"
    elif end.quarantined:
        why = f"checks of the flow hold {end.quarantined} of its rows back"
    return Transaction(unit.id, unit.changes, not why, why, end.ts_ms, end.event_count, end.quarantined)
