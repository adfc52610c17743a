"""What a sink knows of topics that are there is asked for again after a second, and at once where something lacks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic

from databus.kafka.client import ClientSettings
from databus.sinks.kafka.topics import cluster_topics as module
from databus.sinks.kafka.topics.cluster_topics import Topics


class Asked(Topics):
    """A cluster of which the answers are counted."""

    def __init__(self) -> None:
        super().__init__(ClientSettings("east", "127.0.0.1:1"))
        self.counts, self.limit, self.asked = {"a": 3, "b": 1}, 1000, Counter[str]()

    def partitions(self) -> dict[str, int]:
        self.asked["partitions"] += 1
        return dict(self.counts)

    def configs(self, _kind: Any, names: Any) -> dict[str, dict[str, str]]:
        self.asked["configs"] += 1
        return {name: {"max.message.bytes": str(self.limit)} for name in names}

    def create(self, topic: NewTopic, **_: Any) -> None:
        self.counts[topic.topic] = 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]
    return now


def wanted(*names: str) -> list[NewTopic]:
    return [NewTopic(name, 1, 1) for name in names]


def test_partition_counts(clock: list[float]) -> None:
    topics = Asked()
    assert topics.ensure(wanted("a")) == topics.ensure(wanted("a")) == {"a": 3}
    assert topics.ensure(wanted("b")) == {"b": 1}
    assert topics.asked == {"partitions": 1}
    topics.counts["a"] = 4
    clock[0] += 1.1
    assert topics.ensure(wanted("a")) == {"a": 4}
    before = topics.asked["partitions"]
    assert topics.ensure(wanted("a", "new")) == {"a": 4, "new": 2}  # made at once
    assert topics.asked["partitions"] > before


def test_size_limits(clock: list[float]) -> None:
    topics = Asked()
    assert topics.max_message_bytes(["a", "b"]) == {"a": 1000, "b": 1000}
    topics.limit = 500
    assert topics.max_message_bytes(["a"]) == {"a": 1000}
    assert topics.max_message_bytes(["new"]) == {"new": 500}
    clock[0] += 1.1
    assert topics.max_message_bytes(["a"]) == {"a": 500}
