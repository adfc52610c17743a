"""A dump that was cut off is asked for again inside the batch: nothing of it is planned before it is staged whole."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from databus.core.errors.source import ServerIdTakenError, SourceUnavailableError

log = logging.getLogger(__name__)

PAUSES_S = (0.2, 1.0, 3.0, 5.0, 5.0)
"""Pauses between attempts; together longer than a server's restart takes."""


class DumpRetries:
    """Counts the attempts of one range, and takes another server id where another reader has this one."""

    def __init__(self, place: str, renew_id: Callable[[], None], pauses_s: tuple[float, ...] = PAUSES_S):
        """Begin to count.

        Args:
            place: the server, for the log.
            renew_id: gives the server id back and leases another at the next dump.
            pauses_s: pause before each further attempt.
        """
        self._place, self._renew_id = place, renew_id
        self._pauses = list(pauses_s)

    def after(self, error: SourceUnavailableError) -> None:
        """Wait before the next attempt.

        Raises:
            SourceUnavailableError: the error given, after the last attempt.
        """
        if isinstance(error, ServerIdTakenError):
            self._renew_id()
        if not self._pauses:
            raise error
        pause_s = self._pauses.pop(0)
        log.warning("%s: dumping the range again in %g s: %s", self._place, pause_s, error)
        time.sleep(pause_s)
