"""Source contract: run by each source's own tests, which open it and make its log grow."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import pyarrow as pa
import pytest

from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors.source import SourceSettingError
from databus.core.events import Op
from databus.core.positions.offsets import Offset, Ordering
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan
from databus.rows.variant.images import arrow_schema
from databus.sources.simple import SimpleSource
from databus.sources.split_rows import of_tables
from databus.testing.contract.simple_sink import FixedConnections, context

EVERYTHING = Batching(max_rows=10**9, max_bytes=1 << 40, max_wait=timedelta(seconds=2))
IMPATIENT = Batching(max_rows=10**9, max_bytes=1 << 40, max_wait=timedelta(seconds=0.3))
ROW_OPS = {Op.CREATE, Op.UPDATE, Op.DELETE, Op.FILTERED}

Row = dict[str, Any]


class SourceUnderTest(Protocol):
    """Source and log that a source's own tests give the contract."""

    def open(self) -> Source:
        """Open the source once more, over the same log."""
        ...

    def grow(self) -> None:
        """See to it that the log holds 20 transactions with 60 row changes after `begin`, of two tables if it can."""
        ...

    @property
    def begin(self) -> Offset:
        """A place before everything that `grow` adds."""
        ...


def rows_of(source: Source, plan: SourcePlan, count: int = 4) -> list[Row]:
    """Read a plan through pickled splits, as Spark would."""
    rows: list[Row] = []
    for split in source.splits(plan, count):
        for batch in pickle.loads(pickle.dumps(split)).read():
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema.equals(arrow_schema(), check_metadata=True)
            rows.extend(batch.to_pylist())
    return rows


def place(row: Row) -> tuple[str, int, int, int]:
    """Return the place of a row in its log."""
    return row["log"], row["place"], row["ordinal"], row["part"]


def changes(rows: Sequence[Row]) -> int:
    """Return the row changes among rows: the second half of a primary-key update is no change of its own."""
    return sum(row["op"] in ROW_OPS and row["part"] == 0 for row in rows)


class SourceContract:
    """Inherit, and give a fixture `subject`.

    Attributes:
        one_log: whether all rows have one order; else each log (`log`) has one of its own, and ranges take from many.
        counts_lag: whether `lag` gives bytes that are left; else it gives their age, and 0 bytes at the head alone.
        knows_times: whether `offset_at` has an answer; else it is refused by a named error.
    """

    one_log = True
    counts_lag = True
    knows_times = True

    def test_small_ranges_together_are_the_whole(self, subject: SourceUnderTest) -> None:
        """Ranges by few rows have the rows of one range, in order."""
        subject.grow()
        source = subject.open()
        whole = source.plan(subject.begin, EVERYTHING)
        assert whole is not None
        expected = rows_of(source, whole)
        assert changes(expected) == whole.rows >= 60
        after, got, ranges = whole.range.start, [], 0
        while after.compare(whole.range.end) is Ordering.BEFORE:
            piece = source.plan(after, Batching(max_rows=7, max_wait=timedelta(seconds=2)))
            assert piece is not None
            assert piece.range.start == after
            assert piece.more or piece.range.end == whole.range.end
            ids = {s.schema_id: s for s in piece.tables}
            for row in rows_of(source, piece):
                if row["schema_id"] >= 0:
                    assert ids[row["schema_id"]].full_name == f"{row['database']}.{row['table']}"
                got.append({**row, "schema_id": None})
            after, ranges = piece.range.end, ranges + 1
        assert ranges > 3
        if not self.one_log:
            got.sort(key=lambda row: row["log"])  # stable: the order within each log is as it was read
        assert got == [{**row, "schema_id": None} for row in expected]
        assert after == whole.range.end
        source.close()

    def test_rows_come_in_commit_order_with_ordinals(self, subject: SourceUnderTest) -> None:
        """Rows rise by place; event ids are unique; ordinals count in a transaction."""
        subject.grow()
        source = subject.open()
        plan = source.plan(subject.begin, EVERYTHING)
        assert plan is not None
        rows = rows_of(source, plan)
        assert [place(r) for r in rows] == sorted({place(r) for r in rows})
        assert len({r["event_id"] for r in rows}) == len(rows)
        for _, group in itertools.groupby(rows, key=lambda r: (r["log"], r["place"])):
            transaction = list(group)
            assert len({(r["transaction"], r["ts_ms"], r["server_id"]) for r in transaction}) == 1
            ordinals = [r["ordinal"] for r in transaction if r["part"] == 0]
            assert ordinals == list(range(len(ordinals)))
        source.close()

    def test_reads_and_splits_agree(self, subject: SourceUnderTest) -> None:
        """Each read and each count of splits gives the same rows; splits of one table give its rows."""
        subject.grow()
        source = subject.open()
        plan = source.plan(subject.begin, EVERYTHING)
        assert plan is not None
        once = rows_of(source, plan, 1)
        assert once == rows_of(source, plan, 1)
        for count in (2, 3, 50):
            assert len(source.splits(plan, count)) <= count
            assert rows_of(source, plan, count) == once
        for schema in plan.tables:
            only = of_tables(source.splits(plan, 3), frozenset({schema.schema_id}))
            if only is not None:
                found = [row for split in only for batch in split.read() for row in batch.to_pylist()]
                assert found == [row for row in once if row["schema_id"] == schema.schema_id]
        source.close()

    def test_reopened_range_is_the_planned_one(self, subject: SourceUnderTest) -> None:
        """Planned range, opened again by another process: the same rows."""
        subject.grow()
        source = subject.open()
        plan = source.plan(subject.begin, Batching(max_rows=30, max_wait=timedelta(seconds=2)))
        assert plan is not None
        rows = rows_of(source, plan)
        source.close()
        again = subject.open()
        assert rows_of(again, again.reopen(plan.range)) == rows
        again.release(plan)
        subject.grow()
        reopened = again.reopen(plan.range)
        assert (reopened.range, reopened.tables, reopened.rows, reopened.bytes) == (
            plan.range,
            plan.tables,
            plan.rows,
            plan.bytes,
        )
        assert rows_of(again, reopened) == rows
        again.release(plan)
        again.release(plan)
        again.close()

    def test_idle_source_plans_nothing(self, subject: SourceUnderTest) -> None:
        """Source at its head: no plan, no lag."""
        subject.grow()
        source = subject.open()
        plan = source.plan(subject.begin, EVERYTHING)
        assert plan is not None
        behind = source.lag(plan.range.start)
        assert behind.bytes if self.counts_lag else behind.bytes is None
        assert behind.seconds is not None
        assert behind.seconds >= 0
        assert source.plan(plan.range.end, IMPATIENT) is None
        assert source.lag(plan.range.end).caught_up
        assert source.lag(plan.range.end).seconds == 0
        # Behind the last transaction the log may hold housekeeping of its own.
        assert source.latest_offset().compare(plan.range.end) in (Ordering.EQUAL, Ordering.AFTER)
        assert source.plan(source.latest_offset(), IMPATIENT) is None
        source.close()
        source.close()

    def test_times_are_places(self, subject: SourceUnderTest) -> None:
        """Offset of a time: every later change was committed at or after it."""
        subject.grow()
        source = subject.open()
        plan = source.plan(subject.begin, EVERYTHING)
        assert plan is not None
        assert plan.first_commit_at is not None
        assert plan.watermark is not None
        rows = rows_of(source, plan)
        middle = plan.first_commit_at + (plan.watermark - plan.first_commit_at) / 2
        if not self.knows_times:
            with pytest.raises(SourceSettingError) as caught:
                source.offset_at(middle)
            assert caught.value.hint
            source.close()
            return
        place_of = source.offset_at(middle)
        following = source.plan(place_of, EVERYTHING)
        assert following is not None
        later = [r for r in rows_of(source, following) if place(r) in {place(x) for x in rows}]
        earliest = middle.timestamp() * 1000
        assert {place(r) for r in rows if r["ts_ms"] >= earliest} <= {place(r) for r in later}
        assert all(r["ts_ms"] >= earliest for r in later)
        source.close()


class SimpleSubject:
    """A source whose log begins at `earliest` and holds 60 changes of two tables, or gets them.

    Args:
        spec: the source.
        grow: adds at least 20 transactions with 60 changes of two tables; None where they are there.
        connections: connections that the source names.
    """

    def __init__(
        self, spec: SimpleSource, grow: Callable[[], None] | None = None, connections: Sequence[Connection] = ()
    ):
        self._spec, self._grow, self._connections = spec, grow, connections
        self._begin = spec.earliest()

    def open(self) -> Source:
        """Open the source once more."""
        return self._spec.open(FixedConnections(self._connections), context("contract"))

    def grow(self) -> None:
        """Add changes."""
        if self._grow is not None:
            self._grow()

    @property
    def begin(self) -> Offset:
        """Offset before everything."""
        return self._begin
