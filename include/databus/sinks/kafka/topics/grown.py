"""Grown topics: a producer that was kept does not know yet that a topic was made or has more partitions."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from databus.kafka.client import kafka_error

_NEW = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001 - librdkafka's own codes
_LOOK_S = 5.0
_PAUSE_S = 0.1


class GrownTopics:
    """Has a producer ask for topics again whose partitions it does not know yet.

    Args:
        producer: the producer.
        within_s: seconds from a topic's first refusal after which it is asked for no more: brokers tell of new
            partitions one after the other.
        now: tells the time in seconds.
    """

    def __init__(self, producer: Any, within_s: float, now: Callable[[], float] = monotonic):
        self._producer, self._within_s, self._now = producer, within_s, now
        self._until: dict[str, float] = {}

    def look_again(self, topic: str, error: KafkaException) -> None:
        """Ask for a topic again, after which its record is to be produced once more.

        Args:
            topic: name.
            error: what produce() raised.

        Raises:
            KafkaException: the error, where it is another, or the time is over.
        """
        if kafka_error(error).code() not in _NEW:
            raise error
        now = self._now()
        if now > self._until.setdefault(topic, now + self._within_s):
            raise error
        self._producer.poll(_PAUSE_S)
        self._producer.list_topics(topic, _LOOK_S)
