"""Ranges are cut without loss or overlap; a backfill is known by what it wants, however it was worded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.backfill import Aim, Backfill, Boundary, Mode, aim_of, without
from databus.core.errors import BackfillRangeError, SourceDivergedError
from databus.core.offsets import BinlogOffset, OffsetRange, PreparedTransaction, SequenceOffset

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def span(start: int, end: int) -> OffsetRange:
    return OffsetRange(SequenceOffset(start), SequenceOffset(end))


def records(ranges: tuple[OffsetRange, ...]) -> list[int]:
    found: list[int] = []
    for one in ranges:
        assert isinstance(one.start, SequenceOffset)
        assert isinstance(one.end, SequenceOffset)
        found += range(one.start.sequence + 1, one.end.sequence + 1)
    return found


ranges = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: span(min(pair), max(pair)))


@given(ranges, st.lists(ranges, max_size=8))
def test_what_is_left_is_each_record_that_nobody_took_once_and_in_order(
    wanted: OffsetRange, taken: list[OffsetRange]
) -> None:
    gone = set(records(tuple(taken)))
    assert records(without(wanted, taken)) == [r for r in records((wanted,)) if r not in gone]
    assert not any(left.empty for left in without(wanted, taken))


def test_two_logs_cannot_be_compared() -> None:
    one, other = (BinlogOffset("bin.000001", 100 * n, server="a") for n in (1, 2))
    foreign = OffsetRange(BinlogOffset("bin.000001", 50, server="b"), BinlogOffset("bin.000001", 70, server="b"))
    with pytest.raises(SourceDivergedError, match="a failover lies between them"):
        without(OffsetRange(one, other), [foreign])


def test_the_same_range_is_the_same_backfill_whatever_else_is_known_of_its_places() -> None:
    def made(**known: object) -> Backfill:
        start = BinlogOffset("bin.000001", 100, **known)  # type: ignore[arg-type] # any fields
        wanted = OffsetRange(start, BinlogOffset("bin.000002", 4, **known))  # type: ignore[arg-type] # any fields
        return Backfill("orders", Aim(Mode.REPLAY, ".replay"), wanted, ("a", "b"), (wanted,), "ada", NOW)

    prepared = PreparedTransaction("X'61',X'',1", "bin.000001", 10, 90)
    assert made().id == made(prepared=(prepared,)).id
    assert made().piece_name(0) == f"orders.backfill-{made().id}-0"
    other = Backfill("orders", Aim(Mode.REPLAY, ".replay", "again"), made().range, ("a", "b"), (), "ada", NOW)
    assert other.id != made().id
    assert Backfill.from_json(made(prepared=(prepared,)).to_json()) == made(prepared=(prepared,))
    boundary = Boundary(NOW, SequenceOffset(5))
    assert Boundary.from_json(boundary.to_json()) == boundary


def test_aims() -> None:
    assert aim_of(Mode.MISSING, ".replay", "", into_live=False) == Aim(Mode.MISSING)
    assert aim_of(Mode.REPLAY, ".replay", "x", into_live=False) == Aim(Mode.REPLAY, ".replay", "x")
    assert aim_of(Mode.REPLAY, ".replay", "", into_live=True) == Aim(Mode.REPLAY)
    with pytest.raises(BackfillRangeError, match="a replay needs a suffix"):
        aim_of(Mode.REPLAY, "", "", into_live=False)
