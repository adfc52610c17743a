from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from databus.kafka.callbacks import fatal_error_raised


def hidden(cause: BaseException | None) -> SystemError:
    """As Python makes it where a callback runs although an exception is set."""
    error = SystemError("<class 'logging.LogRecord'> returned a result with an exception set")
    error.__cause__ = cause
    return error


def test_a_fence_behind_a_callback_is_raised_as_itself() -> None:
    fence = KafkaException(KafkaError(KafkaError._FENCED, "another producer"))
    with pytest.raises(KafkaException) as caught, fatal_error_raised():
        raise hidden(hidden(fence))
    assert caught.value is fence


def test_what_hides_nothing_stays_what_it_is() -> None:
    other = hidden(None)
    with pytest.raises(SystemError) as caught, fatal_error_raised():
        raise other
    assert caught.value is other
