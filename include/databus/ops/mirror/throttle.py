"""Rate limit of a run: it waits between batches, which hold no memory then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

_SLICE_S = 0.5


class BatchTraffic(Protocol):
    """Committed batch as the throttle sees it."""

    @property
    def bytes(self) -> int:
        """Bytes of its range."""
        ...

    @property
    def durations_ms(self) -> Mapping[str, float]:
        """Stage → time."""
        ...


class Stoppable(Protocol):
    """Stoppable wait, as `Drain`."""

    def wait(self, seconds: float) -> bool:
        """Wait so long or until a stop is asked for; return whether it was."""
        ...


class Throttle:
    """Bytes per second over all slots of a run; time that passes idle gives no credit.

    Args:
        bytes_per_s: the bound, None for none.
        drain: ends a wait.
        clock: monotonic seconds.
    """

    def __init__(self, bytes_per_s: int | None, drain: Stoppable, clock: Callable[[], float] = time.monotonic):
        self._rate, self._drain, self._clock = bytes_per_s, drain, clock
        self._free_at = 0.0

    def after(self, batch: BatchTraffic) -> None:
        """Wait until what a batch moved is paid for."""
        if self._rate is None:
            return
        now = self._clock()
        begun = now - sum(batch.durations_ms.values()) / 1000
        self._free_at = max(self._free_at, begun) + batch.bytes / self._rate
        while (left := self._free_at - self._clock()) > 0:
            if self._drain.wait(min(left, _SLICE_S)):
                return
