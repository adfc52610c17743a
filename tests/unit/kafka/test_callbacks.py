from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from databus.kafka.callbacks import fatal_error_raised
from databus.kafka.consumer import bounded


def hidden(cause: BaseException | None) -> SystemError:
    """As Python makes it where a callback runs although an exception is set."""
    error = SystemError("<class 'logging.LogRecord'> returned a result with an exception set")
    error.__cause__ = cause
    return error


def test_a_fence_behind_a_callback_is_raised_as_itself() -> None:
    fence = KafkaException(KafkaError(KafkaError._FENCED, "another producer"))
    with pytest.raises(KafkaException) as caught, fatal_error_raised():
        raise hidden(hidden(fence))
    assert caught.value.args == fence.args


def test_what_hides_nothing_stays_what_it_is() -> None:
    other = hidden(None)
    with pytest.raises(SystemError) as caught, fatal_error_raised():
        raise other
    assert caught.value is other


def test_a_fatal_error_that_was_swallowed_is_raised_as_fatal() -> None:
    with pytest.raises(KafkaException) as caught, fatal_error_raised():
        raise SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")
    assert (caught.value.args[0].code(), caught.value.args[0].fatal()) == (KafkaError._FATAL, True)


class Rows:
    """What is written when an error comes."""


@pytest.mark.parametrize("call", [lambda poll: poll(), lambda poll: bounded(poll, 30)], ids=["here", "in a thread"])
def test_what_a_callback_raised_holds_nothing_of_the_call(call: Callable[[Callable[[], Any]], None]) -> None:
    """The client never frees such an exception, nor what hangs on its traceback and on its context."""

    def refuse(error: KafkaError) -> None:
        raise KafkaException(error)

    def write(producer: Producer) -> list[weakref.ref[Rows]]:
        rows, earlier = Rows(), Rows()
        told = []

        def poll() -> None:
            while rows:
                producer.poll(30)

        try:
            raise LookupError(earlier)
        except LookupError:
            with suppress(KafkaException), fatal_error_raised():
                call(poll)
            told.append(1)
        assert told
        return [weakref.ref(rows), weakref.ref(earlier)]

    written = write(Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": refuse, "log_level": 0}))
    gc.collect()
    assert [rows() for rows in written] == [None, None]


def test_what_was_being_handled_before_stays_whole() -> None:
    def fails() -> None:
        raise LookupError

    def handles() -> None:
        try:
            fails()
        except LookupError:
            with suppress(KafkaException), fatal_error_raised():
                raise KafkaException(KafkaError(KafkaError._FENCED, "another producer")) from None
            raise

    with pytest.raises(LookupError) as caught:
        handles()
    assert "fails" in [entry.name for entry in caught.traceback]
