"""Found by reading: topics that are in mid-deletion for longer than one look."""

from __future__ import annotations

from typing import Any, cast

from databus.kafka.cluster import KafkaCluster
from databus.sources.kafka_logs import KafkaLogs
from databus.sources.kafka_topics import KafkaTopics
from tests.unit.sources.test_kafka_logs import STANDING, Cluster


def test_found_a_topic_that_is_in_mid_deletion_at_two_looks_is_known_as_it_was_seen_before() -> None:
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
