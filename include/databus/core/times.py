"""Times: clocks, and bounds on the times that other programs wrote."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Stamps before it are unset (0, -1) or in another unit: seconds of our time, read as ms, lie in January 1970."""
AHEAD = timedelta(days=1)
"""Difference of two machines' clocks that is believed; microseconds or nanoseconds, read as ms, lie far beyond it."""


def credible(stamp_ms: int, now: datetime) -> datetime | None:
    """Return the time of a stamp; None where nothing can have happened then.

    Args:
        stamp_ms: ms since the epoch; any integer.
        now: the reader's time, aware UTC.
    """
    if not EARLIEST.timestamp() * 1000 <= stamp_ms <= (now + AHEAD).timestamp() * 1000:
        return None
    return datetime.fromtimestamp(stamp_ms / 1000, UTC)


@dataclass(frozen=True)
class SteadyClock:
    """Time that was right once, and the monotonic time since then.

    Attributes:
        began: the time at its making, aware UTC; by default the machine's.
    """

    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    _since_s: float = field(default_factory=time.monotonic, init=False, repr=False)

    def now(self) -> datetime:
        """Return the time, aware UTC."""
        return self.began + timedelta(seconds=time.monotonic() - self._since_s)


@dataclass(frozen=True)
class SystemClock:
    """Wall-clock time in UTC; one is as good as another."""

    def now(self) -> datetime:
        """Return the time, aware UTC."""
        return datetime.now(UTC)
