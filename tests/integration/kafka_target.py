"""A Kafka broker, sinks on it, and readers of what they wrote."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import pyarrow as pa
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from databus.core.batches.receipts import WriteReceipt
from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.core.state.plan import Plan
from databus.sinks.kafka import Kafka
from databus.sinks.kafka import session_cache as kept_sessions
from databus.sinks.kafka.markers import MARKER_TOPIC, MarkerKey
from databus.sinks.kafka.sink import KafkaSink
from databus.testing.contract.sink import ContractChange, SinkAdapter

DEADLINE_S = 60


class KafkaAdapter(SinkAdapter):
    """Drives sinks of one flow and topic of their own."""

    name: ClassVar[str] = "kafka"
    marked: ClassVar[bool] = True

    def __init__(self, servers: str, **options: Any):
        self.servers = servers
        self.flow = f"flow_{uuid.uuid4().hex[:12]}"
        self.topic = f"test.{self.flow}"
        self.options: dict[str, Any] = {
            "topic": self.topic,
            "tombstones": False,
            "timeout": timedelta(seconds=20),
            **options,
        }
        self._sinks: list[KafkaSink] = []

    def close(self) -> None:
        """Close the sinks, and what this process keeps of their writers."""
        forget_kept()
        while self._sinks:
            self._sinks.pop().close()

    def make_sink(self, **options: Any) -> KafkaSink:
        return self._open({"bootstrap.servers": self.servers}, **options)

    def make_unreachable_sink(self) -> KafkaSink:
        return self._open({"bootstrap.servers": "127.0.0.1:1"}, timeout=timedelta(seconds=2.0))

    def _open(self, extra: dict[str, Any], **options: Any) -> KafkaSink:
        spec = Kafka(conn_id="kafka_test", **{**self.options, **options})
        connection = Connection(conn_id="kafka_test", conn_type="kafka", extra=extra)
        context = FlowContext(self.flow, Settings("contract", "", ""))
        self._sinks.append(KafkaSink(spec, connection, context))
        return self._sinks[-1]

    def encode(self, changes: Sequence[ContractChange], plan: Plan) -> list[pa.RecordBatch]:
        count = plan.sinks[self.name].partitions[self.topic]
        rows = [self._row(change, count, plan.sinks[self.name].slots) for change in changes]
        half = (len(rows) + 1) // 2
        return [pa.RecordBatch.from_pylist(part, schema=ENCODED) for part in (rows[:half], rows[half:])]

    def _row(self, change: ContractChange, partitions: int, slots: int) -> dict[str, Any]:
        deleted = change.op == "d"
        partition = change.id % partitions
        return {
            "topic": self.topic,
            "partition": partition,
            "slot": partition % slots,
            "key": json.dumps({"id": change.id}, separators=(",", ":")).encode(),
            "value": json.dumps({"op": change.op, "after": None if deleted else {"v": change.v}}).encode(),
            "tombstone": deleted and self.options["tombstones"],
            "event_id": change.event_id,
            "ts_ms": change.position,
            "database": "shop",
            "table": "orders",
            "log": "mysql-bin.000001",
            "place": change.position,
            "ordinal": change.ordinal,
            "part": 0,
        }

    def write(self, sink: Any, plan: Plan, changes: Sequence[ContractChange], slot: int = 0) -> WriteReceipt:
        return self.settled(super().write(sink, plan, changes, slot))

    def settled(self, receipt: WriteReceipt) -> WriteReceipt:
        """Wait until what was committed is visible: the broker writes a transaction's end after it has answered."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        last = {
            TopicPartition(self.topic, int(name.rpartition("[")[2][:-1])): facts["last_offset"]
            for name, facts in receipt.outputs.items()
            if "last_offset" in facts
        }

        def visible() -> bool:
            stable = admin.list_offsets(
                dict.fromkeys(last, OffsetSpec.latest()), isolation_level=IsolationLevel.READ_COMMITTED
            )
            return all(future.result().offset > last[partition] for partition, future in stable.items())

        if last:
            wait_until(visible, "end of the transaction")
        return receipt

    def messages(self, isolation: str = "read_committed") -> list[Any]:
        """Return every message up to the end of each partition, partition by partition."""
        return consume(self.servers, self.topic, isolation)

    def read_back(self) -> dict[int, int]:
        state: dict[int, int] = {}
        for message in self.messages():
            key = json.loads(message.key())["id"]
            after = json.loads(message.value())["after"] if message.value() else None
            state.pop(key, None)
            if after is not None:
                state[key] = after["v"]
        return state

    def delivered(self) -> list[str]:
        return [event_id(message) for message in self.messages()]


ENCODED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("slot", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("tombstone", pa.bool_()),
        ("event_id", pa.string()),
        ("ts_ms", pa.int64()),
        ("database", pa.string()),
        ("table", pa.string()),
        ("log", pa.string()),
        ("place", pa.int64()),
        ("ordinal", pa.int64()),
        ("part", pa.int16()),
    ]
)


def consume(servers: str, topic: str, isolation: str = "read_committed") -> list[Any]:
    """Read a topic to the end of each partition (PARTITION_EOF, since control records leave holes in the offsets)."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        found: list[Any] = []
        waiting, deadline = set(partitions), time.monotonic() + DEADLINE_S
        while waiting:
            assert time.monotonic() < deadline, f"no end of {topic} within {DEADLINE_S} s"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                waiting.discard(message.partition())
            else:
                found.append(message)
        return sorted(found, key=lambda m: (m.partition(), m.offset()))
    finally:
        consumer.close()


def event_id(message: Any) -> str:
    return dict(message.headers())["event_id"].decode()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} not within {DEADLINE_S} s"
        time.sleep(0.05)


def forget_kept() -> None:
    """Make the next writer open a producer of its own, as one in another process does."""
    while kept_sessions._kept:
        kept_sessions._kept.popitem()[1].discard()


class PausedWrite:
    """A writer in a thread whose input stops after its first batch until it is told to go on."""

    def __init__(self, adapter: KafkaAdapter, sink: KafkaSink, plan: Plan, changes: Sequence[ContractChange]):
        self.result: WriteReceipt | Exception | None = None
        self._reached, self._go = threading.Event(), threading.Event()
        batches, writer = adapter.encode(changes, plan), sink.writer(plan)

        def rows() -> Iterator[pa.RecordBatch]:
            yield batches[0]
            self._reached.set()
            assert self._go.wait(DEADLINE_S)
            yield from batches[1:]

        def run() -> None:
            try:
                self.result = writer.write(rows(), 0)
            except Exception as error:  # noqa: BLE001 - handed to the test
                self.result = error
            finally:
                self._reached.set()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert self._reached.wait(DEADLINE_S)

    def finish(self) -> WriteReceipt | Exception | None:
        self._go.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.result


def make_marker_topic(address: str) -> None:
    """Make the topic of the markers, unless it is there."""
    admin = AdminClient({"bootstrap.servers": address})
    if MARKER_TOPIC not in admin.list_topics(timeout=20).topics:
        for made in admin.create_topics([NewTopic(MARKER_TOPIC, 16, 1)]).values():
            made.result(20)
    wait_until(lambda: MARKER_TOPIC in admin.list_topics(timeout=20).topics, "the marker topic")


def forget_markers(servers: str, flow: str, sink: str, installation: str = "test") -> None:
    """Delete a flow's markers, as the brokers do with those that nobody writes again for offsets.retention.minutes."""
    group = MarkerKey(installation, flow, sink).group
    admin = AdminClient({"bootstrap.servers": servers})  # without it the answer never comes
    admin.delete_consumer_groups([group])[group].result(DEADLINE_S)
