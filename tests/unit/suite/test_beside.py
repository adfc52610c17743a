"""Calls beside a block: they go on until it ends, and what one raised fails the test."""

from __future__ import annotations

import threading

import pytest

from tests.beside import beside


def test_calls_go_on_until_the_block_ends() -> None:
    twice, calls = threading.Event(), []

    def call(stop: threading.Event) -> None:
        calls.append(stop.is_set())
        if len(calls) > 1:
            twice.set()
            stop.wait()

    with beside(call):
        assert twice.wait(60)
    assert calls == [False, False]
    assert all(thread.name != "beside" for thread in threading.enumerate())


def test_what_a_call_raises_is_raised_as_the_block_ends() -> None:
    ended = threading.Event()

    def call(_stop: threading.Event) -> None:
        ended.set()
        raise ValueError("the writer's")

    with pytest.raises(ValueError, match="the writer's"), beside(call):
        assert ended.wait(60)
