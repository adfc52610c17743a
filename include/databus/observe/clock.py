"""The system's clock behind the Clock protocol."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """Wall-clock time in UTC."""

    def now(self) -> datetime:
        """Return the time, aware UTC."""
        return datetime.now(UTC)
