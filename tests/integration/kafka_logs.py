"""Topics of a test's own on a real broker: made, filled, cut and read as people and brokers do it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.core.protocols import Source
from databus.core.settings import Settings
from databus.sources.kafka.spec import KafkaTopics

_NUMBERS = itertools.count(1)
DEADLINE_S = 60.0


class Logs:
    """Topics on one cluster."""

    def __init__(self, servers: str):
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})
        self._producer = self._open()

    def name(self, stem: str = "t") -> str:
        return f"{stem}{os.getpid()}x{next(_NUMBERS):04}"

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result()
        self.until(lambda: len(self._partitions(topic)) == partitions, f"{topic} is there")
        return topic

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()
        self.until(lambda: not self._partitions(topic), f"{topic} is gone")

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        self.until(lambda: len(self._partitions(topic)) == partitions, f"{topic} has grown")

    def cut(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset, as retention does."""
        place = TopicPartition(topic, partition, before)
        next(iter(self.admin.delete_records([place]).values())).result()

    def write(self, topic: str, records: Sequence[Mapping[str, Any]]) -> None:
        self._producer = self._open()  # one that knows no former topic of the name, nor its partitions
        for record in records:
            self.write_later(topic, **record)
        self.flush()

    def _open(self) -> Producer:
        return Producer({"bootstrap.servers": self.servers, "linger.ms": 1, "message.max.bytes": 8_000_000})

    def write_later(self, topic: str, **record: Any) -> None:
        self._producer.produce(topic, **record)

    def flush(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0

    def transaction(self, topic: str, records: Sequence[Mapping[str, Any]], *, commit: bool) -> None:
        with self.open_transaction(topic, records, commit=commit):
            pass

    @contextmanager
    def open_transaction(
        self, topic: str, records: Sequence[Mapping[str, Any]], *, commit: bool = False
    ) -> Iterator[None]:
        """Write records in a transaction that ends with the block."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": self.name("tx")})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for record in records:
            producer.produce(topic, **record)
        producer.flush(DEADLINE_S)
        try:
            yield
        finally:
            (producer.commit_transaction if commit else producer.abort_transaction)(DEADLINE_S)

    def open(self, **options: Any) -> Source:
        return self.spec(**options).open(
            _One(Connection(conn_id="kafka_test", conn_type="kafka", extra={"bootstrap.servers": self.servers})),
            FlowContext("logs", Settings("test", "", "")),
        )

    def spec(self, **options: Any) -> KafkaTopics:
        return KafkaTopics(**{"conn_id": "kafka_test", "timeout": timedelta(seconds=20), **options})

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
            time.sleep(0.05)

    def _partitions(self, topic: str) -> Mapping[int, Any]:
        # All topics: to ask for one by name may create it.
        found = self.admin.list_topics(timeout=DEADLINE_S).topics.get(topic)
        if found is None or found.error is not None:
            return {}
        return {number: p for number, p in found.partitions.items() if p.error is None and p.leader >= 0}


class _One:
    def __init__(self, connection: Connection):
        self._connection = connection

    def get(self, conn_id: str) -> Connection:
        assert conn_id == self._connection.conn_id
        return self._connection


class LogsSubject:
    """Two topics of three partitions for the source contract."""

    def __init__(self, logs: Logs):
        self._logs = logs
        stem = logs.name("c")
        self._topics = (logs.create(f"{stem}a", 2), logs.create(f"{stem}b"))
        self._begin = self.open().earliest_offset()
        self._grown = 0

    def open(self) -> Source:
        return self._logs.open(topics=self._topics)

    def grow(self) -> None:
        stamp = int(time.time() * 1000) - 100_000 if not self._grown else int(time.time() * 1000)
        for number in range(40):
            for topic, partition in ((self._topics[0], number % 2), (self._topics[1], 0)):
                key = None if number % 7 == 3 else f"k{number % 5}"
                value = None if number % 11 == 5 else f"value {self._grown:03}"
                self._logs.write_later(topic, key=key, value=value, partition=partition, timestamp=stamp + number * 100)
                self._grown += 1
        self._logs.flush()

    @property
    def begin(self) -> Offset:
        assert isinstance(self._begin, KafkaOffsets)
        return self._begin
