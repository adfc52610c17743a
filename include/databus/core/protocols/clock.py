"""Clock of the control process, replaced in tests."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Clock; tests bring their own."""

    def now(self) -> datetime:
        """Return the time, aware UTC."""
        ...
