"""Grown topics: a producer that was kept does not know yet that a topic was made or has more partitions."""

from __future__ import annotations

from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from databus.kafka.client import kafka_error

_NEW = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001 - librdkafka's own codes
_LOOK_S = 5.0
_PAUSE_S = 0.1


def look_again(producer: Any, topic: str, error: KafkaException, deadline: float) -> None:
    """Have a producer ask for a topic again, after which its record is to be produced once more.

    Args:
        producer: the producer.
        topic: name.
        error: what produce() raised.
        deadline: when it is asked no more (`time.monotonic`): brokers tell of new partitions one after the other.

    Raises:
        KafkaException: the error, where it is another, or the deadline is over.
    """
    if kafka_error(error).code() not in _NEW or monotonic() > deadline:
        raise error
    producer.poll(_PAUSE_S)
    producer.list_topics(topic, _LOOK_S)
