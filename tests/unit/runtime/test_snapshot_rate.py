"""Rate of a snapshot: no span of time has more rows than it allows, and nothing is read in crumbs."""

from __future__ import annotations

import random

import pytest

from databus.runtime.snapshot_rate import BURST_S, LEAST_S, SnapshotRate


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("rows_per_second", [1, 7, 1_000, 250_000])
def test_no_span_of_time_has_more_rows_than_the_rate_allows(rows_per_second: int) -> None:
    clock, chance = Clock(), random.Random(rows_per_second)
    rate, read = SnapshotRate(rows_per_second, clock), list[tuple[float, int]]()
    for _ in range(400):
        clock.now += chance.choice((0.01, 0.1, 0.4, 3.0, 30.0))
        granted = rate.granted()
        assert granted == 0 or granted >= max(1, int(LEAST_S * rows_per_second))
        rows = chance.randint(0, granted)
        rate.took(rows)
        read.append((clock.now, rows))
    assert sum(rows for _, rows in read) > 10 * rows_per_second
    for first, (began, _) in enumerate(read):
        total = 0
        for at, rows in read[first:]:
            total += rows
            assert total <= max(1.0, rows_per_second * BURST_S) + rows_per_second * (at - began) + 1e-6


def test_the_first_rows_are_not_waited_for() -> None:
    assert SnapshotRate(1_000, Clock()).granted() == 500
    assert SnapshotRate(1, Clock()).granted() == 1


def test_a_chunk_that_was_larger_than_granted_is_made_up_for() -> None:
    clock = Clock()
    rate = SnapshotRate(100, clock)
    assert rate.granted() == 50
    rate.took(1_050)
    clock.now += 10
    assert rate.granted() == 0
    clock.now += 0.5
    assert rate.granted() == 50
