"""Mirrors between the two clusters of `kafka_world`, for tests of any of their features."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from confluent_kafka.admin import ConfigResource

from databus import Batching, Flow, Mirror
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_world import KafkaWorld


def mirror_of(world: KafkaWorld, *topics: str, **options: Any) -> Flow:
    """Describe a mirror without consumer groups: those that other tests left on the clusters cost each run seconds."""
    quick = world.override("zookeeper_default", extra={"session_timeout_s": 3})
    return Mirror(
        **{
            "name": f"mirror_{uuid.uuid4().hex[:10]}", "source_conn_id": "kafka_east", "target_conn_id": "kafka_west",
            "topics": topics, "batching": Batching(max_rows=200, max_wait=timedelta(seconds=0.3)),
            "zookeeper_conn_id": quick, "groups": (), **options,
        }
    )  # fmt: skip


def settings(logs: Logs, topic: str) -> dict[str, str]:
    (future,) = logs.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in future.result().items()}


def both_ways(world: KafkaWorld, topic: str, **options: Any) -> tuple[Flow, Flow]:
    names = [f"mirror_{uuid.uuid4().hex[:10]}" for _ in range(2)]
    there = mirror_of(world, topic, name=names[0], two_way=names[1], **options)
    back = mirror_of(
        world,
        topic,
        name=names[1],
        two_way=names[0],
        source_conn_id="kafka_west",
        target_conn_id="kafka_east",
        **options,
    )
    return there, back
