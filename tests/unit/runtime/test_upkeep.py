"""Markers of an idle flow are written again long before the sink forgets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.errors import SinkUnavailableError
from databus.runtime.marker_refresh import Upkeep

COMMITTED = datetime(2024, 1, 31, tzinfo=UTC)
DAY_S = 24 * 3600.0


@dataclass
class Forgetful:
    """A sink that keeps markers for a week."""

    refreshed: int = 0
    down: bool = False
    asked: list[float] = field(default_factory=list)

    def marker_retention_s(self) -> float:
        if self.down:
            raise SinkUnavailableError("away")
        return 7 * DAY_S

    def refresh(self, after_s: float = 0.0) -> int:
        self.asked.append(after_s)
        self.refreshed += 1
        return 2


def session(days: float, **sinks: Any) -> Any:
    clock = SimpleNamespace(now=lambda: COMMITTED + timedelta(days=days))
    return SimpleNamespace(flow=SimpleNamespace(name="idle"), clock=clock, sinks=sinks)


@pytest.mark.parametrize(("days", "times"), [(0.0, 0), (1.7, 0), (1.8, 1), (30.0, 1)])
def test_after_a_quarter_of_the_retention(days: float, times: int) -> None:
    sink = Forgetful()
    Upkeep().idle(session(days, kafka=sink, search=object()), COMMITTED)
    assert sink.refreshed == times


def test_a_long_window_refreshes_again_when_it_is_due() -> None:
    sink, now = Forgetful(), [0.0]
    upkeep = Upkeep(lambda: now[0])
    for hour in range(24 * 8):
        now[0] = hour * 3600.0
        upkeep.idle(session(2 + hour / 24, kafka=sink), COMMITTED)
    assert sink.refreshed == 5  # at once, then every 1.75 days of eight


def test_a_sink_that_is_away_is_asked_again() -> None:
    sink, upkeep = Forgetful(down=True), Upkeep()
    upkeep.idle(session(3, kafka=sink), COMMITTED)
    assert sink.refreshed == 0
    sink.down = False
    upkeep.idle(session(3, kafka=sink), COMMITTED)
    assert sink.refreshed == 1


def test_windows_leave_what_another_refreshed_within_the_hour() -> None:
    sink = Forgetful()
    Upkeep().idle(session(30, kafka=sink), COMMITTED)
    assert sink.asked == [3600.0]
