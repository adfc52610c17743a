"""Cache of expensive clients, reused between the batches of a long-lived worker.

The task of a live job writes many small batches: what one of them opened serves the next. Elsewhere nothing is kept
here. Transactional producers are kept by `databus.sinks.kafka.session` in every reused worker: one that rested may have
been fenced since, which its owner finds out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

_MOST = 8
_IDLE_S = 30.0
"""Longest rest of a cached client, after which it is closed: its server may have moved."""


class Closeable(Protocol):
    """Closeable client."""

    def close(self) -> None:
        """End it."""
        ...


@dataclass
class _Shelf:
    items: list[tuple[object, Closeable, float]] = field(default_factory=list)

    def clear(self) -> None:
        while self.items:
            self.items.pop()[1].close()


_shelves: list[_Shelf] = []


@contextmanager
def keeping() -> Iterator[None]:
    """Keep what is given while the block runs, and close it then. For one block of a process at a time."""
    shelf = _Shelf()
    _shelves.append(shelf)
    try:
        yield
    finally:
        _shelves.remove(shelf)
        shelf.clear()


def keeps() -> bool:
    """Return whether clients are kept here: whether small batches follow one another in this process."""
    return bool(_shelves)


def take(key: object) -> Closeable | None:
    """Return what was given under an equal key and has not rested too long; it is the caller's again."""
    items = _shelves[-1].items if _shelves else []
    for number, (known, client, since) in enumerate(items):
        if known == key:
            del items[number]
            if time.monotonic() - since <= _IDLE_S:
                return client
            client.close()
            return None
    return None


def give(key: object, client: Closeable) -> None:
    """Keep a client for the next `take`; it is closed where nothing is kept. A broken one is closed by its owner."""
    if not _shelves:
        client.close()
        return
    items = _shelves[-1].items
    items.append((key, client, time.monotonic()))
    if len(items) > _MOST:
        items.pop(0)[1].close()
