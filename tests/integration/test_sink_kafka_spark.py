"""The Kafka sink through Spark's Python workers, on a real broker."""

from __future__ import annotations

import json
import os
import pickle
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from databus.core.batches.receipts import WriteReceipt
from databus.rows.murmur2 import murmur2
from databus.runtime.dispatch import slot_task
from tests.integration.kafka_target import (
    DEADLINE_S,
    KafkaAdapter,
    consume,
    event_id,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def adapter(servers: str) -> Iterator[KafkaAdapter]:
    with closing(KafkaAdapter(servers)) as adapter:
        yield adapter


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        opened = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .getOrCreate()
        )
        yield opened
        opened.stop()


@pytest.mark.spark
def test_rows_go_through_spark_s_workers_in_order(servers: str, spark: Any) -> None:
    from pyspark.sql import functions as f

    adapter = KafkaAdapter(servers, partitions=3, slots=2)
    sink, slots, keys = adapter.make_sink(), 2, 50
    for batch in (1, 2):
        plan = adapter.plan(sink, batch, batch - 1)
        number = f.col("id").cast("int")
        key = f.format_string('{"id":%d}', number % keys)
        changes = spark.range(2000).select(
            f.lit("u").alias("op"),
            f.lit("shop").alias("database"),
            f.lit("orders").alias("table"),
            key.cast("binary").alias("key"),
            hashed(f.format_string('{"id":%d}', number % keys)).alias("key_hash"),
            f.lit(None).cast("variant").alias("before"),
            f.parse_json(f.format_string('{"id":%d,"v":%d}', number % keys, number)).alias("after"),
            f.lit("mysql-bin.000001").alias("log"),
            (f.lit(10_000 * batch) + f.col("id")).alias("place"),
            f.lit("").alias("transaction"),
            f.lit(0).cast("bigint").alias("ordinal"),
            f.lit(0).cast("smallint").alias("part"),
            f.format_string("srv:%d:%d", f.lit(batch), number).alias("event_id"),
            f.lit(1).cast("bigint").alias("ts_ms"),
            f.lit(1).cast("bigint").alias("server_id"),
            f.lit(None).cast("string").alias("statement"),
            f.lit(None).cast("array<string>").alias("flags"),
            f.lit("shop.orders").alias("route"),
        )
        placed = (
            sink.encode(changes, plan)
            .repartitionById(slots, f.col("slot"))
            .sortWithinPartitions("log", "place", "ordinal", "part")
        )
        task = slot_task(sink.writer(plan), slots)
        answers = [pickle.loads(r["receipt"]) for r in placed.mapInArrow(task, "slot int, receipt binary").collect()]
        receipts = [adapter.settled(answer) for answer in answers if isinstance(answer, WriteReceipt)]
        assert sorted(r.slot for r in receipts) == [0, 1], answers
        assert sum(r.written for r in receipts) == 2000
    seen: dict[int, list[int]] = {}
    for message in adapter.messages():
        event = json.loads(message.value())
        seen.setdefault(json.loads(message.key())["id"], []).append(event["source"]["pos"])
        assert event["source"]["event_id"] == event_id(message)
    wanted = {k: [10_000 * b + n for b in (1, 2) for n in range(k, 2000, keys)] for k in range(keys)}
    assert seen == wanted
    assert partitions_by_librdkafka(servers, 3, keys) == {
        json.loads(m.key())["id"]: m.partition() for m in adapter.messages()
    }


def hashed(key: Any) -> Any:
    """key_hash as the reader computes it, as a Python UDF."""
    from pyspark.sql import functions as f

    return f.udf(lambda text: murmur2(text.encode()) & 0x7FFFFFFF, "int")(key)


def partitions_by_librdkafka(servers: str, partitions: int, keys: int) -> dict[int, int]:
    """Key → partition as a plain producer with Kafka's default (murmur2) partitioner chooses it."""
    topic = f"oracle.{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2"})
    for key in range(keys):
        producer.produce(topic, b"", f'{{"id":{key}}}'.encode())
    assert producer.flush(DEADLINE_S) == 0
    return {json.loads(m.key())["id"]: m.partition() for m in consume(servers, topic)}
