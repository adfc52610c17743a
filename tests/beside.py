"""Calls that go on in a thread beside a test until its block ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(call: Callable[[threading.Event], object]) -> Iterator[None]:
    """Call a function again and again in a thread until the block ends, and raise then what it raised.

    Args:
        call: gets the event that is set as the block ends, by which it may end early.
    """
    stop = threading.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.is_set():
                call(stop)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            raised.append(error)

    thread = threading.Thread(target=run, name="beside")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if raised:
        raise raised[0]
