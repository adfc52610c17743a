"""What a Kafka source remembers of logs that go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from databus.core.positions.offsets import KafkaOffsets
from databus.kafka.cluster import EpochOffset, KafkaCluster, Place, TopicFacts
from databus.sources.kafka.partitions import KafkaLogs
from databus.sources.kafka.spec import KafkaTopics


class Cluster:
    """As brokers show topics: those in `going` are listed still, but nobody tells where their logs end."""

    where = "here"

    def __init__(self, ends: dict[Place, int]):
        self.logs, self.going = ends, set[str]()

    def topic_names(self) -> list[str]:
        return sorted({topic for topic, _ in self.logs})

    def describe(self, topics: Sequence[str], wants: Callable[[str, bool], bool]) -> dict[str, TopicFacts]:
        return {topic: TopicFacts(f"id of {topic}", 1) for topic in topics if wants(topic, False)}

    def ends(self, places: Iterable[Place]) -> dict[Place, EpochOffset]:
        return {place: EpochOffset(self.logs[place], 0) for place in places if place[0] not in self.going}

    def earliest(self, places: Iterable[Place]) -> dict[Place, EpochOffset]:
        return {place: EpochOffset(0, 0) for place in places if place[0] not in self.going}


STANDING = KafkaOffsets({"a": {0: 4}, "b": {0: 1}}, {"a": "id of a", "b": "id of b"})


def test_a_topic_in_mid_deletion_is_known_as_it_was_seen_before() -> None:
    cluster = Cluster({("a", 0): 4, ("b", 0): 3})
    logs = KafkaLogs(KafkaTopics(conn_id="kafka", topics=("*",)), cast("KafkaCluster", cast("Any", cluster)))
    logs.state()
    assert logs.unread(STANDING) == {"a": 0, "b": 2}
    cluster.going = {"a", "b"}
    logs.state()
    assert logs.unread(STANDING) == {"a": 0, "b": 2}
    cluster.logs, cluster.going = {}, set()
    logs.state()
    assert logs.unread(STANDING) == {"a": 0, "b": 2}
    cluster.logs = {("a", 0): 5}
    logs.state()
    assert logs.unread(STANDING) == {"a": 1, "b": 2}


def test_a_topic_that_was_never_seen_whole_counts_as_unread() -> None:
    cluster = Cluster({("a", 0): 4})
    cluster.going = {"a"}
    logs = KafkaLogs(KafkaTopics(conn_id="kafka", topics=("*",)), cast("KafkaCluster", cast("Any", cluster)))
    logs.state()
    assert logs.unread(STANDING) == {"a": 1}


def test_a_topic_that_is_in_mid_deletion_at_two_looks_is_known_as_it_was_seen_before() -> None:
    cluster = Cluster({("a", 0): 4, ("b", 0): 3})
    logs = KafkaLogs(KafkaTopics(conn_id="kafka", topics=("*",)), cast("KafkaCluster", cast("Any", cluster)))
    logs.state()
    cluster.going = {"a", "b"}
    logs.state()
    logs.state()
    assert logs.unread(STANDING) == {"a": 0, "b": 2}
    cluster.logs, cluster.going = {}, set()
    logs.state()
    assert logs.unread(STANDING) == {"a": 0, "b": 2}
