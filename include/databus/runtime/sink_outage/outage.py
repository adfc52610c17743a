"""Outages of sinks: which sink an error comes from, and how long it has lasted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from databus.core.errors.sink import SinkBackpressureError, SinkError, SinkUnavailableError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0


@contextmanager
def naming(sink: str) -> Iterator[None]:
    """Write the sink's name into the error that the block raises."""
    try:
        yield
    except SinkError as error:
        error.sink = error.sink or sink
        raise


def is_outage(error: SinkError) -> bool:
    """Return whether the sink is away or overloaded, which passes without a person's help."""
    return isinstance(error, SinkUnavailableError | SinkBackpressureError)


@dataclass
class Outage:
    """A sink that does not take rows at the moment.

    Attributes:
        error: what it said last.
        since: when it began, of the monotonic clock.
        attempts: attempts since.
        now: the monotonic clock.
    """

    error: SinkError
    now: Callable[[], float] = field(default=time.monotonic, repr=False)
    since: float = field(init=False)
    attempts: int = 1

    def __post_init__(self) -> None:
        self.since = self.now()

    @property
    def lasted_s(self) -> float:
        """Seconds since it began."""
        return self.now() - self.since

    def again(self, error: SinkError) -> None:
        """Count a further attempt."""
        self.error = error
        self.attempts += 1

    def pause_s(self, bound_s: float) -> float:
        """Return how long to wait before the next attempt: what the sink asks for, and not past the bound."""
        asked = self.error.retry_after_s if isinstance(self.error, SinkBackpressureError) else 0.0
        pause: float = min(LONGEST_PAUSE_S, max(asked, FIRST_PAUSE_S * 2 ** (self.attempts - 1)))
        return max(0.0, min(pause, bound_s - self.lasted_s))
