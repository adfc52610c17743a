"""The open mock source: offsets are transaction numbers, and any read of a range gives the same rows."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from databus.core.batching import Batching
from databus.core.errors.source import OffsetInvalidError
from databus.core.findings import Finding, Level
from databus.core.positions.lag import Lag
from databus.core.positions.offsets import Offset, OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.sources.mock.rows import commit_ms, mock_tables, transactions
from databus.sources.mock.spec import Mock
from databus.sources.split_rows import SplitRows

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.image_form import ImageForm

SERVER = "mock"
_BATCH_ROWS = 20_000
_ROW_BYTES = 100
_ENDLESS = 2**62


@dataclass(frozen=True)
class MockSplit(SplitRows):
    """Transactions first … last, both inclusive, of a mock source.

    Attributes:
        options: the spec as JSON.
        first: number of the first transaction.
        last: number of the last transaction.
    """

    options: dict[str, Any]
    first: int
    last: int

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from databus.rows.emit import emit

        spec = Mock(**self.options)
        tables = mock_tables(spec.tables, spec.columns, spec.seed, spec.null_ratio)
        step = max(1, _BATCH_ROWS // spec.rows_per_transaction)
        for start in range(self.first, self.last + 1, step):
            stop = min(self.last, start + step - 1)
            log = transactions(start, stop, *_timing(spec))
            numbers = np.arange(
                (start - 1) * spec.rows_per_transaction, stop * spec.rows_per_transaction, dtype=np.int64
            )
            if spec.rows is not None:
                numbers = numbers[numbers < spec.rows]
            of = numbers // spec.rows_per_transaction
            pieces: list[pa.RecordBatch] = []
            for place, table in enumerate(tables):
                mine = numbers % len(tables) == place
                batch = table.batch(
                    numbers[mine] // len(tables),
                    (of[mine] - (start - 1)).astype(np.int32),
                    numbers[mine] % spec.rows_per_transaction,
                )
                pieces.extend(emit(batch, log, SERVER, form) if len(batch) else ())
            if len(pieces) == 1:
                yield pieces[0]
            elif pieces:
                merged = pa.Table.from_batches(pieces)
                order = np.lexsort([merged[c].to_numpy() for c in ("part", "ordinal", "place")])
                yield from merged.take(pa.array(order)).combine_chunks().to_batches()


class MockSource:
    """An open mock source."""

    def __init__(self, spec: Mock):
        self._spec = spec

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Find nothing wrong, but for a start past the end."""
        if start is not None and _number(start) > self._head():
            message = f"{start} is past the end of the log, {self._head()}"
            return [Finding("mock: start", Level.ERROR, message, "Use start=earliest.", OffsetInvalidError.code)]
        return [Finding("mock", Level.OK, "made-up rows need no server")]

    def start_offset(self) -> Offset:
        """Return the offset that `start` names."""
        return self.earliest_offset() if self._spec.start == "earliest" else self.latest_offset()

    def earliest_offset(self) -> Offset:
        """Return 0."""
        return SequenceOffset(0)

    def latest_offset(self) -> Offset:
        """Return the number of the last transaction that is there."""
        return SequenceOffset(self._head())

    def offset_at(self, when: datetime) -> Offset:
        """Return the last transaction that committed before `when`."""
        since_ms, step_ms = _timing(self._spec)
        before = math.ceil((when.timestamp() * 1000 - since_ms) / step_ms) - 1
        return SequenceOffset(max(0, min(before, self._head())))

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Return the next range; waits up to `limit.max_seconds` for a transaction when the source has a rate."""
        start = _number(after)
        if start > self._head():
            raise OffsetInvalidError(f"mock: {after} is past the end of the log, {self._head()}")
        deadline = time.monotonic() + limit.max_seconds
        while (head := self._head()) == start:
            left = deadline - time.monotonic()
            if left <= 0 or self._ended(head):
                return None
            time.sleep(min(left, _timing(self._spec)[1] / 1000))
        per = self._spec.rows_per_transaction
        most = max(1, min(math.ceil(limit.max_rows / per), limit.max_bytes // (per * _ROW_BYTES)))
        return self._describe(OffsetRange(after, SequenceOffset(min(head, start + most))))

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range again."""
        if _number(planned.end) > self._head():
            raise OffsetInvalidError(f"mock: {planned.end} is past the end of the log, {self._head()}")
        return self._describe(planned)

    def splits(self, plan: SourcePlan, count: int) -> Sequence[MockSplit]:
        """Cut the range into equal pieces."""
        first, last = _number(plan.range.start) + 1, _number(plan.range.end)
        bounds = np.linspace(first, last + 1, min(max(1, count), last + 1 - first) + 1).astype(int)
        options = {k: v for k, v in self._spec.to_json().items() if k != "kind"}
        return [MockSplit(options, int(a), int(b) - 1) for a, b in itertools.pairwise(bounds)]

    def discard(self, plan: SourcePlan) -> None:
        """Discard nothing: no range is staged."""

    def release(self, plan: SourcePlan) -> None:
        """Release nothing: no range is staged."""

    def lag(self, committed: Offset) -> Lag:
        """Measure by counting; a transaction counts as its rows times 100 bytes."""
        number, head = _number(committed), self._head()
        behind = head - number
        now = datetime.now(UTC)
        oldest = self._commit_at(number + 1)
        seconds = max(0.0, (now - oldest).total_seconds()) if behind else 0.0
        return Lag(behind * self._spec.rows_per_transaction * _ROW_BYTES, seconds, str(head), now)

    def headroom(self, committed: Offset) -> None:
        """Return None: rows are made up at every read."""

    def close(self) -> None:
        """Close nothing: no connection is open."""

    def _describe(self, planned: OffsetRange) -> SourcePlan:
        first, last = _number(planned.start) + 1, _number(planned.end)
        rows = (last + 1 - first) * self._spec.rows_per_transaction
        if self._spec.rows is not None:
            rows = min(rows, self._spec.rows - (first - 1) * self._spec.rows_per_transaction)
        tables = mock_tables(self._spec.tables, self._spec.columns, self._spec.seed, self._spec.null_ratio)
        return SourcePlan(
            planned,
            tuple(t.schema for t in tables),
            rows,
            rows * _ROW_BYTES,
            self._commit_at(first),
            self._commit_at(last),
            more=last < self._head(),
        )

    def _commit_at(self, number: int) -> datetime:
        stamp = int(commit_ms(np.array([number]), *_timing(self._spec))[0])
        return datetime.fromtimestamp(stamp / 1000, UTC)

    def _ended(self, head: int) -> bool:
        return self._spec.rows is not None and head == math.ceil(self._spec.rows / self._spec.rows_per_transaction)

    def _head(self) -> int:
        there = _ENDLESS
        if self._spec.rows is not None:
            there = math.ceil(self._spec.rows / self._spec.rows_per_transaction)
        if self._spec.rows_per_second is not None:
            passed_s = (datetime.now(UTC) - self._spec.since).total_seconds()
            there = min(there, max(0, int(passed_s * self._spec.rows_per_second / self._spec.rows_per_transaction)))
        return there


def _timing(spec: Mock) -> tuple[float, float]:
    """Return when the log began and how long a transaction takes, both in milliseconds."""
    step_ms = 1000 * spec.rows_per_transaction / spec.rows_per_second if spec.rows_per_second else 1.0
    return spec.since.timestamp() * 1000, step_ms


def _number(offset: Offset) -> int:
    if not isinstance(offset, SequenceOffset):
        raise OffsetInvalidError(
            f"mock: {offset} is an offset of kind {offset.kind}, not a sequence", hint="Reset the checkpoint."
        )
    return offset.sequence
