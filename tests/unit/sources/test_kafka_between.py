"""What the logs hold between two offsets: nothing behind the range, and nothing of a log that was replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databus.core.errors import OffsetPurgedError
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.sources.kafka.bounded_view import OffsetBounds
from databus.sources.kafka.positions import LogState, gaps

START = KafkaOffsets({"a": {0: 3, 1: 8}, "b": {0: 5}}, {"a": "ida", "b": "idb"})
END = KafkaOffsets({"a": {0: 7, 1: 8, 2: 4}, "b": {0: 5}}, {"a": "ida", "b": "idb"})
NOW = LogState(
    {"a": "ida", "b": "idb"},
    {("a", 0): 0, ("a", 1): 8, ("a", 2): 0, ("b", 0): 9},
    {("a", 0): 90, ("a", 1): 80, ("a", 2): 70, ("b", 0): 60},
    {("a", 0): 1, ("a", 1): 1, ("a", 2): -1, ("b", 0): 1},
)


def between() -> OffsetBounds:
    return OffsetBounds(OffsetRange(START, END), "kafka_east")


def test_only_partitions_of_which_anything_lies_in_the_range_are_there() -> None:
    found = between().cut(NOW)
    assert between().topics == ("a",)
    assert (found.ids, found.ends) == ({"a": "ida"}, {("a", 0): 7, ("a", 2): 4})
    assert (found.earliest, found.epochs) == ({("a", 0): 0, ("a", 2): 0}, {("a", 0): 1, ("a", 2): -1})
    assert gaps(START, found) == []


def test_deleted_records_are_a_gap_within_the_range() -> None:
    (gap,) = gaps(START, between().cut(replace(NOW, earliest={**NOW.earliest, ("a", 0): 50})))
    assert (gap.place, gap.position, gap.earliest) == (("a", 0), 3, 7)
    assert [gap.target(policy) for policy in ("earliest", "latest")] == [7, 7]


@pytest.mark.parametrize(
    "now",
    [
        replace(NOW, ids={"a": "another", "b": "idb"}),
        replace(NOW, ends={**NOW.ends, ("a", 0): 6}),
        replace(NOW, ids={}, ends={}, earliest={}, epochs={}),
    ],
    ids=["made anew", "cut back", "deleted"],
)
def test_a_log_that_was_replaced_is_refused(now: LogState) -> None:
    with pytest.raises(OffsetPurgedError, match=r"a\[0\]: the log that held offset 7 is gone"):
        between().cut(now)


def test_a_range_over_two_lives_of_a_log_is_refused() -> None:
    anew = replace(END, generations={"a": {1: 1}})
    with pytest.raises(OffsetPurgedError, match=r"a\[1\]: the log that held offset 8 is gone"):
        OffsetBounds(OffsetRange(START, anew), "kafka_east")
