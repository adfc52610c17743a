"""Bounds on times that other programs wrote, in ms since the epoch: what lies outside is no time of an event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Stamps before it are unset (0, -1) or in another unit: seconds of our time, read as ms, lie in January 1970."""
AHEAD = timedelta(days=1)
"""Difference of two machines' clocks that is believed; microseconds or nanoseconds, read as ms, lie far beyond it."""


def credible(stamp_ms: int, now: datetime) -> datetime | None:
    """Return the time that a stamp tells; None where nothing can have happened then.

    Args:
        stamp_ms: ms since the epoch; any integer.
        now: the reader's time, aware UTC.
    """
    if not EARLIEST.timestamp() * 1000 <= stamp_ms <= (now + AHEAD).timestamp() * 1000:
        return None
    return datetime.fromtimestamp(stamp_ms / 1000, UTC)
