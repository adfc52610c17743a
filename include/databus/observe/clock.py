"""The system's clock behind the Clock protocol."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class SystemClock:
    """Wall-clock time in UTC; one is as good as another."""

    def now(self) -> datetime:
        """Return the time, aware UTC."""
        return datetime.now(UTC)
