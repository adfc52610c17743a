"""Tables of the snapshot benchmarks: filled past the log, and counted again in the topics that they were sent to."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from databus.bench import orders
from databus.bench.loads import TABLE as FRESH
from databus.bench.loads import TableLoad
from databus.bench.log_files import LogWriter
from databus.core.errors.config import SandboxError
from databus.sandbox.accounts import REPLICATION

ORDERS = "bench.orders"
WARM = "bench.warm"
SIGNALS = "bench.debezium_signal"
_AT_ONCE = 10_000
_PATIENCE_S = 60.0
_READ = b'"op":"r"'


def fill(writer: LogWriter, rows: int, warm_up: int) -> None:
    """Make the orders table with exactly so many rows, and a like one for the warm-up; nothing of it is in the log."""
    orders.create(writer.connection)
    writer.run("SET SESSION sql_log_bin = 0")
    for first in range(1, rows + 1, 5_000):
        orders.insert(writer.connection, first, min(5_000, rows + 1 - first))
    writer.run("SET SESSION sql_log_bin = 1")
    writer.run(f"CREATE TABLE {WARM} LIKE {ORDERS}")
    writer.run("SET SESSION sql_log_bin = 0")
    writer.run(f"INSERT INTO {WARM} SELECT * FROM {ORDERS} ORDER BY id LIMIT {warm_up}")  # noqa: S608 - our own names
    writer.run("SET SESSION sql_log_bin = 1")


def let_debezium_read(writer: LogWriter) -> None:
    """Make the signal table, and grant what Debezium's snapshots need beyond ours: a lock, and rows of that table."""
    writer.run(f"CREATE TABLE {SIGNALS} (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data VARCHAR(2048))")
    writer.run(f"GRANT RELOAD, LOCK TABLES ON *.* TO '{REPLICATION.user}'@'%'")
    writer.run(f"GRANT INSERT ON {SIGNALS} TO '{REPLICATION.user}'@'%'")


class BusyOrders(TableLoad):
    """Rows inserted into one table, and as many updates of the orders, by chance, in the same transactions.

    Args:
        connection: in autocommit.
        orders_rows: rows of the orders, with ids from 1 on.
        writes_per_s: inserts and updates together.
        together: writes of a transaction.
    """

    def __init__(self, connection: Any, orders_rows: int, writes_per_s: int, together: int) -> None:
        super().__init__(connection, (FRESH,), max(1, writes_per_s // 2), max(1, together // 2))
        self._ids = np.random.default_rng(7)
        self._orders_rows = orders_rows

    def send(self, first: int, count: int, sent_us: int) -> None:
        """Update, insert and commit."""
        ids = ",".join(map(str, self._ids.integers(1, self._orders_rows, count, endpoint=True)))
        self._connection.begin()
        with self._connection.cursor() as cursor:
            cursor.execute(f"UPDATE {ORDERS} SET amount = amount + 1 WHERE id IN ({ids})")  # noqa: S608 - numbers
        super().send(first, count, sent_us)
        self._connection.commit()


@dataclass(frozen=True)
class TopicCount:
    """Count of a topic's records of one table.

    Attributes:
        records: records that a read_committed consumer reads.
        keys: different ids among them.
        reads: records of op `r`.
        strays: records whose id is none of the table's.
        value_bytes: bytes of all values.
    """

    records: int
    keys: int
    reads: int
    strays: int
    value_bytes: int

    @property
    def said(self) -> str:
        """The count in a line."""
        return (
            f"{self.records:,} records of {self.keys:,} keys, {self.value_bytes / max(1, self.records):.0f} bytes each"
        )


class TopicCounter:
    """Counts records of a table whose ids are 1, 2, … up to its number of rows."""

    def __init__(self, rows: int) -> None:
        self._seen = np.zeros(rows + 1, np.bool_)
        self._records = self._reads = self._strays = self._bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Count a record; its key is JSON with the id as its only field."""
        number = int(key[key.index(b":") + 1 : -1])
        if 1 <= number < len(self._seen):
            self._seen[number] = True
        else:
            self._strays += 1
        self._records += 1
        self._reads += _READ in value
        self._bytes += len(value)

    def count(self) -> TopicCount:
        """Return what was counted."""
        return TopicCount(self._records, int(self._seen.sum()), self._reads, self._strays, self._bytes)


def topic_count(bootstrap: str, topic: str, rows: int) -> TopicCount:
    """Count the committed records of a topic up to its present end, without tombstones.

    Args:
        bootstrap: the brokers.
        topic: which exists.
        rows: rows of the table that was sent to it, with ids from 1 on.

    Raises:
        SandboxError: the topic cannot be read to its end.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "databus-bench-count",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    counter = TopicCounter(rows)
    with closing(Consumer(settings)) as consumer:
        left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        heard = time.monotonic()
        while left:
            messages = consumer.consume(_AT_ONCE, 1.0)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE_S:
                raise SandboxError(f"{topic} cannot be read to its end: {counter.count().said} were read")
            for message in messages:
                error = message.error()
                if error is None:
                    value = message.value()
                    if value is not None:
                        counter.add(message.key() or b"", value)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                    left.discard(message.partition())
                else:
                    raise SandboxError(f"{topic} cannot be read: {error}")
    return counter.count()
