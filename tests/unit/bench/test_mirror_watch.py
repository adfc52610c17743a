"""The rate of a mirror, from looks at the ends of its target."""

from __future__ import annotations

import pytest

from databus.bench.mirror.watch import TopicEnds, movement_of
from databus.core.errors import SandboxError


def test_the_rate_is_of_what_came_behind_the_warm_up() -> None:
    seen = [TopicEnds(10.0, 0, 0), TopicEnds(13.0, 40, 0), TopicEnds(14.0, 70, 40), TopicEnds(16.0, 100, 100)]
    found = movement_of(seen, 1000, 400)
    assert (found.records_per_second, found.seconds, found.with_start_s) == pytest.approx((200.0, 3.0, 6.0))


def test_what_comes_between_two_looks_is_timed_from_the_former() -> None:
    seen = [TopicEnds(10.0, 0, 0), TopicEnds(12.0, 20, 20), TopicEnds(14.0, 100, 20), TopicEnds(14.5, 100, 100)]
    assert movement_of(seen, 1000, 400).records_per_second == pytest.approx(800 / 2.5)
    at_once = [TopicEnds(10.0, 0, 0), TopicEnds(12.0, 100, 100), TopicEnds(20.0, 100, 100)]
    assert movement_of(at_once, 1000, 400).records_per_second == pytest.approx(500.0)


def test_what_never_arrived_has_no_rate() -> None:
    with pytest.raises(SandboxError, match="nothing was seen"):
        movement_of([TopicEnds(10.0, 0, 0), TopicEnds(11.0, 5, 0)], 1000, 0)
