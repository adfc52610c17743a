from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from databus.runtime.direct.read_ahead import overlapped


def test_items_come_in_their_order_from_another_thread() -> None:
    threads = set()

    def items() -> Iterator[int]:
        for number in range(100):
            threads.add(threading.current_thread())
            yield number

    assert list(overlapped(items(), 2)) == list(range(100))
    assert threads.isdisjoint({threading.current_thread()})


def test_no_more_than_asked_for_are_made_ahead() -> None:
    made: list[int] = []
    third = threading.Event()

    def items() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    with closing(overlapped(items(), 1)) as found:
        assert next(found) == 0
        assert third.wait(10)  # one waits in the queue, the next one is at hand
        assert made == [0, 1, 2]


def test_an_error_comes_at_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("third")

    found = overlapped(items(), 5)
    assert next(found) == 1
    with pytest.raises(ValueError, match="third"):
        next(found)


def test_closing_ends_the_thread() -> None:
    alive = threading.active_count()

    def items() -> Iterator[int]:
        yield from range(10**9)

    with closing(overlapped(items(), 2)) as found:
        next(found)
    assert threading.active_count() == alive
