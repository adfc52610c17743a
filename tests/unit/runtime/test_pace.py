"""The size of the next batch, learned from how the sinks took the last one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus import Batching
from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.runtime.pacing.batch_sizing import LEAST_SHARE, Effort, Pace, log_change, turned_away

BATCHING = Batching(max_rows=100_000, max_bytes=64 << 20, dispatch_time=timedelta(seconds=10))
LEAST = int(100_000 * LEAST_SHARE) + 1
EFFORTS = st.builds(
    Effort,
    rows=st.integers(0, 200_000),
    bytes=st.integers(0, 128 << 20),
    seconds=st.floats(0, 10_000),
    turned_away=st.integers(0, 5),
    retried=st.booleans(),
)


def full(pace: Pace, seconds: float, **more: object) -> Effort:
    limit = pace.limit(BATCHING)
    return Effort(limit.max_rows, limit.max_bytes, seconds, **more)  # type: ignore[arg-type]


def rows(pace: Pace) -> int:
    return pace.limit(BATCHING).max_rows


@given(st.lists(EFFORTS, max_size=60))
def test_the_bounds_are_never_left(efforts: list[Effort]) -> None:
    pace = Pace()
    for effort in efforts:
        pace = pace.after(effort, BATCHING)
        limit = pace.limit(BATCHING)
        assert LEAST - 1 <= limit.max_rows <= BATCHING.max_rows
        assert 1 <= limit.max_bytes <= BATCHING.max_bytes
        assert abs(Pace.of(pace.to_json(BATCHING), BATCHING).share - pace.share) < 1e-4


@given(EFFORTS, st.floats(LEAST_SHARE, 1))
def test_trouble_never_makes_batches_larger_and_its_lack_never_smaller(effort: Effort, share: float) -> None:
    after = Pace(share).after(effort, BATCHING)
    trouble = effort.turned_away or effort.retried or effort.seconds > BATCHING.dispatch_seconds
    assert after.share <= share if trouble else after.share >= share


def test_a_sink_that_takes_a_second_per_1000_rows_gets_batches_of_its_pace() -> None:
    pace, sizes = Pace(), []
    for _ in range(30):
        pace = pace.after(full(pace, rows(pace) / 1000), BATCHING)
        sizes.append(rows(pace))
    assert sizes[0] == 10_000
    # Above 5,000 rows (half of the target) it stops growing, above 10,000 it would shrink.
    assert all(5_000 <= size <= 10_000 for size in sizes)


def test_a_sink_that_stands_still_gets_the_least_and_full_batches_when_it_is_back() -> None:
    pace = Pace()
    for _ in range(12):
        pace = pace.after(full(pace, 60.0), BATCHING)
    assert rows(pace) == LEAST
    needed = 0
    while pace.share < 1:
        pace, needed = pace.after(full(pace, 1.0), BATCHING), needed + 1
    assert needed <= 15
    assert pace.limit(BATCHING) is BATCHING


def test_being_turned_away_and_tried_again_halves() -> None:
    assert rows(Pace().after(full(Pace(), 1.0, turned_away=3), BATCHING)) == 50_000
    assert rows(Pace().after(full(Pace(), 1.0, retried=True), BATCHING)) == 50_000
    # A small batch says nothing about a large one: it does not make the pace follow its own size.
    assert rows(Pace().after(Effort(3, 500, 0.1, turned_away=1), BATCHING)) == 50_000


def test_batches_that_fill_a_small_part_do_not_raise_the_pace() -> None:
    half = Pace(0.5)
    assert half.after(Effort(10, 1_000, 0.01), BATCHING) == half
    assert half.after(full(half, 0.01), BATCHING).share == 0.75
    assert half.after(full(half, 9.0), BATCHING) == half


def test_a_few_rows_that_take_long_say_nothing_about_many() -> None:
    """As the first batch of a cold Spark session."""
    assert Pace().after(Effort(10, 1_000, 60.0), BATCHING) == Pace()
    assert rows(Pace().after(Effort(30_000, 1_000, 20.0), BATCHING)) == 15_000


def test_other_bounds_of_the_flow_are_taken_over() -> None:
    stored = Pace(0.25).to_json(BATCHING)
    assert stored == {"rows": 25_000, "bytes": 16 << 20}
    assert Pace.of(stored, Batching(max_rows=10_000, max_bytes=1 << 20)).share == 1.0
    assert Pace.of({}, BATCHING) == Pace()


def test_it_stands_in_the_checkpoint() -> None:
    now = datetime(2024, 1, 31, tzinfo=UTC)
    at = Checkpoint(SequenceOffset(1), 1, Epoch(1), "run", "", {}, None, now, pace={"rows": 7, "bytes": 9})
    assert Checkpoint.from_json(at.to_json()) == at
    without = {k: v for k, v in at.to_json().items() if k != "pace"}
    assert Checkpoint.from_json(without).pace == {}


def test_retries_are_read_from_receipts() -> None:
    slow = WriteReceipt("search", 0, 1, 5, outputs={"": {"retries": 2}, "index": {"created": 5}})
    assert turned_away([slow, slow, WriteReceipt("kafka", 0, 1, 5, outputs={"t[0]": {"records": 5}})]) == 4


def test_a_smaller_batch_is_explained_by_what_happened_alone(caplog: pytest.LogCaptureFixture) -> None:
    for effort in (Effort(500, 500, 31.0), Effort(500, 500, 1.0, turned_away=2), Effort(500, 500, 1.0, retried=True)):
        log_change("orders", Pace(), Pace(0.5), effort, BATCHING)
    slow, away, again = (record.getMessage().partition(": the next batch")[0] for record in caplog.records)
    assert slow == "flow orders: the sinks took 31.0 s for 500 rows"
    assert away == "flow orders: the sinks took 1.0 s for 500 rows and turned requests away 2 times"
    assert again == "flow orders: the sinks took 1.0 s for 500 rows, at a repeated attempt"
