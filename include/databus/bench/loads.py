"""Loads written at a steady rate while a side is measured: rows of MySQL tables, or records of a Kafka topic.

Each carries a number, which no other of its load has, and the time at which it was sent.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql

from databus.core.errors.config import SandboxError

TABLE = "bench.fresh"
_PAD = "x" * 250
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class LoadReceipt:
    """Rows written by one call.

    Attributes:
        first: number of its first row.
        rows: rows.
        seconds: how long it took.
    """

    first: int
    rows: int
    seconds: float


class Load(ABC):
    """Writes rows numbered from 1 on.

    Args:
        rows_per_s: rate.
        together: rows of one transaction, or sent at one time.
    """

    def __init__(self, rows_per_s: int, together: int) -> None:
        self.rows_per_s, self.together = rows_per_s, together
        self.written = 0

    @abstractmethod
    def send(self, first: int, count: int, sent_us: int) -> None:
        """Commit rows numbered from `first` on, sent at `sent_us` (microseconds since the epoch)."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until all that was sent is written."""

    def write(self, seconds: float) -> LoadReceipt:
        """Write for so long at the rate; what was late is made up for."""
        rows, first = max(1, round(self.rows_per_s * seconds)), self.written + 1
        began, done = time.perf_counter(), 0
        while done < rows:
            count = min(self.together, rows - done)
            self.send(first + done, count, time.time_ns() // 1000)
            done += count
            ahead = began + done / self.rows_per_s - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
        self.settle()
        self.written += rows
        return LoadReceipt(first, rows, time.perf_counter() - began)


class TableLoad(Load):
    """Rows of one or more tables in turns, a transaction each.

    Args:
        connection: in autocommit.
        tables: DATABASE.TABLE.
        rows_per_s: rate over all tables.
        together: rows of a transaction.
    """

    def __init__(
        self, connection: pymysql.connections.Connection[Any], tables: Sequence[str], rows_per_s: int, together: int
    ) -> None:
        super().__init__(rows_per_s, together)
        self._connection, self._tables, self._turn = connection, tables, 0

    def send(self, first: int, count: int, sent_us: int) -> None:
        """Insert into the table whose turn it is, and commit."""
        table = self._tables[self._turn % len(self._tables)]
        self._turn += 1
        values = ",".join(f"({number},{sent_us},'{_PAD}')" for number in range(first, first + count))
        with self._connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} (id, sent_us, pad) VALUES {values}")  # noqa: S608 - our own numbers

    def settle(self) -> None:
        """Wait for nothing: each transaction was committed."""


class TopicLoad(Load):
    """Records of one topic, in turns to its partitions, sent at once and acknowledged by all replicas.

    Args:
        bootstrap: the brokers.
        topic: which exists.
        rows_per_s: rate.
        together: records sent at one time.
    """

    def __init__(self, bootstrap: str, topic: str, rows_per_s: int, together: int) -> None:
        from confluent_kafka import Producer

        super().__init__(rows_per_s, together)
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        self._producer, self._topic = Producer(settings), topic
        self._partitions = len(self._producer.list_topics(topic, timeout=30).topics[topic].partitions)
        self._failed = ""

    def send(self, first: int, count: int, sent_us: int) -> None:
        """Hand the records over; they go without waiting for more."""
        for number in range(first, first + count):
            value = json.dumps({"id": number, "sent_us": sent_us, "pad": _PAD})
            key, partition = str(number), number % self._partitions
            self._producer.produce(self._topic, value, key, partition, on_delivery=self._delivered)
        self._producer.poll(0)

    def settle(self) -> None:
        """Wait for the acknowledgements.

        Raises:
            SandboxError: not all came.
        """
        if left := self._producer.flush(_PATIENCE_S):
            raise SandboxError(f"{left} records of {self._topic} were not acknowledged")
        if self._failed:
            raise SandboxError(f"records of {self._topic} were not written: {self._failed}")

    def _delivered(self, error: Any, _message: Any) -> None:
        self._failed = str(error) if error is not None else self._failed


def tables_of(count: int) -> tuple[str, ...]:
    """Return the tables of so many flows."""
    return (TABLE,) if count == 1 else tuple(f"{TABLE}_{number}" for number in range(1, count + 1))


def create_tables(connection: pymysql.connections.Connection[Any], tables: Sequence[str] = (TABLE,)) -> None:
    """Make tables anew, with their database."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS bench CHARACTER SET utf8mb4")
        for table in tables:
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(
                f"CREATE TABLE {table} (id BIGINT NOT NULL PRIMARY KEY, sent_us BIGINT NOT NULL, pad VARCHAR(255))"
            )
