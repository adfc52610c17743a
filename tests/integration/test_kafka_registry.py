"""Flows of Kafka topics whose keys and values a real schema registry describes, written by Confluent's serialisers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from databus import DropColumns, Flow, Kafka, KafkaTopics
from databus.core.errors import RegistryUnavailableError
from databus.core.findings import Level
from databus.ops.health.doctor import examine_flow
from databus.ops.quarantine import show as quarantine
from databus.ops.services import open_services
from databus.records.quarantine.held_row import HeldRow
from databus.records.quarantine.rows import Selection
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.integration.kafka_world import KafkaWorld
from tests.integration.registry_writer import key_writer, writer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FORMATS = ("avro", "json_schema", "protobuf")


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> KafkaWorld:
    return KafkaWorld(started("zookeeper", "kafka", "apicurio"), tmp_path_factory.mktemp("registry"))


@pytest.fixture
def client(world: KafkaWorld) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": f"http://{world.sandbox.address('apicurio')}/apis/ccompat/v7"}) as opened:
        yield opened


def flow_of(world: KafkaWorld, topic: str, form: str, **options: Any) -> Flow:
    transforms = options.pop("transforms", ())
    registry = world.override(
        "schema_registry_default", extra={"path": "/apis/ccompat/v7", "timeout": 5, "max.retries": 0}
    )
    source = {
        "conn_id": "kafka_east",
        "topics": (topic,),
        "start": "earliest",
        "value_format": form,
        "registry_conn_id": registry,
        "fields": {"id": "bigint", "price": "double"},
        **options,
    }
    return Flow(
        name=f"registry_{uuid.uuid4().hex[:10]}",
        source=KafkaTopics(**source),
        transforms=transforms,
        sinks=(Kafka(conn_id="kafka_east", topic=f"{topic}.out", envelope="row", partitions=1, tombstones=False),),
    )


def arrived(world: KafkaWorld, topic: str) -> list[dict[str, Any]]:
    return [json.loads(m.value()) for m in consume(world.east.servers, f"{topic}.out")]


def held(world: KafkaWorld, flow: Flow) -> list[HeldRow]:
    with open_services(flow, world.connections, world.settings) as services:
        return quarantine.select(flow, services, Selection())


@pytest.mark.parametrize("form", FORMATS)
def test_two_versions_in_one_batch_and_what_does_not_decode(
    world: KafkaWorld, client: SchemaRegistryClient, form: str
) -> None:
    topic = world.east.create(world.east.name(form.replace("_", "")))
    first = writer(client, form, topic, "id", "note")({"id": 2**53 + 1, "note": "ä"})
    second = writer(client, form, topic, "id", "note", "price")({"id": 2, "note": "b", "price": 1.5})
    assert first[:5] != second[:5], "one schema id for two schemas"
    unknown = b"\0\x7f\xff\xff\xff" + second[5:]
    values = [first, second, b"plain text", unknown, second[:-1], None, first]
    world.east.write(topic, [{"key": f"k{n}", "value": value} for n, value in enumerate(values)])
    flow = flow_of(world, topic, form, transforms=(DropColumns("headers"),))
    world.run(flow)
    rows = {row["offset"]: row for row in arrived(world, topic)}
    assert [(o, row["id"], row["price"]) for o, row in sorted(rows.items()) if o != 5] == [
        (0, 2**53 + 1, None), (1, 2, 1.5), (6, 2**53 + 1, None),
    ]  # fmt: skip
    number = str if form == "protobuf" else int  # ProtoJSON has 64-bit integers as text
    assert json.loads(rows[0]["value"]) == {"id": number(2**53 + 1), "note": "ä"}
    assert json.loads(rows[1]["value"]) == {"id": number(2), "note": "b", "price": 1.5}
    assert [(row.position, row.stage, row.cause) for row in held(world, flow)] == [
        (f"{topic}[0]:2", "check", "decodable(value, unframed)"),
        (f"{topic}[0]:3", "check", "decodable(value, schema_unknown)"),
        (f"{topic}[0]:4", "check", "decodable(value, undecodable)"),
    ]


def test_what_drops_the_value_does_not_let_a_bad_one_pass(world: KafkaWorld, client: SchemaRegistryClient) -> None:
    topic = world.east.create(world.east.name("dropped"))
    good = writer(client, "avro", topic, "id", "note")({"id": 1, "note": "a"})
    key = key_writer(client, topic)
    world.east.write(
        topic,
        [
            {"key": key("a"), "value": good},
            {"key": key("b"), "value": b"bad"},
            {"key": b"bad", "value": good},
            {"key": b"bad", "value": None},  # which thing it deletes cannot be told
            {"key": key("a"), "value": None},
        ],
    )
    flow = flow_of(world, topic, "avro", key_format="avro", transforms=(DropColumns("value"),))
    world.run(flow)
    messages = consume(world.east.servers, f"{topic}.out")
    assert sorted(m.key() for m in messages) == [b'{"key":"\\"a\\""}'] * 2
    assert [(row.position, row.cause) for row in held(world, flow)] == [
        (f"{topic}[0]:1", "decodable(value, unframed)"),
        (f"{topic}[0]:2", "decodable(key, unframed)"),
        (f"{topic}[0]:3", "decodable(key, unframed)"),
    ]


def test_delivered_flagged_where_it_is_asked_for(world: KafkaWorld) -> None:
    topic = world.east.create(world.east.name("flagged"))
    world.east.write(topic, [{"key": "a", "value": b"bad"}])
    flow = flow_of(world, topic, "avro", on_undecodable="deliver")
    world.run(flow)
    (row,) = arrived(world, topic)
    assert (row["value"], row["__flags"], row["id"]) == ("YmFk", ["after.value:unframed"], None)
    assert held(world, flow) == []


def test_an_outage_moves_nothing_and_known_schemas_go_on(world: KafkaWorld, client: SchemaRegistryClient) -> None:
    topic = world.east.create(world.east.name("outage"))
    known = writer(client, "avro", topic, "id", "note")
    world.east.write(topic, [{"key": "a", "value": known({"id": 1, "note": "a"})}])
    flow = flow_of(world, topic, "avro")
    assert [f.level for f in examine_flow(flow, world.connections) if "schema registry" in f.subject] == [Level.OK]
    world.run(flow)
    fresh = writer(client, "avro", topic, "id", "price")({"id": 3, "price": 2.5})
    world.sandbox.pause("apicurio")
    try:
        findings = examine_flow(flow, world.connections)
        assert [f.code for f in findings if f.level is Level.ERROR] == ["registry_unavailable"]
        world.east.write(topic, [{"key": "b", "value": known({"id": 2, "note": "b"})}])
        world.run(flow)
        assert [row["id"] for row in arrived(world, topic)] == [1, 2]
        world.east.write(topic, [{"key": "c", "value": fresh}])
        with pytest.raises(RegistryUnavailableError, match="the schema registry cannot give schema") as refused:
            world.run(flow)
        assert refused.value.retryable
        assert [row["id"] for row in arrived(world, topic)] == [1, 2]
    finally:
        world.sandbox.resume("apicurio")
    world.run(flow)
    assert [(row["id"], row["price"]) for row in arrived(world, topic)] == [(1, None), (2, None), (3, 2.5)]
    assert held(world, flow) == []
