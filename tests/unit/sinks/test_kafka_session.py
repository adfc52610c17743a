"""A producer is connected before its transactions are asked for: librdkafka would look for a connection too late, and
waits for ever where there is none.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from databus.core.errors import SinkFencedError, SinkUnavailableError
from databus.kafka.client import ClientSettings
from databus.sinks.kafka.markers import MARKER_TOPIC, Marker, MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session
from databus.testing.tcp_proxy import TcpProxy


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


def calls() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "kafka-call"]


def test_a_kept_one_whose_broker_is_away_leaves_no_call_behind() -> None:
    """Librdkafka's own broker, behind a proxy: a call that waits for ever keeps its producer, which never rests."""
    broker = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1, "log_level": 0})
    (address,) = broker.list_topics(timeout=30).brokers.values()
    broker.list_topics(MARKER_TOPIC, timeout=30)
    with TcpProxy(f"{address.host}:{address.port}", kafka=True) as proxy:
        client = ClientSettings("east", f"127.0.0.1:{proxy.port}", timeout_s=30.0)
        session = Session(MarkerKey("test", "flow", "kafka"), 0, ProducerSettings(client))
        marker = Marker(1, "h", "written", 0, last=True, done=1, written=1)
        session.begin(marker)
        session.commit(marker)
        assert calls() == []
        proxy.go_down()
        session.kept = True
        with pytest.raises(SinkUnavailableError, match="cannot reach a broker as databus"):
            session.begin(marker)
        session.discard()
    assert calls() == []
