"""What a mirror's target follows beside the records: settings, partitions, access rules."""

from __future__ import annotations

import pytest
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from databus.core.errors import SinkOutputChangedError, SinkSettingError
from databus.ops.checkpoint import accept
from databus.ops.checkpoint.amend import Attribution
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_world import KafkaWorld, caught_up, records
from tests.integration.mirrors import both_ways, mirror_of, settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


def set_up(logs: Logs, topic: str, **values: str | None) -> None:
    """Give a topic settings (dots as "_"); None takes one away."""
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for future in logs.admin.incremental_alter_configs([resource]).values():
        future.result()

    def shown() -> bool:
        found = settings(logs, topic)
        return all(value is None or found[name.replace("_", ".")] == value for name, value in values.items())

    logs.until(shown, f"{topic} has its settings")


def test_settings_of_topics_that_are_there_follow_the_source(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("s"), 1, {"retention.ms": "1000000", "min.insync.replicas": "1"})
    west.create(topic, 1, {"segment.bytes": "2000000", "message.timestamp.type": "LogAppendTime"})
    mirror = mirror_of(world, topic, topic_config={"max.message.bytes": "3000000"}, exclude_configs=("flush.*",))
    # Nothing is written to the source: what the target has of settings follows all the same.
    caught_up(world, mirror)
    first = settings(west, topic)
    assert first["retention.ms"] == "1000000"
    assert first["message.timestamp.type"] == "CreateTime"
    assert first["segment.bytes"] == settings(east, topic)["segment.bytes"]  # the target's own went back to the default
    set_up(east, topic, retention_ms=None, cleanup_policy="compact", flush_ms="7000", max_message_bytes="4000000")
    set_up(west, topic, flush_ms="9000")
    caught_up(world, mirror)
    second = settings(west, topic)
    assert second["cleanup.policy"] == "compact"
    assert second["retention.ms"] == settings(east, topic)["retention.ms"] != "1000000"
    assert second["flush.ms"] == "9000"  # excluded
    assert second["max.message.bytes"] != "4000000"  # topic_config has the last word


def test_what_a_mirror_must_not_follow_stays(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("s"), 1, {"retention.ms": "1000000", "unclean.leader.election.enable": "true"})
    east.write(topic, [{"value": "v"}])
    caught_up(world, mirror_of(world, topic, follow_settings=False, configs=("retention.*",)))
    assert settings(west, topic)["retention.ms"] == "1000000"
    assert settings(west, topic)["unclean.leader.election.enable"] == "false"  # belongs to the cluster
    set_up(west, topic, retention_ms="2000000")
    there, back = both_ways(world, topic)
    caught_up(world, there)
    caught_up(world, back)
    # Two mirrors that followed each other would undo what a person changes on either side.
    assert (settings(east, topic)["retention.ms"], settings(west, topic)["retention.ms"]) == ("1000000", "2000000")


def test_partitions_follow_though_nothing_is_written(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("p"))
    west.create(topic)
    mirror = mirror_of(world, topic)
    caught_up(world, mirror)
    east.grow(topic, 4)
    caught_up(world, mirror)
    assert len(west.admin.list_topics(timeout=30).topics[topic].partitions) == 4
    east.grow(topic, 5)
    with pytest.raises(SinkSettingError, match="has 4 partitions, and") as refused:
        world.run(mirror_of(world, topic, grow=False))
    assert refused.value.code == "mirror_fewer_partitions"


def test_names_that_clash_are_found_though_only_one_topic_has_records(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    stem = east.name("x")
    first = east.create(f"{stem}.a")
    mirror = mirror_of(world, f"{stem}.*", renames={f"{stem}.a": f"{stem}.b"})
    east.write(first, [{"value": "a"}])
    caught_up(world, mirror)
    east.create(f"{stem}.b")
    east.write(first, [{"value": "a again"}])
    with pytest.raises(SinkSettingError, match=r"would both be") as refused:
        world.run(mirror)
    assert refused.value.code == "mirror_rename_clash"
    assert [r[2] for r in records(west, f"{stem}.b")] == [b"a"]


def rule(topic: str, who: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    literal = ResourcePatternType.LITERAL
    return AclBinding(ResourceType.TOPIC, topic, literal, f"User:{who}", "*", operation, permission)


def rules(logs: Logs, topic: str) -> set[AclBinding]:
    every = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return set(logs.admin.describe_acls(every).result())


def test_access_rules_are_added_for_reading_only_and_by_choice(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("r"))
    other = east.create(east.name("q"))
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    given = [
        rule(topic, "reader", AclOperation.READ, allow),
        rule(topic, "writer", AclOperation.WRITE, allow),
        rule(topic, "owner", AclOperation.ALL, allow),
        rule(topic, "barred", AclOperation.WRITE, deny),
        rule(other, "reader", AclOperation.READ, allow),
    ]
    for future in east.admin.create_acls(given).values():
        future.result()
    east.until(lambda: len(rules(east, topic)) == 4, "the rules are there")
    new = f"kafka_east.{topic}"
    caught_up(world, mirror_of(world, topic, policy="prefix"))
    assert rules(west, new) == set()
    mirror = mirror_of(world, topic, policy="prefix", sync_acls=True)
    expected = {
        rule(new, "reader", AclOperation.READ, allow),
        rule(new, "owner", AclOperation.READ, allow),
        rule(new, "barred", AclOperation.WRITE, deny),
    }
    for _ in range(2):
        caught_up(world, mirror)
        west.until(lambda: rules(west, new) == expected, "the rules were added")
    assert rules(west, topic) == rules(west, other) == rules(west, f"kafka_east.{other}") == set()


def test_a_topic_that_was_deleted_on_the_target_is_not_made_again_in_silence(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    gone, other = (east.create(east.name("gone"), 2), east.create(east.name("stays"), 1))
    mirror = mirror_of(world, gone, other)
    for topic in (gone, other):
        east.write(topic, [{"value": "before"}])
    caught_up(world, mirror)
    west.delete(gone)
    west.until(lambda: gone not in west.admin.list_topics(timeout=20).topics, f"{gone} is gone")
    east.write(other, [{"value": "alone"}])
    caught_up(world, mirror)  # it is looked for where something is to be written to it
    east.write(gone, [{"value": "after"}])
    with pytest.raises(SinkOutputChangedError, match=f"topic {gone} .* none is there now"):
        world.run(mirror)
    assert gone not in west.admin.list_topics(timeout=20).topics
    with open_services(mirror, world.connections, world.settings) as services:
        (accepted,) = accept.execute(mirror, services, Attribution("ada", "deleted on purpose"))
    assert [output.output for output in accepted.outputs] == [gone]
    caught_up(world, mirror)
    assert [value for _, _, value, *_ in records(west, gone)] == [b"after"]
    assert len(west.admin.list_topics(timeout=20).topics[gone].partitions) == 2
