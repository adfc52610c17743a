"""Records handed over by compiled code: what a consumer reads is what the client's own calls would have written."""

from __future__ import annotations

import os
import random
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from databus.kafka import producer_handle
from databus.kafka.producer_handle import handle_of
from databus.sinks.kafka import produce as module
from databus.sinks.kafka.headers import PREFIX
from databus.sinks.kafka.produce import hand_over

PARTITIONS = 4
"""Of a topic at librdkafka's mock brokers."""


class Producers:
    """Producers of one mock cluster, which lives in the first of them."""

    def __init__(self) -> None:
        self._cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0, "bootstrap.servers": "none:1"})
        broker = next(iter(self._cluster.list_topics(timeout=20).brokers.values()))
        self.servers = f"{broker.host}:{broker.port}"

    def open(self, **settings: Any) -> Producer:
        told = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": self.servers, "linger.ms": 5, **told})

    def topic(self, name: str) -> str:
        """Have a topic made, as mock brokers do where one is asked for."""
        self._cluster.list_topics(name, timeout=20)
        return name

    def read(self, topic: str, expected: int) -> list[list[tuple[Any, ...]]]:
        """Return the records of each partition once there are so many: key, value, headers."""
        found: list[list[tuple[Any, ...]]] = [[] for _ in range(PARTITIONS)]
        with closing(Consumer({"bootstrap.servers": self.servers, "group.id": "none"})) as consumer:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
            while sum(map(len, found)) < expected:
                message = consumer.poll(20)
                assert message is not None, f"{sum(map(len, found))} of {expected} records of {topic}"
                assert message.error() is None, message.error()
                assert message.offset() == len(found[message.partition()])
                found[message.partition()].append((message.key(), message.value(), message.headers()))
        return found


@pytest.fixture(scope="module")
def producers() -> Producers:
    return Producers()


def batch_of(seed: int, rows: int, topics: list[str], **others: Any) -> pa.RecordBatch:
    """Return encoded rows with all that a column may hold: nothing, nothing at all, long and short."""
    made = random.Random(seed)

    def texts(none: float, longest: int) -> list[bytes | None]:
        return [
            None if made.random() < none else made.randbytes(made.choice([0, 1, made.randrange(longest)]))
            for _ in range(rows)
        ]

    columns = {
        "topic": [made.choice(topics) for _ in range(rows)],
        "partition": pa.array([made.randrange(PARTITIONS) for _ in range(rows)], pa.int32()),
        "key": pa.array(texts(0.1, 40), pa.binary()),
        "value": pa.array(texts(0.1, 3000), pa.binary()),
        "event_id": [f"log1/bin.000001:{made.randrange(10**9)}:{row}" for row in range(rows)],
        "ts_ms": pa.array([made.choice([0, -1, 1_700_000_000_000 + row // 3]) for row in range(rows)], pa.int64()),
        "tombstone": [made.random() < 0.2 for _ in range(rows)],
        **others,
    }
    # A slice: what Arrow hands out begins anywhere in its buffers.
    before = {name: [column[0]] for name, column in columns.items()}
    schema = pa.record_batch(columns).schema
    head = pa.record_batch({name: pa.array(one, schema.field(name).type) for name, one in before.items()})
    both = pa.Table.from_batches([head, pa.record_batch(columns)]).combine_chunks().to_batches()[0]
    return both.slice(1)


def records(batch: pa.RecordBatch, topic: str) -> int:
    of_topic = [i for i, name in enumerate(batch["topic"].to_pylist()) if name == topic]
    return len(of_topic) + sum(batch["tombstone"][i].as_py() for i in of_topic)


def renamed(batch: pa.RecordBatch, end: str) -> pa.RecordBatch:
    names = pa.array([name + end for name in batch["topic"].to_pylist()])
    return batch.set_column(batch.schema.get_field_index("topic"), "topic", names)


def chosen_headers(seed: int, rows: int) -> dict[str, Any]:
    made = random.Random(seed)
    values = [[made.choice([None, "", "x", "ä" * 30]) for _ in range(rows)] for _ in range(3)]
    names = ("ce_type", "content-type", "op")
    return {PREFIX + name: pa.array(column, pa.string()) for name, column in zip(names, values, strict=True)}


@pytest.mark.parametrize("headers", [False, True], ids=["usual", "chosen"])
@pytest.mark.parametrize("seed", range(3))
def test_a_consumer_reads_the_same(producers: Producers, seed: int, headers: bool) -> None:
    rows = 2500
    topics = [f"same{seed}{int(headers)}.{name}" for name in "ab"]
    batch = batch_of(seed, rows, topics, **(chosen_headers(seed, rows) if headers else {}))
    reported: dict[str, list[int]] = {"client": [], "compiled": []}
    for end, offsets in reported.items():
        producer = producers.open()
        for topic in topics:
            producers.topic(topic + end)
        told = renamed(batch, end)
        noted = {row: lambda error, message, offsets=offsets: offsets.append(message.offset()) for row in (0, 7, 2499)}
        assert handle_of(producer) is not None
        if end == "client":
            module._by_client(producer, told, noted)
        else:
            hand_over(producer, told, noted)
        assert producer.flush(30) == 0
    assert sorted(reported["client"]) == sorted(reported["compiled"])
    for topic in topics:
        expected = records(batch, topic)
        found = [producers.read(topic + end, expected) for end in reported]
        assert found[0] == found[1]


def test_a_full_queue_is_waited_for(producers: Producers) -> None:
    """Also between a row and its tombstone."""
    batch = batch_of(5, 600, ["full"])
    for end, settings in (("client", {}), ("compiled", {"queue_buffering_max_messages": 1, "linger_ms": 0})):
        producer = producers.open(**settings)
        producers.topic("full" + end)
        hand = module._by_client if end == "client" else hand_over
        hand(producer, renamed(batch, end), {})
        assert producer.flush(30) == 0
    expected = records(batch, "full")
    assert producers.read("fullclient", expected) == producers.read("fullcompiled", expected)


@pytest.mark.parametrize("tombstone", [False, True])
def test_a_refused_record_is_the_clients_error(
    producers: Producers, monkeypatch: pytest.MonkeyPatch, tombstone: bool
) -> None:
    """The rows before it are produced, and none behind it."""
    monkeypatch.setattr(module, "_GROWN_WITHIN_S", 0.1)
    rows, bad = 400, 333
    topic = producers.topic(f"refused{int(tombstone)}")
    flags = [tombstone and row == bad for row in range(rows)]
    batch = batch_of(6, rows, [topic], tombstone=flags)
    partition = np.array(batch["partition"])
    partition[bad] = PARTITIONS + 3
    batch = batch.set_column(batch.schema.get_field_index("partition"), "partition", pa.array(partition))
    producer = producers.open()
    while not producer.list_topics(topic, timeout=20).topics[topic].partitions:
        pass
    with pytest.raises(KafkaException) as raised:
        hand_over(producer, batch, {})
    assert raised.value.args[0].name() == "_UNKNOWN_PARTITION"
    assert producer.flush(30) == 0
    assert sum(map(len, producers.read(topic, bad))) == bad


def test_a_producer_outside_a_transaction_says_so(producers: Producers) -> None:
    producer = producers.open(transactional_id="none-begun")
    producer.init_transactions(20)
    topic = producers.topic("outside")
    said = []
    for hand in (module._by_client, hand_over):
        with pytest.raises(KafkaException) as raised:
            hand(producer, batch_of(7, 300, [topic]), {})
        said.append((raised.value.args[0].name(), raised.value.args[0].str()))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["topic", "event_id"])
def test_what_lacks_something_is_left_to_the_client(producers: Producers, name: str) -> None:
    topic = producers.topic("lacks")
    batch = batch_of(9, 300, [topic])
    column = [None, *batch[name].to_pylist()[1:]]
    batch = batch.set_column(batch.schema.get_field_index(name), name, pa.array(column))
    producer = producers.open()
    if name == "topic":
        with pytest.raises(pa.ArrowInvalid):
            hand_over(producer, batch, {})
    else:
        hand_over(producer, batch, {})
    assert producer.flush(30) == 0
    with pytest.raises(ValueError, match="null"):
        hand_over(producer, renamed(batch_of(9, 300, ["a"]), "\0b"), {})


def test_what_is_no_producer_has_no_handle(producers: Producers, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Producer):
        pass

    producer = Own({"bootstrap.servers": producers.servers})
    assert handle_of(producer) is not None
    assert handle_of(Consumer({"bootstrap.servers": producers.servers, "group.id": "g"})) is None
    assert handle_of(object()) is None
    with monkeypatch.context() as patched:
        patched.setattr(producer_handle, "_NAME", b"#another-layout-")
        assert handle_of(producer) is None
    with monkeypatch.context() as patched:

        def refused(*_: Any) -> int:
            raise PermissionError

        patched.setattr(os, "open", refused)
        assert handle_of(producer) is None
    producer.close()
    assert handle_of(producer) is None


def test_rows_that_all_want_a_report_go_by_the_client(producers: Producers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tables and partitions: each report ends a run."""
    topic = producers.topic("reports")
    batch = batch_of(10, 300, [topic])
    taken: list[int] = []
    monkeypatch.setattr(module, "_compiled", lambda *given: taken.append(len(given[3])))
    told: list[int] = []
    producer = producers.open()
    hand_over(producer, batch, dict.fromkeys(range(5), lambda _, message: told.append(message.offset())))
    assert producer.flush(30) == 0
    assert taken == []
    assert len(told) == 5 + sum(batch["tombstone"].to_pylist()[:5])
    hand_over(producer, batch, dict.fromkeys(range(4), lambda *_: None))
    assert taken == [4]


def test_without_a_handle_the_client_is_called(producers: Producers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "handle_of", lambda _: None)
    topic = producers.topic("without")
    batch = batch_of(8, 300, [topic])
    producer = producers.open()
    hand_over(producer, batch, {})
    assert producer.flush(30) == 0
    assert sum(map(len, producers.read(topic, records(batch, topic)))) == records(batch, topic)
