from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import CheckpointFormatError, OffsetInvalidError
from databus.core.positions.offsets import (
    BinlogOffset,
    KafkaOffsets,
    Offset,
    OffsetRange,
    Ordering,
    SequenceOffset,
    offset_from_json,
    offset_of,
)

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MIRRORED = {
    Ordering.BEFORE: Ordering.AFTER,
    Ordering.AFTER: Ordering.BEFORE,
    Ordering.EQUAL: Ordering.EQUAL,
    Ordering.DIVERGED: Ordering.DIVERGED,
}

binlog = st.builds(
    BinlogOffset,
    file=st.integers(1, 3).map(lambda n: f"mysql-bin.{n:06d}"),
    pos=st.integers(4, 8) | st.just(5 << 32),
    gtids=st.sampled_from(["", f"{A}:1-5", f"{A}:1-6", f"{A}:1-4:6"]),
    server=st.sampled_from(["", A]),
    timeline=st.integers(0, 1),
    generation=st.integers(0, 1),
)
kafka = st.dictionaries(
    st.sampled_from(["a", "b"]), st.dictionaries(st.integers(0, 2), st.integers(0, 5), max_size=3), max_size=2
)
kafka = st.builds(
    KafkaOffsets,
    kafka,
    ids=st.sampled_from([{}, {"a": "id-1"}]),
    epochs=st.sampled_from([{}, {"a": {0: 1}}]),
    generations=st.sampled_from([{}, {"a": {1: 1}}]),
    passed=st.booleans(),
)
sequence = st.integers(0, 5).map(SequenceOffset)
offsets = st.one_of(binlog, kafka, sequence)


@given(offsets)
def test_json_is_read_back(offset: Offset) -> None:
    assert offset_from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(offsets, offsets)
def test_comparing_the_other_way_round_mirrors_the_answer(left: Offset, right: Offset) -> None:
    assert right.compare(left) is MIRRORED[left.compare(right)]


@given(offsets)
def test_an_offset_equals_itself(offset: Offset) -> None:
    assert offset.compare(offset) is Ordering.EQUAL


@given(st.sets(st.tuples(st.integers(1, 3), st.integers(4, 8)), min_size=2))
def test_positions_of_one_server_have_one_order(places: set[tuple[int, int]]) -> None:
    ordered = [BinlogOffset(f"mysql-bin.{file:06d}", pos, server=A) for file, pos in sorted(places)]
    assert all(a.compare(b) is Ordering.BEFORE for a, b in pairwise(ordered))


def test_file_numbers_count_not_their_text() -> None:
    assert BinlogOffset("bin.1000000", 4).compare(BinlogOffset("bin.999999", 900)) is Ordering.AFTER


def test_a_position_past_4_gib_survives() -> None:
    offset = BinlogOffset("bin.000001", (1 << 32) + 5)
    assert offset_from_json(offset.to_json()).compare(BinlogOffset("bin.000001", 5)) is Ordering.AFTER


def test_after_a_failover_only_gtids_can_order() -> None:
    old = BinlogOffset("bin.000900", 100, f"{A}:1-50", server="old")
    new = BinlogOffset("bin.000002", 100, f"{A}:1-60", server="new", timeline=1)
    assert new.compare(old) is Ordering.AFTER
    lost = BinlogOffset("bin.000002", 100, f"{A}:1-49:51-60", server="new", timeline=1)
    assert lost.compare(old) is Ordering.DIVERGED
    assert BinlogOffset("bin.000002", 100, server="new").compare(old) is Ordering.DIVERGED


def test_mariadb_and_mysql_never_compare() -> None:
    mysql = BinlogOffset("bin.000001", 4)
    assert mysql.compare(BinlogOffset("bin.000001", 4, flavor="mariadb")) is Ordering.DIVERGED
    here = BinlogOffset("bin.000001", 4, "0-1-5", "mariadb", "1")
    there = BinlogOffset("bin.000007", 4, "0-2-6", "mariadb", "2", timeline=1)
    assert here.compare(there) is Ordering.BEFORE


_LOGS = st.dictionaries(st.sampled_from("tu"), st.dictionaries(st.integers(0, 2), st.integers(0, 2)), max_size=2)
_PLACES = st.builds(KafkaOffsets, _LOGS, generations=st.just({}) | _LOGS)


@given(_PLACES, _PLACES)
def test_kafka_places_are_ordered_by_generation_and_offset_of_each_partition(
    left: KafkaOffsets, right: KafkaOffsets
) -> None:
    mine, theirs, zero = left.places(), right.places(), (0, 0)
    pairs = [(mine.get(place, zero), theirs.get(place, zero)) for place in {*mine, *theirs}]
    later, earlier = any(a > b for a, b in pairs), any(a < b for a, b in pairs)
    assert left.compare(right) is {
        (False, False): Ordering.EQUAL, (True, False): Ordering.AFTER,
        (False, True): Ordering.BEFORE, (True, True): Ordering.DIVERGED,
    }[later, earlier]  # fmt: skip


def test_kafka_partitions_that_disagree_have_no_order() -> None:
    offset = KafkaOffsets({"t": {0: 5, 1: 5}})
    assert offset.compare(KafkaOffsets({"t": {0: 4, 1: 5}})) is Ordering.AFTER
    assert offset.compare(KafkaOffsets({"t": {0: 4, 1: 6}})) is Ordering.DIVERGED
    assert offset.compare(KafkaOffsets({"t": {0: 5}})) is Ordering.AFTER


@pytest.mark.parametrize(
    ("file", "pos"), [("mysql-bin", 4), ("mysql-bin.42", 4), ("mysql-bin.000001", 3), ("", 4), ("b.000001\n", 4)]
)
def test_what_is_no_position_is_refused(file: str, pos: int) -> None:
    with pytest.raises(OffsetInvalidError, match="not a binlog position"):
        BinlogOffset(file, pos)


class TestRange:
    def test_start_is_exclusive_and_end_inclusive_in_words_too(self) -> None:
        covered = OffsetRange(SequenceOffset(3), SequenceOffset(5))
        assert str(covered) == "(3, 5]"
        assert not covered.empty
        assert OffsetRange(SequenceOffset(3), SequenceOffset(3)).empty

    @given(offsets, offsets)
    def test_a_range_never_goes_back(self, start: Offset, end: Offset) -> None:
        if end.compare(start) in (Ordering.EQUAL, Ordering.AFTER):
            covered = OffsetRange(start, end)
            assert OffsetRange.from_json(json.loads(json.dumps(covered.to_json()))) == covered
        else:
            with pytest.raises(OffsetInvalidError):
                OffsetRange(start, end)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"kind": "unheard_of"},
        {"kind": "binlog"},
        {"kind": "binlog", "file": "bin.000001", "pos": 4, "color": "red"},
        {"kind": "binlog", "file": 7, "pos": 4},
        {"kind": "kafka"},
        {"kind": "kafka", "positions": {"t": {"zero": 1}}},
        {"kind": "sequence"},
    ],
)
def test_stored_json_that_is_no_offset(stored: dict[str, Any]) -> None:
    with pytest.raises(CheckpointFormatError):
        offset_from_json(stored)


def test_a_place_of_the_logs_as_they_are_counts_in_the_checkpoints_generations() -> None:
    standing = KafkaOffsets({"a": {0: 9, 1: 4}, "b": {0: 7}}, {"a": "a1", "b": "b1"}, {}, {"a": {0: 2}, "b": {0: 1}})
    found = KafkaOffsets({"a": {0: 3, 1: 3}, "b": {0: 1, 1: 1}, "c": {0: 1}}, {"a": "a1", "b": "anew", "c": "c1"})
    counted = found.of_generations(standing)
    assert counted.generations == {"a": {0: 2}, "b": {0: 2, 1: 1}}
    assert (counted.positions, counted.ids) == (found.positions, found.ids)
    # The same log: further back in it is before the checkpoint, which it is not by another count.
    assert KafkaOffsets({"a": {0: 12}}, {"a": "a1"}).of_generations(standing).places()["a", 0] == (2, 12)


def across(file: str, pos: int, gtids: str, server: str, flavor: str = "mysql") -> BinlogOffset:
    return BinlogOffset(file, pos, gtids, flavor, server, timeline=int(server == "new"))


@pytest.mark.parametrize(("flavor", "gtids"), [("mysql", f"{A}:1-5"), ("mariadb", "0-1-5")])
def test_nothing_executed_orders_where_a_log_begins_and_tells_nothing_elsewhere(flavor: str, gtids: str) -> None:
    begun = across("a.000001", 157, "", "old", flavor)
    assert begun.knows_gtids
    assert begun.compare(across("b.000001", 4, "", "new", flavor)) is Ordering.EQUAL
    assert begun.compare(across("b.000007", 900, gtids, "new", flavor)) is Ordering.BEFORE
    assert OffsetRange(begun, across("b.000007", 900, gtids, "new", flavor)).empty is False
    for file, pos in (("a.000001", 900), ("a.000002", 4)):  # a server without GTIDs, as far as can be known
        place = across(file, pos, "", "old", flavor)
        assert not place.knows_gtids
        assert place.compare(across("b.000007", 900, gtids, "new", flavor)) is Ordering.DIVERGED
        assert not place.same_gtids(across("b.000001", 4, "", "new", flavor))


def test_an_offset_of_another_kind_of_source_is_named() -> None:
    own = SequenceOffset(3)
    assert offset_of(SequenceOffset, own, "a sequence", "Reset it.") is own
    with pytest.raises(OffsetInvalidError, match=r"shop: .*kind sequence, not of a binlog") as refused:
        offset_of(BinlogOffset, own, "a binlog", "Reset it.", "shop")
    assert refused.value.hint == "Reset it."
