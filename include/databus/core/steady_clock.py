"""A clock that no step of the machine's own moves."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


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
