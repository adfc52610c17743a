"""How far a flow is behind its source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Lag:
    """Distance between a committed offset and the head of the source's log.

    Attributes:
        bytes: log bytes not yet committed; None when the source cannot tell.
        seconds: age of the oldest uncommitted change; 0.0 when caught up, None when the source cannot tell.
        head: the head's offset in text form.
        measured_at: when it was measured, aware UTC.
    """

    bytes: int | None
    seconds: float | None
    head: str
    measured_at: datetime

    @property
    def caught_up(self) -> bool:
        """Whether nothing is left to read."""
        return self.bytes == 0
