"""What fifty consumer groups of a mirror ask of two real clusters, each time that they are carried over."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from databus.kafka.client import ClientSettings
from databus.kafka.consumer import GrouplessConsumer
from databus.kafka.groups import ClusterGroups
from databus.ops.mirror.consumer_groups import LOOK_S, GroupSync
from databus.ops.mirror.translate import translate
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_world import KafkaWorld, caught_up
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world

GROUPS, OTHERS = 50, 10


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count clients that are opened, and what they ask."""
    counted: Counter[str] = Counter()

    def opened(settings: ClientSettings, kind: str, client: Any, *others: Any) -> Any:
        counted[f"{client.__name__} of {settings.conn_id}"] += 1
        return real_open(settings, kind, client, *others)

    def committed(consumer: GrouplessConsumer, places: list[Any], *others: Any) -> Any:
        counted["questions"] += 1
        counted["partitions"] += len(places)
        return super(GrouplessConsumer, consumer).committed(places, *others)

    def list_topics(consumer: GrouplessConsumer, *others: Any, **options: Any) -> Any:
        counted["lists of topics"] += 1
        return super(GrouplessConsumer, consumer).list_topics(*others, **options)

    real_open = ClientSettings._open
    monkeypatch.setattr(ClientSettings, "_open", opened)
    monkeypatch.setattr(GrouplessConsumer, "committed", committed, raising=False)
    monkeypatch.setattr(GrouplessConsumer, "list_topics", list_topics, raising=False)
    return counted


def test_fifty_groups_ask_for_their_own_and_keep_their_clients(world: KafkaWorld, asked: Counter[str]) -> None:
    east, topics = world.east, [world.east.name(f"g{n}") for n in range(GROUPS)]
    for topic in topics:
        east.create(topic, 2)
        east.write(topic, [{"value": f"{i}", "partition": i % 2} for i in range(10)])
    for n in range(OTHERS):
        east.create(east.name(f"other{n}"), 10)
    groups = [f"readers-{topic}" for topic in topics]
    for group, topic in zip(groups, topics, strict=True):
        commit(east, group, topic, 2)
    mirror = mirror_of(world, *topics, groups=())
    caught_up(world, mirror)
    mirror = mirror.model_copy(update={"sinks": (mirror.sinks[0].model_copy(update={"groups": ("readers-*",)}),)})

    now = [0.0]
    with (
        open_services(mirror, world.connections, world.settings) as services,
        closing(GroupSync(mirror, services, 64, lambda: now[0])) as sync,
    ):

        def image(place: tuple[str, int], position: int) -> int:
            return translate(mirror, services, place, position)[1]

        asked.clear()
        assert len(sync.carry()) == 2 * GROUPS
        assert asked.pop("partitions") > GROUPS * (2 * GROUPS + 10 * OTHERS)  # the first look is at all of the source
        assert asked == {
            "GrouplessConsumer of kafka_east": GROUPS, "GrouplessConsumer of kafka_west": GROUPS,
            "AdminClient of kafka_east": 1, "AdminClient of kafka_west": 1,
            "questions": 2 * GROUPS, "lists of topics": 1,
        }  # fmt: skip

        asked.clear()
        assert sync.carry() == []
        assert asked == {"questions": GROUPS, "partitions": 2 * GROUPS}

        asked.clear()
        commit(east, groups[7], topics[7], 5)
        carried = {(moved.group, moved.place): moved.after for moved in sync.carry()}
        assert carried == {(groups[7], place): image(place, 5) for place in places(topics[7])}
        assert asked == {"questions": GROUPS + 1, "partitions": 2 * GROUPS + 2}

        # A topic that is new to a group, and what was changed on the target, are seen with the next whole look.
        commit(east, groups[7], topics[8], 3)
        assert sync.carry() == []
        now[0] += LOOK_S
        asked.clear()
        carried = {(moved.group, moved.place): moved.after for moved in sync.carry()}
        assert carried == {(groups[7], place): image(place, 3) for place in places(topics[8])}
        assert (asked["questions"], asked["lists of topics"], asked["GrouplessConsumer of kafka_west"]) == (100, 1, 0)
        expected = {place: image(place, n) for topic, n in ((topics[7], 5), (topics[8], 3)) for place in places(topic)}
    assert found(world.west, groups[7]) == expected


def places(topic: str) -> list[tuple[str, int]]:
    return [(topic, number) for number in range(2)]


def commit(logs: Logs, group: str, topic: str, offset: int) -> None:
    """Set offsets; the coordinators of a cluster whose first groups these are come up one after the other."""
    wanted = [TopicPartition(*place, offset) for place in places(topic)]

    def done() -> bool:
        (future,) = logs.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
        return not any(place.error for place in future.result().topic_partitions)

    logs.until(done, f"offsets of {group}")


def found(logs: Logs, group: str) -> dict[tuple[str, int], int]:
    with closing(ClusterGroups(ClientSettings("kafka", logs.servers, timeout_s=10.0))) as cluster:
        return cluster.committed([group])[group]
