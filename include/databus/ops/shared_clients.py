"""Shared clients of a process: the first user opens one, the last closes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Closes(Protocol):
    """Closeable client."""

    def close(self) -> None:
        """Close it."""
        ...


T = TypeVar("T", bound=Closes)

_FAILED_S = 1.0
"""Who waited for another's attempt to open something, which failed, gets its error: a server that is away is waited
for once, and not by one flow after the other."""


@dataclass
class _Open(Generic[T]):
    key: object
    thing: T
    users: int


class SharedClients(Generic[T]):
    """Things of one kind, by key. Safe for several threads, as what is opened has to be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[_Open[T]] = []
        self._failed: tuple[object, float, Exception] | None = None

    def take(self, key: object, open_it: Callable[[], T]) -> T:
        """Return what is open under a key, or open it; it is the caller's until `give_back`.

        Args:
            key: keys are compared by their values.
            open_it: opens it; its error is the caller's.
        """
        with self._lock:
            found = next((entry for entry in self._open if entry.key == key), None)
            if found is None:
                found = _Open(key, self._opened(key, open_it), 0)
                self._open.append(found)
            found.users += 1
            return found.thing

    def give_back(self, thing: T) -> None:
        """End the caller's use of something; the last one closes it."""
        with self._lock:
            entry = next(entry for entry in self._open if entry.thing is thing)
            entry.users -= 1
            if entry.users:
                return
            self._open.remove(entry)
        thing.close()

    def _opened(self, key: object, open_it: Callable[[], T]) -> T:
        if self._failed is not None:
            failed, at, error = self._failed
            if failed == key and time.monotonic() - at < _FAILED_S:
                raise error
        try:
            return open_it()
        except Exception as error:
            self._failed = key, time.monotonic(), error
            raise
