"""External versions order rows as the log does and fit into a positive 63-bit number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import SinkSettingError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, SequenceOffset
from databus.rows.versions import record_version, source_version, versioning, versions_of

PLACE = st.tuples(st.integers(0, (1 << 10) - 1), st.integers(0, (1 << 19) - 1), st.integers(0, (1 << 34) - 1))


@given(PLACE, PLACE)
def test_versions_compare_as_places_do(one, other):
    assert (source_version(*one) < source_version(*other)) == (one < other)


def test_the_last_place_gives_the_largest_version_the_servers_take():
    assert source_version((1 << 10) - 1, (1 << 19) - 1, (1 << 34) - 1) == 2**63 - 1


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ((1 << 10, 0, 0), "timeline"),
        ((0, 1 << 19, 0), "file number"),
        ((0, 0, 1 << 34), "position"),
        ((0, -1, 0), "file"),
    ],
)
def test_a_place_that_does_not_fit_is_refused_by_name(place, part):
    with pytest.raises(SinkSettingError, match=part) as refused:
        source_version(*place)
    assert refused.value.code == "sink_version_overflow"


def test_a_failover_to_a_server_with_lower_files_still_raises_versions():
    before = versioning(BinlogOffset("bin.000900", 4, timeline=0))
    after = versioning(BinlogOffset("other.000003", 4, timeline=1))
    assert after("other.000002", 4) > before("bin.000900", 1 << 30)


def test_a_counted_source_is_versioned_by_its_position():
    assert versioning(SequenceOffset(9))("mock.000001", 7) == 7


TOPIC = KafkaOffsets({"t": {0: 10, 1: 30, 2: 5}}, lives={"t": {1: {0: 8, 1: 20, 2: 0}}})


def test_a_record_is_versioned_by_life_and_offset():
    of = versions_of(TOPIC).of
    assert [of("t[0]", 7), of("t[0]", 8), of("t[2]", 0)] == [7, 1 << 53 | 8, 1 << 53]
    assert (
        versioning(KafkaOffsets({"t": {0: 9}}))("t[0]", 7) == 7
    )  # as documents were versioned before there were lives
    assert record_version((1 << 10) - 1, (1 << 53) - 1) == 2**63 - 1
    with pytest.raises(SinkSettingError, match="topic's life"):
        record_version(1 << 10, 0)


@pytest.mark.parametrize(
    ("row", "stated", "ahead"),
    [
        (("t[0]", 3), record_version(0, 9), False),  # an earlier attempt of the batch
        (("t[0]", 3), record_version(0, 10), True),  # behind the partition's end
        (("t[0]", 3), record_version(1, 4), False),  # of a partition that came later
        (("t[0]", 3), record_version(1, 30), True),  # behind every partition's end
        (("t[0]", 3), record_version(2, 0), True),  # of a life that the batch does not know
        (("t[2]", 3), record_version(1, 4), False),
        (("t[2]", 3), record_version(1, 8), True),
    ],
)
def test_what_a_batch_can_have_written_is_told_by_the_row_s_own_partition(row, stated, ahead):
    assert bool(versions_of(TOPIC).ahead(row, stated)) is ahead


@pytest.mark.parametrize(
    ("row", "stated", "ahead"),
    [
        (("t[0]", 3), record_version(0, 11), False),  # of the plan that was closed
        (("t[0]", 3), record_version(0, 12), True),
        (("t[1]", 3), record_version(0, 30), True),  # it went no further in this partition
        (("t[0]", 3), record_version(1, 39), False),
        (("t[0]", 3), record_version(1, 40), True),
        (("t[0]", 3), record_version(2, 0), True),
    ],
)
def test_what_a_closed_plan_can_have_written_is_expected_up_to_its_end(row, stated, ahead):
    until = KafkaOffsets({"t": {0: 12, 2: 40}}, lives=TOPIC.lives)
    assert bool(versions_of(TOPIC, until).ahead(row, stated)) is ahead
    assert versions_of(TOPIC, until).of("t[2]", 0) == versions_of(TOPIC).of("t[2]", 0)


def test_in_one_log_a_closed_plan_is_expected_up_to_its_end():
    end, until = BinlogOffset("bin.000009", 300), BinlogOffset("bin.000009", 500)
    versions, row = versions_of(end, until), ("bin.000009", 200)
    assert versions.ahead(row, versions.of("bin.000009", 500)) == ""
    assert "begun before it" in versions.ahead(row, versions.of("bin.000009", 501))
    # One of a former server's log lies below all that the new one's rows have.
    moved = versions_of(BinlogOffset("new.000002", 300, timeline=1), until)
    assert moved.ahead(("new.000002", 200), moved.of("new.000002", 301))


def test_rows_of_two_partitions_are_ordered_by_lives_only():
    versions = versions_of(TOPIC)
    assert versions.unordered(("t[0]", 3), ("t[1]", 19))
    assert versions.unordered(("t[0]", 8), ("t[2]", 0))
    assert not versions.unordered(("t[0]", 7), ("t[2]", 0))
    assert not versions.unordered(("t[0]", 3), ("t[0]", 4))
    assert not versions_of(BinlogOffset("bin.000009", 4)).unordered(("bin.000008", 9), ("bin.000009", 4))
