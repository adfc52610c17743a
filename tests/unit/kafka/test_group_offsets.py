"""What groups are asked for, and which of their clients stay open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from databus.core.errors import SourceUnavailableError
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.group_offsets import GroupOffsets


class Broker:
    """A cluster of two topics, and the clients that ask it."""

    def __init__(self) -> None:
        self.topics = {"orders": 2, "parts": 1}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.asked: list[tuple[str, list[tuple[str, int]]]] = []
        self.listed, self.opened, self.open = 0, 0, 0
        self.error: int | None = None

    def consumer(self, config: Any, _seen: LastError) -> Client:
        self.opened, self.open = self.opened + 1, self.open + 1
        return Client(self, config["group.id"])


class Client:
    """One group's consumer."""

    def __init__(self, broker: Broker, group: str) -> None:
        self._broker, self._group = broker, group

    def list_topics(self, timeout: float) -> Any:
        self._broker.listed += 1
        topics = self._broker.topics.items()
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=range(n)) for name, n in topics})

    def committed(self, places: list[TopicPartition], _timeout: float) -> list[TopicPartition]:
        if self._broker.error is not None:
            raise KafkaException(KafkaError(self._broker.error))
        self._broker.asked.append((self._group, [(p.topic, p.partition) for p in places]))
        known = self._broker.offsets
        return [
            TopicPartition(p.topic, p.partition, known.get((self._group, p.topic, p.partition), -1)) for p in places
        ]

    def poll(self, _seconds: float) -> None:
        """Report nothing."""

    def close(self) -> None:
        self._broker.open -= 1


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(ClientSettings, "consumer", broker.consumer)
    return broker


def offsets(kept: int) -> GroupOffsets:
    return GroupOffsets(ClientSettings("kafka", "nowhere:1"), LastError(), kept)


ALL = [("orders", 0), ("orders", 1), ("parts", 0)]


def test_after_a_first_look_a_group_is_asked_for_its_own_topics(broker: Broker) -> None:
    broker.offsets |= {("a", "orders", 0): 5, ("b", "parts", 0): 6}
    reader = offsets(kept=9)
    expected = {"a": {("orders", 0): 5}, "b": {("parts", 0): 6}}
    assert reader.of(["a", "b", "idle"]) == expected
    assert (broker.listed, broker.opened) == (1, 3)
    assert broker.asked == [("a", ALL), ("b", ALL), ("idle", ALL)]
    broker.asked.clear()
    # Another partition of a topic of its own is seen at once; one that has committed nothing is not asked.
    broker.offsets[("a", "orders", 1)] = 7
    assert reader.of(["a", "b", "idle"]) == {**expected, "a": {("orders", 0): 5, ("orders", 1): 7}}
    assert broker.asked == [("a", [("orders", 0), ("orders", 1)]), ("b", [("parts", 0)])]
    assert (broker.listed, broker.opened) == (1, 3)
    broker.offsets[("idle", "parts", 0)] = 1
    assert "idle" not in reader.of(["a", "b", "idle"])
    reader.look_again()
    assert reader.of(["a", "b", "idle"])["idle"] == {("parts", 0): 1}
    assert (broker.listed, broker.opened) == (2, 3)
    reader.close()
    reader.close()
    assert broker.open == 0


def test_no_more_clients_are_kept_than_asked_for(broker: Broker) -> None:
    reader = offsets(kept=1)
    broker.offsets |= {("a", "orders", 0): 5, ("b", "parts", 0): 6}
    reader.of(["a", "b"])
    assert (broker.opened, broker.open) == (2, 1)
    reader.of(["a", "b"])
    assert (broker.opened, broker.open) == (3, 1)
    reader.of(["b"])  # the other group is gone
    assert (broker.opened, broker.open) == (4, 0)
    reader.of(["b"])
    assert (broker.opened, broker.open) == (5, 1)


def test_a_client_that_failed_is_not_kept(broker: Broker) -> None:
    reader = offsets(kept=9)
    broker.offsets |= {("a", "orders", 0): 5}
    reader.of(["a"])
    broker.error = KafkaError.NOT_COORDINATOR
    with pytest.raises(SourceUnavailableError, match="read the offsets of group a"):
        reader.of(["a"])
    assert broker.open == 0
    broker.error = None
    assert reader.at("a", [("orders", 0), ("parts", 0)]) == {("orders", 0): 5}
    assert (broker.opened, broker.open) == (2, 1)
    reader.close()
