"""Ranges are cut without loss or overlap, and places kept in order: in one log, and in many at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import SourceDivergedError
from databus.core.positions.offset_ranges import earlier, later, overlap, unreached, with_lives_of, without
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, OffsetRange, Ordering, SequenceOffset


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


@given(ranges, ranges)
def test_ranges_overlap_where_both_have_a_record(one: OffsetRange, other: OffsetRange) -> None:
    assert overlap(one, other) is bool(set(records((one,))) & set(records((other,))))


def test_two_logs_cannot_be_compared() -> None:
    one, other = (BinlogOffset("bin.000001", 1000 * n, server="a") for n in (1, 2))
    foreign = OffsetRange(BinlogOffset("bin.000001", 500, server="b"), BinlogOffset("bin.000001", 700, server="b"))
    with pytest.raises(SourceDivergedError, match="a failover lies between them"):
        without(OffsetRange(one, other), [foreign])
    with pytest.raises(SourceDivergedError, match="a failover lies between them"):
        overlap(OffsetRange(one, other), foreign)


positions = st.dictionaries(
    st.sampled_from(["orders", "users"]), st.dictionaries(st.integers(0, 2), st.integers(0, 12), max_size=3), max_size=2
)
places = positions.map(KafkaOffsets)
between = st.tuples(places, places).map(lambda pair: OffsetRange(earlier(*pair), later(*pair)))


def logged(ranges: tuple[OffsetRange, ...]) -> list[tuple[tuple[str, int], int]]:
    """Return (partition, offset) of all records of ranges, in the order in which each partition would be read."""
    found = []
    for one in ranges:
        assert isinstance(one.start, KafkaOffsets)
        assert isinstance(one.end, KafkaOffsets)
        begin = one.start.places()
        for place, (_, end) in sorted(one.end.places().items()):
            found += [(place, n) for n in range(begin.get(place, (0, 0))[1], end)]
    return sorted(found, key=lambda record: record[0])


@given(between, st.lists(between, max_size=6))
def test_of_many_logs_what_is_left_is_each_record_that_nobody_took_once_and_in_order(
    wanted: OffsetRange, taken: list[OffsetRange]
) -> None:
    gone = set(logged(tuple(taken)))
    left = without(wanted, taken)
    assert logged(left) == [r for r in logged((wanted,)) if r not in gone]
    assert not any(piece.empty for piece in left)


@given(between, between)
def test_of_many_logs_ranges_overlap_where_both_have_a_record(one: OffsetRange, other: OffsetRange) -> None:
    assert overlap(one, other) is bool(set(logged((one,))) & set(logged((other,))))


@given(places, places, places)
def test_the_later_and_the_earlier_place_hold_every_partition_where_it_is_later_or_earlier(
    one: KafkaOffsets, other: KafkaOffsets, third: KafkaOffsets
) -> None:
    high, low = later(one, other), earlier(one, other)
    for place in (one, other):
        assert high.compare(place) in (Ordering.AFTER, Ordering.EQUAL)
        assert low.compare(place) in (Ordering.BEFORE, Ordering.EQUAL)
        assert later(place, high).compare(high) is Ordering.EQUAL
        assert earlier(place, low).compare(low) is Ordering.EQUAL
    assert later(later(one, other), third).compare(later(one, later(other, third))) is Ordering.EQUAL
    assert earlier(earlier(one, other), third).compare(earlier(one, earlier(other, third))) is Ordering.EQUAL


def test_of_one_log_the_later_place_is_one_of_the_two() -> None:
    low, high = SequenceOffset(3), SequenceOffset(5)
    assert (later(low, high), later(high, low), earlier(low, high), earlier(high, low)) == (high, high, low, low)
    diverged: tuple[Offset, Offset] = (BinlogOffset("b.000001", 9, server="a"), BinlogOffset("b.000001", 4, server="b"))
    assert later(*diverged) == earlier(*diverged) == diverged[0]


def test_what_is_known_of_a_log_goes_with_the_place_that_was_taken() -> None:
    former = KafkaOffsets({"t": {0: 90, 1: 5}}, {"t": "old"}, {"t": {0: 7, 1: 7}})
    anew = KafkaOffsets({"t": {0: 4, 1: 5}}, {"t": "new"}, {"t": {0: 1, 1: 1}}, {"t": {0: 1}})
    high = later(former, anew)
    assert isinstance(high, KafkaOffsets)
    assert (high.positions, high.ids, high.generations) == ({"t": {0: 4, 1: 5}}, {"t": "new"}, {"t": {0: 1}})
    assert high.epochs == {"t": {0: 1, 1: 7}}


@given(places, places, places)
def test_of_many_logs_a_place_is_reached_partition_by_partition(
    place: KafkaOffsets, one: KafkaOffsets, other: KafkaOffsets
) -> None:
    left = unreached(place, None, one, other)
    high = later(one, other)
    if place.compare(high) in (Ordering.AFTER, Ordering.EQUAL):
        assert left is None
        return
    assert isinstance(left, KafkaOffsets)
    assert isinstance(high, KafkaOffsets)
    behind = {p: at for p, at in high.places().items() if at > place.places().get(p, (0, 0))}
    assert left.places() == behind
    assert unreached(place, left) == left
    assert unreached(later(place, high), left) is None


def test_of_one_log_the_furthest_place_counts() -> None:
    low, high = SequenceOffset(3), SequenceOffset(5)
    assert unreached(low, None) is None
    assert unreached(low, low) is None
    assert unreached(high, low) is None
    assert unreached(low, high, None, low) == high
    # After a failover to a server that does not know the place.
    former, now = BinlogOffset("b.000001", 9, server="a"), BinlogOffset("b.000001", 4, server="b", timeline=1)
    assert unreached(now, former) is None


def test_lives_go_with_a_place_that_was_planned_and_not_with_a_gap() -> None:
    place, known = KafkaOffsets({"t": {0: 1}}), {"t": {1: {0: 9, 1: 0}}}
    end = KafkaOffsets({"t": {0: 10, 1: 3}}, lives=known)
    assert with_lives_of(place, end) == KafkaOffsets({"t": {0: 1}}, lives=known)
    assert with_lives_of(place, KafkaOffsets({"t": {0: 10}}, lives=known, passed=True)) == place
    assert with_lives_of(SequenceOffset(1), end) == SequenceOffset(1)
    left = unreached(place, end, KafkaOffsets({"u": {0: 0}}, lives={"u": {1: {0: 0}}}))
    assert isinstance(left, KafkaOffsets)
    assert (left.positions, left.lives) == ({"t": {0: 10, 1: 3}}, known)


def test_a_piece_knows_the_leader_epoch_of_its_ends_only_where_the_range_did() -> None:
    start = KafkaOffsets({"t": {0: 10}}, {"t": "id"}, {"t": {0: 3}})
    end = KafkaOffsets({"t": {0: 20}}, {"t": "id"}, {"t": {0: 4}})
    taken = OffsetRange(KafkaOffsets({"t": {0: 12}}), KafkaOffsets({"t": {0: 15}}))
    first, second = without(OffsetRange(start, end), [taken])
    assert (first.start, second.end) == (start, end)
    assert [o.epochs for o in (first.end, second.start) if isinstance(o, KafkaOffsets)] == [{}, {}]
    assert [o.ids for o in (first.end, second.start) if isinstance(o, KafkaOffsets)] == [{"t": "id"}] * 2


def test_a_range_of_another_kind_of_log_takes_nothing_out() -> None:
    wanted = OffsetRange(KafkaOffsets({}), KafkaOffsets({"t": {0: 1}}))
    with pytest.raises(SourceDivergedError, match="no range of Kafka topics"):
        without(wanted, [span(0, 4)])
    with pytest.raises(SourceDivergedError, match="no range of Kafka topics"):
        overlap(wanted, span(0, 4))
