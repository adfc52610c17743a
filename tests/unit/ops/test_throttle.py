"""A bound on bytes per second: model time, nothing waits."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from databus.ops.mirror.throttle import Throttle


@dataclass
class Batch:
    bytes: int
    durations_ms: dict[str, float] = field(default_factory=dict)


@dataclass
class Time:
    now: float = 100.0
    stop_at: float = float("inf")

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.stop_at


def moved(time: Time, throttle: Throttle, size: int, seconds: float) -> None:
    time.now += seconds
    throttle.after(Batch(size, {"sinks": seconds * 1000}))


def test_what_is_moved_never_exceeds_the_bound() -> None:
    time = Time()
    throttle = Throttle(1000, time, lambda: time.now)
    for _ in range(10):
        moved(time, throttle, 500, 0.1)
    assert time.now == pytest.approx(100 + 5.0)
    time.now += 60  # idle time gives no credit
    for _ in range(4):
        moved(time, throttle, 500, 0.1)
    assert time.now == pytest.approx(165 + 2.0)


def test_a_path_that_is_slower_than_the_bound_does_not_wait() -> None:
    time = Time()
    throttle = Throttle(1000, time, lambda: time.now)
    for _ in range(3):
        moved(time, throttle, 100, 1.0)
    assert time.now == pytest.approx(103.0)


def test_no_bound_waits_never_and_a_drain_ends_a_wait() -> None:
    time = Time(stop_at=102.0)
    moved(time, Throttle(None, time, lambda: time.now), 10**9, 0.1)
    assert time.now == pytest.approx(100.1)
    moved(time, Throttle(1000, time, lambda: time.now), 100_000, 0.0)
    assert time.now < 103
