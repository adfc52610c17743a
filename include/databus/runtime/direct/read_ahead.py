"""Read-ahead: items are produced in a thread while the caller works on those before."""

from __future__ import annotations

import ctypes
import gc
import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class _End:
    """Stands at the end of the items, with the error that ended them."""

    def __init__(self, error: BaseException | None = None):
        self.error = error


def overlapped(items: Iterable[T], ahead: int) -> Generator[T]:
    """Yield the items in their order while a thread makes up to `ahead` more; an error comes at its place.

    Closing the generator stops the thread after the item in hand and waits for it.
    """
    waiting: queue.Queue[T | _End] = queue.Queue(ahead)
    stop = threading.Event()

    def put(item: T | _End) -> bool:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def make() -> None:
        end = _End()
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            end = _End(error)
        put(end)

    maker = threading.Thread(target=make, name="databus-reader", daemon=True)
    maker.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stop.set()
        maker.join()


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Let the collector rest; it works again afterwards if it did before.

    Rows and records make no cycles, so that counting references frees them; but there are so many of them that the
    collector would look at all that lives again and again: 13 % of a mirror's CPU.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_M_MMAP_THRESHOLD = -3
_MAPPED_BYTES = 1 << 20


def return_free_memory() -> None:
    """Return memory that malloc keeps free to the system; without glibc nothing happens.

    Records are freed by the producer's threads while texts of the next rows are made, which leaves holes all over the
    heap: 240 MB of them after a snapshot of 600,000 rows, where 50 MB were in use. From the first call on, blocks of
    1 MiB and more are not taken from the heap, so that a call has little to return: 0.1 µs a row at every 16,384 rows.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        libc.malloc_trim(0)
