"""A call that must end."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from databus.kafka.consumer import bounded


def test_an_answer_and_an_error_come_through() -> None:
    seen: list[int] = []
    bounded(lambda: seen.append(1), 10)
    assert seen == [1]
    with pytest.raises(KafkaException) as raised:
        bounded(lambda: _raise(KafkaException(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH))), 10)
    assert raised.value.args[0].code() == KafkaError.INVALID_PRODUCER_EPOCH


def test_a_call_without_end_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(KafkaException) as raised:
        bounded(never.wait, 0.05)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    never.set()


def _raise(error: Exception) -> None:
    raise error
