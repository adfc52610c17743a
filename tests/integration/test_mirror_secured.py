"""A mirror whose sides are secured differently: TLS and a login here, neither there."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from databus.core.errors import SinkAccessError, SourceAccessError
from databus.kafka.client import ClientSettings, LastError
from databus.sandbox.certificates import authority
from databus.sandbox.connections import secured_connections
from tests.integration.conftest import Started
from tests.integration.kafka_world import SERVERS, KafkaWorld, caught_up, records
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> KafkaWorld:
    """The two clusters and the connection `kafka_secured`: SASL_SSL, SCRAM-SHA-512."""
    sandbox = started(*SERVERS, "kafka-tls")
    made = KafkaWorld(sandbox, tmp_path_factory.mktemp("secured_mirror"))
    made.environment |= secured_connections(sandbox.status(), authority(sandbox.home))
    return made


def secured(world: KafkaWorld, **changed: Any) -> str:
    """Return the id of a connection like `kafka_secured` with other fields or extras."""
    known = json.loads(world.environment["AIRFLOW_CONN_KAFKA_SECURED"])
    extra = {k: v for k, v in {**known["extra"], **changed.pop("extra", {})}.items() if v is not None}
    name = world.override("kafka_east")
    world.environment[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({**known, **changed, "extra": extra})
    return name


def write(world: KafkaWorld, topic: str, values: list[bytes]) -> None:
    settings = ClientSettings.of(world.connections.get("kafka_secured"), 30.0)
    producer = Producer(
        {
            "bootstrap.servers": settings.servers, **settings.values,
            "sasl.password": settings.password.get_secret_value(),
        }
    )  # fmt: skip
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_each_side_has_credentials_of_its_own(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = west.name("s")
    values = [b"one", b"two", b"three"]
    write(world, topic, values)  # the broker makes it
    caught_up(world, mirror_of(world, topic, source_conn_id="kafka_secured", target_conn_id="kafka_west"))
    assert [r[2] for r in records(west, topic)] == values
    # And on to the secured cluster under another name, and from there to the east.
    caught_up(
        world,
        mirror_of(
            world, topic, source_conn_id="kafka_west", target_conn_id="kafka_secured", renames={topic: f"{topic}.b"}
        ),
    )
    caught_up(world, mirror_of(world, f"{topic}.b", source_conn_id="kafka_secured", target_conn_id="kafka_east"))
    assert records(east, f"{topic}.b") == records(west, topic)


@pytest.mark.parametrize("side", ["source", "target"])
def test_wrong_credentials_of_either_side_are_named_before_anything_is_written(world: KafkaWorld, side: str) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("s"))
    east.write(topic, [{"value": b"v"}])
    wrong = {"password": "surely-wrong-7431"}, {"extra": {"security.protocol": "PLAINTEXT", "sasl.mechanism": None}}
    for changed in wrong:
        option = f"{side}_conn_id"
        conn_ids = {"source_conn_id": "kafka_east", "target_conn_id": "kafka_west", option: secured(world, **changed)}
        with pytest.raises((SourceAccessError, SinkAccessError)) as refused:
            world.run(mirror_of(world, topic, timeout=timedelta(seconds=10.0), **conn_ids))
        assert conn_ids[option] in str(refused.value)
        assert refused.value.hint
        assert "surely-wrong" not in str(refused.value)
    assert topic not in west.admin.list_topics(timeout=30).topics


def admit_only(world: KafkaWorld, topic: str, who: str) -> None:
    """Give one account all rights on a topic of the secured cluster; from then on others have none."""
    admin = ClientSettings.of(world.connections.get("kafka_secured"), 30.0).admin(LastError())
    allowed = (f"User:{who}", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    binding = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, *allowed)
    for future in admin.create_acls([binding]).values():
        future.result(30)


def test_a_topic_that_the_account_may_not_look_at_is_named_and_not_passed_over(world: KafkaWorld) -> None:
    open_to_all, closed = world.west.name("s"), world.west.name("s")
    for topic in (open_to_all, closed):
        write(world, topic, [b"v"])
    admit_only(world, closed, "somebody-else")
    mirror = mirror_of(world, open_to_all, closed, source_conn_id="kafka_secured", target_conn_id="kafka_west")
    with pytest.raises(SourceAccessError, match=closed) as refused:
        world.run(mirror)
    assert "kafka_secured" in refused.value.message
    assert refused.value.hint
    assert not {open_to_all, closed} & world.west.admin.list_topics(timeout=30).topics.keys()


def test_a_target_that_may_not_be_written_is_named_before_anything_is_written(world: KafkaWorld) -> None:
    topic, closed = world.east.create(world.east.name("s")), world.east.name("s")
    world.east.write(topic, [{"value": b"v"}])
    write(world, closed, [b"before"])
    admit_only(world, closed, "somebody-else")
    mirror = mirror_of(
        world, topic, source_conn_id="kafka_east", target_conn_id="kafka_secured", renames={topic: closed}
    )
    with pytest.raises(SinkAccessError, match=closed) as refused:
        world.run(mirror)
    assert "kafka_secured" in refused.value.message
    assert refused.value.hint
