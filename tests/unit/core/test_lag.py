"""How long catching up takes, by what was moved so far."""

from __future__ import annotations

import pytest

from databus.core.positions.lag import duration_text, eta_s


@pytest.mark.parametrize(
    ("left", "moved", "seconds", "eta"),
    [
        (None, 100, 1.0, None),
        (0, 0, 0.0, 0.0),
        (100, 0, 5.0, None),
        (100, 50, 0.0, None),
        (3_000, 1_000, 2.0, 6.0),
    ],
)
def test_the_rest_at_the_rate_of_what_was_moved(
    left: int | None, moved: int, seconds: float, eta: float | None
) -> None:
    assert eta_s(left, moved, seconds) == eta


def test_durations_in_words() -> None:
    assert [duration_text(s) for s in (7.6, 200, 7_500)] == ["8 s", "3 min 20 s", "2 h 05 min"]
