"""Kafka records through Spark's lane: transforms and checks look into them as into any row."""

from __future__ import annotations

import json
import uuid

import pytest

from databus import Batching, Filter, Flow, Kafka, KafkaTopics, Mask, NotNull
from tests.integration.conftest import World
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_target import consume

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
        batching=Batching(max_seconds=1),
    )
    result = world.run(flow)
    assert (result.rows, result.quarantined) == (10, 1)
    seen = [json.loads(m.value()) for m in consume(logs.servers, f"{topic}.out")]
    assert [(r["id"], r["email"], r["key"], r["offset"]) for r in seen] == [
        (0, "0@x", "k0", 0), (2, "2@x", "k2", 1), (6, "6@x", "k6", 3),
    ]  # fmt: skip
    assert all("paid" not in r["value"] for r in seen)
    assert json.loads(seen[1]["headers"]) == [["n", "2"]]
