"""Kafka records through Spark's lane: transforms and checks look into them as into any row."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from databus import Batching, Elasticsearch, Filter, Flow, InRange, Kafka, KafkaTopics, Mask, NotNull
from databus.demo.consumers import index_documents
from databus.ops.quarantine import show as quarantine
from databus.ops.services import open_services
from databus.records.quarantine.rows import Selection
from tests.integration.conftest import Started, World
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_target import consume
from tests.integration.registry_writer import writer

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(300)]


def test_transforms_and_checks_see_keys_values_headers_and_places(world: World) -> None:
    logs = Logs(world.sandbox.address("kafka"))
    topic = logs.create(logs.name("s"), 2)
    orders = [{"id": n, "email": None if n == 4 else f"{n}@x", "paid": n % 2 == 0} for n in range(10)]
    logs.write(
        topic,
        [
            {"key": f"k{o['id']}", "value": json.dumps(o), "partition": n % 2, "headers": [("n", str(n))]}
            for n, o in enumerate(orders)
        ],
    )
    flow = Flow(
        name=f"spark_{uuid.uuid4().hex[:10]}",
        source=KafkaTopics(
            conn_id="kafka_east",
            topics=(topic,),
            start="earliest",
            value_format="json",
            fields={"id": "bigint", "email": "string"},
        ),
        transforms=(Filter("id < 8 AND partition = 0"), Mask("value")),
        checks=(NotNull("email"),),
        sinks=(Kafka(conn_id="kafka_east", topic=f"{topic}.out", envelope="row"),),
        batching=Batching(max_wait=timedelta(seconds=1)),
    )
    result = world.run(flow)
    assert (result.rows, result.quarantined) == (10, 1)
    seen = [json.loads(m.value()) for m in consume(logs.servers, f"{topic}.out")]
    assert [(r["id"], r["email"], r["key"], r["offset"]) for r in seen] == [
        (0, "0@x", "k0", 0), (2, "2@x", "k2", 1), (6, "6@x", "k6", 3),
    ]  # fmt: skip
    assert all("paid" not in r["value"] for r in seen)
    assert json.loads(seen[1]["headers"]) == [["n", "2"]]


@pytest.mark.parametrize("form", ["avro", "json_schema", "protobuf"])
def test_what_a_registry_describes_is_transformed_checked_and_indexed(
    started: Started, world: World, form: str
) -> None:
    address = started("apicurio").address("apicurio")
    logs = Logs(world.sandbox.address("kafka"))
    topic = logs.create(logs.name(form.replace("_", "")))
    with SchemaRegistryClient({"url": f"http://{address}/apis/ccompat/v7"}) as client:
        write = writer(client, form, topic, "id", "note")
        good = [write({"id": n, "note": f"note {n}"}) for n in range(6)]
    values = [*good, b"plain text", good[0][:5] + b"\xff"]
    logs.write(topic, [{"key": f"k{n}", "value": value} for n, value in enumerate(values)])
    flow = Flow(
        name=f"spark_{uuid.uuid4().hex[:10]}",
        source=KafkaTopics(
            conn_id="kafka_east",
            topics=(topic,),
            start="earliest",
            value_format=form,  # type: ignore[arg-type] # one of them
            registry_conn_id=world.override("schema_registry_default", extra={"path": "/apis/ccompat/v7"}),
            fields={"id": "bigint", "note": "string"},
        ),
        transforms=(Filter("id IS NULL OR id < 5"), Mask("note", keep_last=1)),
        checks=(InRange("id", minimum=1),),
        sinks=(
            Kafka(conn_id="kafka_east", topic=f"{topic}.out", envelope="row"),
            Elasticsearch(conn_id="opensearch_default", index=topic),
        ),
        batching=Batching(max_wait=timedelta(seconds=1)),
    )
    result = world.run(flow)
    assert (result.rows, result.quarantined) == (8, 3)
    with open_services(flow, world.connections, world.settings) as services:
        held = quarantine.select(flow, services, Selection())
    assert [(row.position, row.cause) for row in held] == [
        (f"{topic}[0]:0", "in_range(id, 1..)"),
        (f"{topic}[0]:6", "decodable(value, unframed)"),
        (f"{topic}[0]:7", "decodable(value, undecodable)"),
    ]
    seen = [json.loads(m.value()) for m in consume(logs.servers, f"{topic}.out")]
    expected = [(n, f"k{n}", f"***{n}") for n in range(1, 5)]
    assert [(r["id"], r["key"], r["note"]) for r in seen] == expected
    found = index_documents(world.sandbox.address("opensearch"), topic).values()
    assert sorted((d["id"], d["key"], d["note"]) for d in found) == expected
