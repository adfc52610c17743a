"""Open simple source: plans by reading ahead, one split per range."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from databus.core.batching import Batching
from databus.core.errors.root import DatabusError
from databus.core.errors.source import DecodeError, OffsetInvalidError
from databus.core.findings import Finding, Level
from databus.core.positions.lag import Lag
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.state.plan import SourcePlan
from databus.sources.simple import RowChange, SimpleSource
from databus.sources.split_rows import SplitRows

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.image_form import ImageForm

_CHANGES_AT_ONCE = 10_000
_EVERYTHING = Batching(max_rows=2**62, max_bytes=2**62)


@dataclass(frozen=True)
class SimpleSplit(SplitRows):
    """A whole planned range of a simple source.

    Attributes:
        source: the source, with its connection; neither is printed.
        range: the range.
        rows: changes that were planned.
    """

    source: SimpleSource
    range: OffsetRange
    rows: int

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        from databus.sources.simple_rows import RowMaker

        maker = RowMaker(self.source.tables_read(), self.source.log_name(), self.source.conn_id or self.source.kind)
        found = 0
        pending: list[tuple[int, RowChange]] = []
        for transaction in transactions(self.source, self.range):
            found += len(transaction)
            place = self.source.place_of(transaction[0].offset)
            pending += [(place, change) for change in transaction]
            if len(pending) >= _CHANGES_AT_ONCE:
                yield from maker.rows(pending, form)
                pending = []
        if pending:
            yield from maker.rows(pending, form)
        if found != self.rows:
            raise DecodeError(
                f"source {self.source.kind} gave {found} changes of {self.range}, planned were {self.rows}",
                hint="`read` has to give the same changes for the same range at every call.",
            )


def transactions(source: SimpleSource, wanted: OffsetRange) -> Iterator[list[RowChange]]:
    """Yield the changes of a range by transaction.

    Raises:
        DecodeError: changes outside the range, or out of order.
    """
    together: list[RowChange] = []
    last, rising = wanted.start, (Ordering.BEFORE, Ordering.EQUAL)
    for change in source.read(wanted.start, wanted.end):
        same = bool(together) and last.compare(change.offset) is Ordering.EQUAL
        if not same and last.compare(change.offset) is not Ordering.BEFORE:
            raise DecodeError(f"source {source.kind} gave a change at {change.offset} behind {last}, reading {wanted}")
        if change.offset.compare(wanted.end) not in rising:
            raise DecodeError(f"source {source.kind} gave a change at {change.offset}, reading {wanted}")
        if together and not same:
            yield together
            together = []
        together.append(change)
        last = change.offset
    if together:
        yield together


class OpenSimpleSource:
    """An open simple source."""

    def __init__(self, spec: SimpleSource):
        self._spec = spec

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Ask for the head, and compare it with the start."""
        try:
            head = self._spec.head()
            self._spec.place_of(head)
            if start is not None:
                self._require_reached(start, head)
        except DatabusError as error:
            return [Finding.of(self._spec.label(), error)]
        return [Finding(self._spec.label(), Level.OK, f"answers; its head is {head}")]

    def start_offset(self) -> Offset:
        """Return the offset that `start` names."""
        return self.earliest_offset() if self._spec.start == "earliest" else self.latest_offset()

    def earliest_offset(self) -> Offset:
        """Return the offset before everything that is there."""
        return self._spec.earliest()

    def latest_offset(self) -> Offset:
        """Return the head."""
        return self._spec.head()

    def offset_at(self, when: datetime) -> Offset:
        """Return the offset of a time, where the source's class gives it."""
        return self._spec.offset_at(when)

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Return the next range, counted by reading it; looks at the head until `limit.max_seconds` are over."""
        deadline = time.monotonic() + limit.max_seconds
        while (head := self._reached(after)).compare(after) is Ordering.EQUAL:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(left, self._spec.poll_interval_s))
        return self._describe(OffsetRange(after, head), limit)

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range by reading it again."""
        self._reached(planned.end)
        return self._describe(planned, _EVERYTHING)

    def splits(self, plan: SourcePlan, count: int) -> Sequence[SimpleSplit]:  # noqa: ARG002 - there is one
        """Return one split: the order of the log is that of one reader."""
        return [SimpleSplit(self._spec, plan.range, plan.rows)]

    def discard(self, plan: SourcePlan) -> None:
        """Discard nothing: no range is staged."""

    def release(self, plan: SourcePlan) -> None:
        """Release nothing: no range is staged."""

    def lag(self, committed: Offset) -> Lag:
        """Measure the age of the first change behind a place; bytes are not known, but 0 at the head."""
        head, now = self._spec.head(), datetime.now(UTC)
        if head.compare(committed) is not Ordering.AFTER:
            return Lag(0, 0.0, str(head), now)
        first = next(iter(self._spec.read(committed, head)), None)
        seconds = None if first is None else max(0.0, (now - first.committed_at).total_seconds())
        return Lag(None, seconds, str(head), now)

    def headroom(self, committed: Offset) -> None:
        """Return None: what the log deletes is not known."""

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _reached(self, place: Offset) -> Offset:
        head = self._spec.head()
        self._require_reached(place, head)
        return head

    def _require_reached(self, place: Offset, head: Offset) -> None:
        if head.compare(place) not in (Ordering.EQUAL, Ordering.AFTER):
            raise OffsetInvalidError(f"{self._spec.kind}: {place} is past the end of the log, {head}")

    def _describe(self, wanted: OffsetRange, limit: Batching) -> SourcePlan:
        rows = size = 0
        first: datetime | None = None
        newest: datetime | None = None
        reached, more = wanted.end, False
        for transaction in transactions(self._spec, wanted):
            if rows and (rows + len(transaction) > limit.max_rows or size >= limit.max_bytes):
                more = True
                break
            reached = transaction[-1].offset
            rows += len(transaction)
            size += sum(change.size for change in transaction)
            first = first or transaction[0].committed_at
            newest = max(newest or first, *(change.committed_at for change in transaction))
        tables = tuple(table.schema(number) for number, table in enumerate(self._spec.tables_read()))
        end = reached if more else wanted.end
        return SourcePlan(OffsetRange(wanted.start, end), tables, rows, size, first, newest, more=more)
