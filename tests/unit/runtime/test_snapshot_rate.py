"""Rate of a snapshot: no span of time has more rows than it allows, and nothing is read in crumbs."""

from __future__ import annotations

import random

import pytest

from databus.runtime.pacing.snapshot_rate import BURST_S, FIRST_ROWS, LEAST_S, STREAM_S, ChunkShare, SnapshotRate


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


def _batches(
    share: ChunkShare, clock: Clock, count: int, rows_per_second: int, log_rows: int, fixed: float = 0.3
) -> list[float]:
    """Run batches of one server and machine; return how long each took."""
    took = []
    for _ in range(count):
        rows = share.granted(200_000)
        share.took(rows, log_rows)
        seconds = fixed + (rows + log_rows) / rows_per_second
        clock.now += seconds
        share.committed()
        took.append(seconds)
    return took


def test_chunks_grow_to_the_bound_of_a_batch_where_the_stream_is_idle() -> None:
    clock = Clock()
    share = ChunkShare(clock)
    assert share.granted(200_000) == FIRST_ROWS
    assert share.granted(1_000) == 1_000
    _batches(share, clock, 3, 10_000, 0)
    assert share.granted(200_000) == 200_000


@pytest.mark.parametrize("rows_per_second", [5_000, 60_000, 400_000])
def test_a_batch_beside_a_stream_takes_about_a_second(rows_per_second: int) -> None:
    clock = Clock()
    share = ChunkShare(clock)
    _batches(share, clock, 3, rows_per_second, 0)
    took = _batches(share, clock, 20, rows_per_second, 1_000)
    assert max(took[6:]) < 1.5 * STREAM_S
    assert min(took[6:]) > 0.6 * STREAM_S or share.granted(200_000) == 200_000


def test_a_table_s_last_rows_and_a_backlog_do_not_make_chunks_small() -> None:
    clock = Clock()
    share = ChunkShare(clock)
    _batches(share, clock, 10, 60_000, 1_000)
    before = share.granted(200_000)
    share.took(10, 500)
    clock.now += 0.4
    share.committed()
    assert share.granted(200_000) >= before
    _batches(share, clock, 10, 60_000, 2_000_000)
    assert share.granted(200_000) >= before


def test_what_a_batch_costs_with_few_rows_does_not_make_chunks_small() -> None:
    clock = Clock()
    share = ChunkShare(clock)
    took = _batches(share, clock, 30, 60_000, 100, fixed=3.0)
    assert share.granted(200_000) > 20_000
    assert max(took[10:]) < 3.0 + 1.5 * STREAM_S
