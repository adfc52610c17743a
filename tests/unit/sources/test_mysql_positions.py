"""Times become places: commit times are whole milliseconds, so a time between two of them means the later one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.sources.mysql.positions import first_ms_from

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AHEAD = timezone(timedelta(hours=5))


@pytest.mark.parametrize(
    ("microseconds", "ms"), [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (1_700_000_000_000_500, 1_700_000_000_001)]
)
def test_a_time_within_a_millisecond_is_the_next_one(microseconds: int, ms: int) -> None:
    assert first_ms_from(EPOCH + timedelta(microseconds=microseconds)) == ms


@given(st.timedeltas(timedelta(0), timedelta(days=80_000)).map(lambda since: EPOCH.astimezone(AHEAD) + since))
def test_it_is_the_first_that_is_not_before(when: datetime) -> None:
    found = EPOCH + timedelta(milliseconds=first_ms_from(when))
    assert timedelta(0) <= found - when < timedelta(milliseconds=1)
