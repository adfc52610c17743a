"""The open mock source: offsets are transaction numbers, and any read of a range gives the same rows."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from databus.core.batching import Batching
from databus.core.errors.source import OffsetInvalidError, SourceError
from databus.core.events import Op
from databus.core.findings import Finding, Level
from databus.core.flow_context import FlowContext
from databus.core.positions.lag import Lag
from databus.core.positions.offsets import Offset, OffsetRange, SequenceOffset, offset_of
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.sources.mock.faults import Faults
from databus.sources.mock.log import log_of
from databus.sources.mock.spec import Mock
from databus.sources.mock.split import MockSplit

__all__ = ["MockSource", "MockSplit"]

_LONGEST_NAP_S = 1.0


class MockSource:
    """An open mock source.

    Args:
        spec: the source.
        context: its flow; None for none.
    """

    def __init__(self, spec: Mock, context: FlowContext | None = None):
        self._spec, self._log = spec, log_of(spec)
        self._faults = Faults(self._log, context, head=self._head)

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Find nothing wrong, but for a start past the end, or at a fault of the script."""
        if start is not None and _number(start) > self._head():
            message = f"{start} is past the end of the log, {self._head()}"
            return [Finding("mock: start", Level.ERROR, message, "Use start=earliest.", OffsetInvalidError.code)]
        try:
            if start is not None:
                self._faults.check(_number(start))
        except SourceError as error:
            return [Finding("mock: start", Level.ERROR, error.message, error.hint, error.code)]
        return [Finding("mock", Level.OK, "made-up rows need no server")]

    def start_offset(self) -> Offset:
        """Return the offset that `start` names."""
        return self.earliest_offset() if self._spec.start == "earliest" else self.latest_offset()

    def earliest_offset(self) -> Offset:
        """Return 0, or the end of what is gone from the beginning."""
        return SequenceOffset(self._faults.earliest)

    def latest_offset(self) -> Offset:
        """Return the number of the last transaction that is there."""
        return SequenceOffset(self._head())

    def offset_at(self, when: datetime) -> Offset:
        """Return the last transaction that committed before `when`.

        Raises:
            OffsetPurgedError: the log behind it is gone, by the script.
        """
        found = min(self._log.committed_before(when.timestamp() * 1000), self._head())
        if found < self._head():
            self._faults.check(found)
        return SequenceOffset(found)

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Return the next range; waits up to `limit.max_seconds` for a transaction when the source has a rate.

        In front of a gap it waits for the gap's end: a place past the end of the log could not be gone on from.

        Raises:
            OffsetInvalidError: `after` is past the end of the log.
            OffsetPurgedError, SourceUnavailableError: by the script.
        """
        start = _number(after)
        if start > self._head():
            raise OffsetInvalidError(f"mock: {after} is past the end of the log, {self._head()}")
        deadline = time.monotonic() + limit.max_seconds
        awaited = self._faults.next_readable(start)
        while (head := self._head()) < awaited:
            left = deadline - time.monotonic()
            if left <= 0 or start == self._log.last:
                return None
            time.sleep(max(0.001, min(left, _LONGEST_NAP_S, self._log.commit_ms(awaited) / 1000 - time.time())))
        self._faults.meet(start)
        per = self._spec.rows_per_transaction
        most = max(1, min(math.ceil(limit.max_rows / per), limit.max_bytes // (per * self._spec.row_bytes)))
        end = self._faults.cut(start, min(head, start + most))
        return self._describe(OffsetRange(after, SequenceOffset(end)))

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range again.

        Raises:
            OffsetInvalidError: it is past the end of the log.
            OffsetPurgedError, SourceUnavailableError: by the script.
        """
        if _number(planned.end) > self._head():
            raise OffsetInvalidError(f"mock: {planned.end} is past the end of the log, {self._head()}")
        self._faults.meet(_number(planned.start), _number(planned.end))
        return self._describe(planned)

    def splits(self, plan: SourcePlan, count: int) -> Sequence[MockSplit]:
        """Cut the range into equal pieces; a fault of the script is met by the piece that has its row."""
        first, last = _number(plan.range.start) + 1, _number(plan.range.end)
        bounds = np.linspace(first, last + 1, min(max(1, count), last + 1 - first) + 1).astype(int).tolist()
        options, faults = self._spec.stored(), self._faults.of_attempt(first, last)
        return [
            MockSplit(options, a, b - 1, (first, last), tuple(each for each in faults if a <= each.number < b))
            for a, b in itertools.pairwise(bounds)
        ]

    def discard(self, plan: SourcePlan) -> None:
        """Discard nothing: no range is staged."""

    def release(self, plan: SourcePlan) -> None:
        """Release nothing: no range is staged."""

    def lag(self, committed: Offset) -> Lag:
        """Measure by counting; a row counts as 100 bytes and its `sizes`.

        Raises:
            OffsetPurgedError, SourceUnavailableError: by the script.
        """
        number, head = _number(committed), self._head()
        now = datetime.now(UTC)
        if number == head:
            return Lag(0, 0.0, str(head), now)
        self._faults.check(number)
        rows = self._log.rows_until(head) - self._log.rows_until(number)
        seconds = max(0.0, (now - self._commit_at(number + 1)).total_seconds())
        return Lag(rows * self._spec.row_bytes, seconds, str(head), now)

    def headroom(self, committed: Offset) -> None:
        """Return None: rows are made up at every read."""

    def close(self) -> None:
        """Close nothing: no connection is open."""

    def _describe(self, planned: OffsetRange) -> SourcePlan:
        log, first, last = self._log, _number(planned.start) + 1, _number(planned.end)
        rows = log.rows_until(last) - log.rows_until(first - 1)
        versions, statements = log.planned(first, last), log.stated_between(first, last)
        named = [(Op.DDL.value, _without_columns(each.table)) for _, each in statements]
        return SourcePlan(
            planned,
            tuple(each.schema for each in versions),
            rows,
            rows * self._spec.row_bytes,
            self._commit_at(first),
            self._commit_at(last),
            more=last < self._head(),
            statements=len(statements),
            named=tuple(dict.fromkeys(named)),
            columns_renamed=tuple((each.table, each.renamed) for _, each in statements if each.renamed),
            table_changes=log.table_changes(first, last),
            rows_before=tuple(each.rows_before for each in versions),
            columns_moved=log.moved_columns(first, last),
        )

    def _commit_at(self, number: int) -> datetime:
        return datetime.fromtimestamp(self._log.commit_ms(number) / 1000, UTC)

    def _head(self) -> int:
        if self._spec.rows_per_second is None and not self._spec.phases:
            return self._log.last
        return self._log.committed_before(time.time() * 1000 + 1)


def _without_columns(name: str) -> TableSchema:
    database, _, table = name.partition(".")
    return TableSchema(-1, database, table, ())


def _number(offset: Offset) -> int:
    return offset_of(SequenceOffset, offset, "a sequence", "Reset the checkpoint.", "mock").sequence
