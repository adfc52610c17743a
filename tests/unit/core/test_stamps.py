"""Stamps of any unit, by any clock, give a time that can be or none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.times import AHEAD, EARLIEST, credible

NOW = datetime(2026, 11, 25, 1, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
HOUR_MS = 3_600_000


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_integer_is_a_credible_time_or_none(stamp_ms: int) -> None:
    when = credible(stamp_ms, NOW)
    assert when is None or (EARLIEST <= when <= NOW + AHEAD and round(when.timestamp() * 1000) == stamp_ms)


@pytest.mark.parametrize("stamp_ms", [NOW_MS, NOW_MS - 1, NOW_MS + HOUR_MS, NOW_MS - 20 * 365 * 24 * HOUR_MS])
def test_what_clocks_write_is_taken_as_it_is(stamp_ms: int) -> None:
    assert credible(stamp_ms, NOW) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp_ms)


@pytest.mark.parametrize(
    "stamp_ms",
    [0, -1, -NOW_MS, NOW_MS // 1000, NOW_MS * 1000, NOW_MS * 1_000_000, 253_402_300_799_999, 253_402_300_800_000,
     NOW_MS + 25 * HOUR_MS],
)  # fmt: skip
def test_other_units_unset_stamps_and_the_far_future_are_none(stamp_ms: int) -> None:
    assert credible(stamp_ms, NOW) is None
