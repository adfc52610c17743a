"""Acknowledgements of a replica, each second: without them a server sends nothing after a snapshot, and hangs up.

Source: Redis 7.0 `replication.c` (`replconfCommand`, `repl_start_cmd_stream_on_ack`, `replicationCron`). A first one
may come before the server has noticed the end of the snapshot, and is lost then: the next one counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from databus.core.errors.source import SourceUnavailableError
from databus.redis.replication.link import Link

PERIOD_S = 1.0


class Acknowledger:
    """Thread that sends REPLCONF ACK each second until it is stopped or the connection ends."""

    def __init__(self, link: Link, offset: Callable[[], int]):
        """Begin; `offset` says up to where the stream was handled, and is called from the thread."""
        self._link = link
        self._offset = offset
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"acknowledge {link.name}", daemon=True)
        self._thread.start()

    def now(self) -> None:
        """Send one at once; a connection that has ended is the reader's to tell."""
        with suppress(SourceUnavailableError):
            self._link.send("REPLCONF", "ACK", str(self._offset()))

    def stop(self) -> None:
        """End the thread, and wait until it has; its link is to be closed before."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self.now()
        while not self._stop.wait(PERIOD_S):
            self.now()
