"""Runs of flows with one interval begin apart, each at its own place, whatever was stored before."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import patch

import pendulum
import pytest
from airflow.sdk import AssetOrTimeSchedule
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import DataInterval, TimeRestriction
from hypothesis import given
from hypothesis import strategies as st

from databus.airflow.dags import woken
from databus.airflow.timetable import StaggeredTimetable, staggered
from tests.airflow.test_flow_dag import FLOW

MINUTE = timedelta(minutes=1)
START = pendulum.datetime(2024, 1, 1)


def runs(
    timetable: StaggeredTimetable, moments: list[pendulum.DateTime], last: DataInterval | None = None
) -> list[DataInterval]:
    """The data intervals of the runs that a scheduler makes which looks at these moments."""
    made = []
    for now in moments:
        with patch("airflow.timetables.interval.utcnow", return_value=now):
            info = timetable.next_dagrun_info(
                last_automated_data_interval=last, restriction=TimeRestriction(START, None, catchup=False)
            )
        assert info is not None
        if info.run_after <= now:
            last = info.data_interval
            made.append(last)
    return made


def test_runs_follow_each_other_on_a_grid_of_their_own() -> None:
    timetable = StaggeredTimetable(MINUTE, timedelta(seconds=17))
    now = pendulum.datetime(2026, 5, 1, 12, 0, 40)
    intervals = runs(timetable, [now.add(seconds=second) for second in range(200)])
    assert [i.start.second for i in intervals] == [17] * len(intervals)
    assert all(i.end - i.start == MINUTE for i in intervals)
    ends = [i.end for i in intervals]
    assert [i.start for i in intervals[1:]] == ends[:-1]
    assert ends[0] == pendulum.datetime(2026, 5, 1, 12, 0, 17)  # the interval before now, at once
    assert len(ends) == 4


def test_after_a_pause_only_the_last_interval_runs() -> None:
    timetable = StaggeredTimetable(MINUTE, timedelta(seconds=17))
    first = pendulum.datetime(2026, 5, 1, 12, 0, 40)
    before, after = runs(timetable, [first, first.add(hours=5)])
    assert after.end - before.end == timedelta(hours=5)


def test_a_flow_whose_runs_were_on_airflows_grid_moves_to_its_own() -> None:
    timetable = StaggeredTimetable(MINUTE, timedelta(seconds=17))
    old = DataInterval(pendulum.datetime(2026, 5, 1, 12), pendulum.datetime(2026, 5, 1, 12, 1))
    (first, second) = runs(timetable, [old.end.add(seconds=s) for s in range(90)], old)
    assert first.end == pendulum.datetime(2026, 5, 1, 12, 1, 17)
    assert second.end == pendulum.datetime(2026, 5, 1, 12, 2, 17)


@given(st.integers(5, 86_400 * 3), st.text(min_size=1), st.integers(0, 10**9))
def test_each_moment_lies_in_one_interval(seconds: int, name: str, since: int) -> None:
    every = timedelta(seconds=seconds)
    timetable = staggered(name, every)
    now = START.add(seconds=since)
    floor = timetable._round(now, now)
    assert floor <= now < floor + every
    assert timetable._round(floor, floor) == floor
    assert (floor.timestamp() - timetable.serialize()["phase"]) % seconds == pytest.approx(0, abs=1e-6)


def test_flows_of_one_interval_are_spread_over_it() -> None:
    phases = sorted(staggered(f"flow_{n}", MINUTE).serialize()["phase"] for n in range(200))
    for tenth in range(10):
        assert sum(6 * tenth <= phase < 6 * tenth + 6 for phase in phases) in range(8, 36)


def test_a_daily_run_stays_near_midnight() -> None:
    phases = [staggered(f"flow_{n}", timedelta(days=1)).serialize()["phase"] for n in range(200)]
    assert 300 < max(phases) < 600


def test_it_is_stored_and_read_back_by_airflow_alone_and_with_a_wake() -> None:
    timetable = staggered("orders", MINUTE)
    assert decode_timetable(encode_timetable(timetable)) == timetable
    schedule = woken(FLOW, "orders", timetable, MINUTE)
    assert isinstance(schedule, AssetOrTimeSchedule)
    assert decode_timetable(encode_timetable(schedule)).timetable == timetable


def test_timetables_of_other_lengths_or_phases_differ() -> None:
    one = StaggeredTimetable(MINUTE, timedelta(seconds=3))
    assert one == StaggeredTimetable(MINUTE, timedelta(seconds=3))
    assert hash(one) == hash(StaggeredTimetable(MINUTE, timedelta(seconds=3)))
    assert one != StaggeredTimetable(MINUTE, timedelta(seconds=4))
    assert one != StaggeredTimetable(2 * MINUTE, timedelta(seconds=3))
    assert one != MINUTE
