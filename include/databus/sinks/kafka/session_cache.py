"""Sessions that a Python worker keeps from one batch to the next, and topics that grew while a producer was kept."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from databus.kafka.client import kafka_error
from databus.sinks.kafka.markers import MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session

_NEW = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001 - librdkafka's own codes
_LOOK_S = 5.0
_PAUSE_S = 0.1

_kept: dict[str, Session] = {}
_MAX_KEPT = 64
atexit.register(_kept.clear)  # clients are destroyed while the interpreter lives: librdkafka's threads call into it


def kept(key: MarkerKey, slot: int, settings: ProducerSettings) -> Session | None:
    """Return the session that `take` would find kept, without taking it; None when it would open one."""
    session = _kept.get(key.transactional_id(slot))
    same = session is not None and session.pid == os.getpid() and session.settings == settings
    return session if same else None


def take(key: MarkerKey, slot: int, settings: ProducerSettings) -> Session:
    """Return the kept session of a slot, or a new one; it is the caller's until `keep` or `discard`."""
    session = _kept.pop(key.transactional_id(slot), None)
    if session is not None and session.pid == os.getpid():  # a forked parent's is of no use here
        if session.settings == settings:
            session.kept = True
            return session
        session.discard()
    return Session(key, slot, settings)


def keep(session: Session) -> None:
    """Keep a session without an open transaction for the next batch of its slot."""
    while len(_kept) >= _MAX_KEPT:
        _kept.pop(next(iter(_kept))).discard()
    session.hurries = False
    _kept[session.key.transactional_id(session.slot)] = session


class GrownTopics:
    """Has a producer ask for topics again whose partitions it does not know yet.

    Args:
        producer: the producer.
        within_s: seconds from a topic's first refusal after which it is asked for no more: brokers report new
            partitions one after the other.
        now: gives the time in seconds.
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
