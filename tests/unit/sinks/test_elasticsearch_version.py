"""External versions order rows as the log does and fit into a positive 63-bit number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import SinkSettingError
from databus.core.offsets import BinlogOffset, SequenceOffset
from databus.sinks.elasticsearch_version import source_version, versioning

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
