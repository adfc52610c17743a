"""Loops of a scheduler as figures."""

from __future__ import annotations

import pytest

from databus.bench.airflow.metadata import BARS, Loops, percentile
from databus.core.errors import ReconciliationError


def test_idle_loops_do_not_hide_the_busy_ones() -> None:
    loops = Loops([*[(0.01, 0)] * 98, (2.0, 3), (4.0, 1)])
    assert loops.figures("full") == {
        "full_loops": 100,
        "full_busy_loops": 2,
        "full_loop_p50_seconds": 0.01,
        "full_loop_p95_seconds": 0.01,
        "full_loop_max_seconds": 4.0,
        "full_busy_loop_p50_seconds": 2.0,
        "full_busy_loop_p95_seconds": 4.0,
        "full_busy_loop_max_seconds": 4.0,
    }
    (bar,) = (bar for bar in BARS if bar.key == "full_busy_loop_p95_seconds")
    assert not bar.reached(4.0)


def test_a_scheduler_that_had_nothing_to_do_gives_no_figure() -> None:
    with pytest.raises(ReconciliationError, match="none of 2 loops"):
        Loops([(0.01, 0), (0.02, 0)]).figures("new")


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.95, 10), (0.9, 9), (0.01, 1)])
def test_percentiles_are_values_that_were_seen(share: float, value: float) -> None:
    assert percentile(range(1, 11), share) == value
