"""Log of a table that is read by number, up to the highest one that is decided."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from databus.core.errors.source import LateNumberError, OffsetInvalidError, SourceUnavailableError
from databus.core.positions.offsets import Offset, OffsetRange, Ordering, SequenceOffset, offset_of
from databus.sources.sequence_table.columns import utc
from databus.sources.sequence_table.database import SqlDatabase
from databus.sources.sequence_table.log import ROWS_AT_ONCE, TableLog
from databus.sources.simple import RowChange

if TYPE_CHECKING:
    from databus.sources.sequence_table.spec import SequenceTable

_WAIT_S, _POLL_S = 60.0, 0.05
_WATCHED_ROWS = 50_000


class NumberedLog(TableLog):
    """See `TableLog`. Its offsets are numbers."""

    def __init__(self, spec: SequenceTable, database: SqlDatabase, reader: str):
        super().__init__(spec, database, reader)
        self._watched: deque[tuple[OffsetRange, int]] = deque()

    @abstractmethod
    def decided(self) -> int | None:
        """Look once, and return the highest decided number; None where none is known yet."""

    def reached(self) -> int:
        """Return the highest number that is, or was, there."""
        newest = self._one(sa.select(sa.func.max(self.number)).select_from(self.source)) or 0
        mark = self._mark()
        return max(newest, _number(mark)) if mark is not None else int(newest)

    def head(self) -> SequenceOffset:
        """Return the highest number that is there now, once it is decided; blocks until then, for a minute at most."""
        deadline = time.monotonic() + max(_WAIT_S, 3 * (self.spec.lag_window_s or 0))
        wanted = self.reached()
        while (number := self.decided()) is None or number < wanted:
            if time.monotonic() > deadline:
                raise SourceUnavailableError(
                    f"{self.spec.conn_id}: {self.spec.table} is not decided up to {wanted}: a transaction that writes "
                    "to it is still open",
                    hint="Try again once it has ended, or end it.",
                )
            time.sleep(_POLL_S)
        return SequenceOffset(number)

    def earliest(self) -> Offset:
        """Return the place before all rows that were not cleaned."""
        return self._mark() or SequenceOffset(0)

    def end_after(self, place: Offset) -> Offset | None:
        """Return the highest decided number where it lies behind a place."""
        number = self.decided()
        if number is None or number <= _number(place):
            self.require_there(place)
            return None
        self._require_none_late(place)
        return SequenceOffset(number)

    def require_there(self, place: Offset) -> None:
        """Refuse a number that was never reached: numbers begin again, or it is another table."""
        if (number := _number(place)) > (there := self.reached()):
            raise OffsetInvalidError(
                f"{self.spec.conn_id}: {self.spec.table} has come to {there}, the flow has read up to {number}",
                hint="Numbers begin again (TRUNCATE, a restored copy), rows were deleted by hand, or it is another "
                "table: begin anew by a flow of another name, or let later numbers begin behind that one.",
            )

    def first_behind(self, place: Offset) -> datetime | None:
        """Return the time of the first row behind a place, decided or not."""
        first = (
            sa.select(self._selected()[1])
            .select_from(self.source)
            .where(self.number > _number(place))
            .order_by(self.number)
            .limit(1)
        )
        found = self._one(first)
        return None if found is None else utc(found)

    def clean(self, planned: OffsetRange, rows: int) -> None:
        """Delete a range, and those before it that were noted; not where it has more rows than were read."""
        end = _number(planned.end)
        known = [each for each in self._watched if _number(each[0].end) <= end]
        if not known or _number(known[-1][0].end) != end:
            known = [(planned, rows)]
        cleaned, read = OffsetRange(known[0][0].start, planned.end), sum(count for _, count in known)
        with self.database.session(writes=True) as session:
            if not self.marks.advance(session, planned.end):
                return
            deleted = session.execute(sa.delete(self.source).where(self._within(cleaned))).rowcount
            if not 0 <= deleted <= read:
                raise self._late(deleted - read, cleaned)
        following = [each for each in self._watched if _number(each[0].start) >= end]
        self._watched = deque([(cleaned, 0)])
        if following and _number(following[0][0].start) == end:
            self._watched.extend(following)

    def noted(self, read: OffsetRange, rows: int) -> None:
        """Note a range and how many rows it has, in the place of those that were planned from there on."""
        while self._watched and _number(self._watched[-1][0].start) >= _number(read.start):
            self._watched.pop()
        if self._watched and self._watched[-1][0].end.compare(read.start) is not Ordering.EQUAL:
            self._watched.clear()
        self._watched.append((read, rows))
        while len(self._watched) > 1 and sum(count for _, count in self._watched) > _WATCHED_ROWS:
            self._watched.popleft()

    def _require_none_late(self, place: Offset) -> None:
        """Count the ranges before a place again: what came since had a number outside of the rule."""
        before = [each for each in self._watched if _number(each[0].end) <= _number(place)]
        cleaned = [each for each in before if not each[1]]
        for group in (cleaned, before[len(cleaned) :]):
            if not group:
                continue
            counted = OffsetRange(group[0][0].start, group[-1][0].end)
            there = self._one(sa.select(sa.func.count()).select_from(self.source).where(self._within(counted)))
            if (more := there - sum(count for _, count in group)) > 0:
                raise self._late(more, counted, gone=group is cleaned)

    def _late(self, rows: int, of: OffsetRange, *, gone: bool = False) -> LateNumberError:
        deliver = (
            f"Insert them again under new numbers, and delete those up to {of.end}: the other rows of that range were "
            "cleaned, and it cannot be read again. "
            if gone
            else f"Rewind the flow to {of.start} to deliver them; the other rows of that range come again. "
        )
        return LateNumberError(
            f"{self.spec.conn_id}: {rows} rows came into {self.spec.table} with a {self.spec.number} in "
            f"({of.start}, {of.end}] after the flow had read it",
            hint=f"{deliver}Let the statement that inserts take the number, or make `lag_window` longer.",
        )

    def _within(self, read: OffsetRange) -> Any:
        return (self.number > _number(read.start)) & (self.number <= _number(read.end))

    def _rows(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        after, last = _number(start), _number(end)
        while after < last:
            page = (
                sa.select(*self._selected())
                .select_from(self.source)
                .where(self.number > after, self.number <= last)
                .order_by(self.number)
                .limit(ROWS_AT_ONCE)
            )
            with self.database.session() as session:
                found = session.execute(page).mappings().all()
            for row in found:
                after = int(row["row_number_"])
                yield self._change(row, SequenceOffset(after))
            if len(found) < ROWS_AT_ONCE:
                return


class AgedLog(NumberedLog):
    """See `NumberedLog`: a number is decided when its row, or one behind it, is older than two `lag_window`s.

    A row's time may be that of its transaction's beginning. Its number was taken at most one window later, and who took
    a smaller one before that has ended another window later.
    """

    def decided(self) -> int:
        """See `NumberedLog.decided`. Younger rows are passed from the highest number down, until an older one."""
        kind = self.columns.types.get(self.spec.time)
        # Where the server's clock has no zone it may be a local one.
        now = min(datetime.now(UTC), utc(self._one(sa.select(sa.func.current_timestamp()))))
        until = now - timedelta(seconds=2 * (self.spec.lag_window_s or 0.0))
        old = sa.column(self.spec.time, kind) <= (
            until if getattr(kind, "timezone", False) else until.replace(tzinfo=None)
        )
        newest = sa.select(self.number).select_from(self.source).where(old).order_by(self.number.desc()).limit(1)
        found, mark = self._one(newest) or 0, self._mark()
        return int(found) if mark is None else max(int(found), _number(mark))


def _number(offset: Offset) -> int:
    hint = "The checkpoint is of another source, or of another way to read it: reset it, or give the flow another name."
    return offset_of(SequenceOffset, offset, "a table that is read by number", hint).sequence
