"""A topic that a kept producer does not know in full yet: how long it is asked for again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from databus.sinks.kafka.session_cache import GrownTopics

UNKNOWN = KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))


@dataclass
class Asked:
    """A producer that notes what it is asked for; each time takes a second."""

    topics: list[str] = field(default_factory=list)
    now_s: float = 0.0

    def poll(self, timeout_s: float) -> int:
        return 0

    def list_topics(self, topic: str, timeout_s: float) -> None:
        self.topics.append(topic)
        self.now_s += 1.0


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_a_topics_time_begins_with_its_first_refusal_however_long_the_batch_took_until_then(asked: Asked) -> None:
    grown = GrownTopics(asked, 30.0, lambda: asked.now_s)
    asked.now_s = 100.0  # rows before it waited for a slow broker
    for _ in range(31):
        grown.look_again("orders", UNKNOWN)
    with pytest.raises(KafkaException):
        grown.look_again("orders", UNKNOWN)
    grown.look_again("items", UNKNOWN)  # has a time of its own
    assert asked.topics == ["orders"] * 31 + ["items"]


def test_any_other_error_is_the_callers(asked: Asked) -> None:
    error: Any = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(KafkaException):
        GrownTopics(asked, 30.0).look_again("orders", error)
    assert not asked.topics
