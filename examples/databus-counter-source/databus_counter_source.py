"""Source `counter`: the numbers 1, 2, 3, … as inserts of one table, so many each second."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from pydantic import AwareDatetime, Field

from databus.extend import Offset, RowChange, SequenceOffset, SimpleSource, Table


class CounterSource(SimpleSource):
    """Numbers from 1 on: per_second (10), since (2026-01-01), last (None: it counts for ever)."""

    kind: ClassVar[str] = "counter"
    tables: ClassVar[tuple[Table, ...]] = (Table("demo.numbers", {"n": "bigint", "square": "varchar"}, key=("n",)),)

    per_second: float = Field(10, gt=0)
    since: AwareDatetime = datetime(2026, 1, 1, tzinfo=UTC)
    last: int | None = Field(None, ge=0)

    def head(self) -> SequenceOffset:
        counted = max(0, int((datetime.now(UTC) - self.since).total_seconds() * self.per_second))
        return SequenceOffset(counted if self.last is None else min(counted, self.last))

    def read(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        for n in range(self.place_of(start) + 1, self.place_of(end) + 1):
            row = {"n": n, "square": str(n * n)}
            yield RowChange(SequenceOffset(n), "demo.numbers", self._counted_at(n), after=row)

    def offset_at(self, when: datetime) -> SequenceOffset:
        before = max(0, int((when - self.since).total_seconds() * self.per_second))
        while before and self._counted_at(before) >= when:
            before -= 1
        return SequenceOffset(min(before, self.head().sequence))

    def _counted_at(self, n: int) -> datetime:
        return self.since + timedelta(seconds=n / self.per_second)
