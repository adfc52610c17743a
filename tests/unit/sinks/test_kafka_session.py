"""A producer is connected before its transactions are asked for: librdkafka would look for a connection too late."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from databus.core.errors import SinkFencedError
from databus.kafka.client import ClientSettings
from databus.sinks.kafka.markers import MARKER_TOPIC, MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session


class Recorded:
    """A client that keeps what it is asked."""

    def __init__(self, refused: KafkaException | None = None, fenced: KafkaException | None = None) -> None:
        self.asked: list[str] = []
        self.refused, self.fenced = refused, fenced

    def list_topics(self, topic: str, timeout: float) -> None:
        self.asked.append(f"list {topic} {timeout:g}")
        if self.refused is not None:
            raise self.refused

    def init_transactions(self, _timeout: float) -> None:
        self.asked.append("init")
        if self.fenced is not None:
            raise self.fenced

    def poll(self, _timeout: float) -> None: ...

    def close(self) -> None:
        self.asked.append("close")

    def consumer_group_metadata(self) -> None: ...


@pytest.mark.parametrize("refused", [None, KafkaException(KafkaError(KafkaError._TRANSPORT))])
def test_connected_first_whatever_comes_of_it(monkeypatch: pytest.MonkeyPatch, refused: KafkaException | None) -> None:
    client = Recorded(refused)
    given: Any = lambda *_: client  # noqa: E731 - a method that gives the one client
    monkeypatch.setattr(ClientSettings, "producer", given)
    monkeypatch.setattr(MarkerKey, "consumer", given)
    settings = ProducerSettings(ClientSettings("east", "nowhere:1", timeout_s=1.5))
    Session(MarkerKey("test", "flow", "kafka"), 0, settings)
    assert client.asked == [f"list {MARKER_TOPIC} 1.5", "init"]


def test_one_that_cannot_begin_leaves_no_consumer_open(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Recorded(fenced=KafkaException(KafkaError(KafkaError.PRODUCER_FENCED)))
    given: Any = lambda *_: client  # noqa: E731 - a method that gives the one client
    monkeypatch.setattr(ClientSettings, "producer", given)
    monkeypatch.setattr(MarkerKey, "consumer", given)
    with pytest.raises(SinkFencedError):
        Session(MarkerKey("test", "flow", "kafka"), 0, ProducerSettings(ClientSettings("east", "nowhere:1")))
    assert client.asked[-1] == "close"
