"""Draining: a request to stop after the batch in hand."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)


class Drain:
    """A request to stop at the next batch boundary, settable from a signal handler or another thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        """Ask for the stop; safe to call many times."""
        self._event.set()

    @property
    def requested(self) -> bool:
        """Return whether a stop was asked for."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep up to `seconds`, less when a stop is asked for; return whether it was."""
        return self._event.wait(seconds)


@contextmanager
def drain_on_signals(drain: Drain) -> Iterator[None]:
    """Turn SIGTERM and SIGINT into a drain while the block runs; only in the main thread, else a no-op."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, _frame: FrameType | None) -> None:
        log.warning("%s received: finishing the batch in hand, then releasing the lease", signal.Signals(number).name)
        drain.request()

    former = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
