"""From commit to reader: rows are committed at a steady rate, and a read_committed consumer notes when each arrives."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql

from databus.core.errors import SandboxError

TABLE = "bench.fresh"
_CREATE = (
    "CREATE DATABASE IF NOT EXISTS bench CHARACTER SET utf8mb4",
    f"DROP TABLE IF EXISTS {TABLE}",
    f"CREATE TABLE {TABLE} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, sent_us BIGINT NOT NULL, pad VARCHAR(255))",
)
_PAD = "x" * 250
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Delays:
    """What a reader saw.

    Attributes:
        rows: rows committed.
        seconds: how long it took to commit them.
        ids: ids that arrived, in the order of their arrival.
        delays_s: seconds from just before each row's INSERT (with its COMMIT) was sent until it was read, ascending.
    """

    rows: int
    seconds: float
    ids: Sequence[int]
    delays_s: Sequence[float]

    def percentile(self, share: float) -> float:
        """Return the delay that this share of the rows does not exceed, in seconds."""
        return self.delays_s[min(len(self.delays_s) - 1, int(len(self.delays_s) * share))]

    @property
    def lost(self) -> int:
        """Rows that never arrived."""
        return self.rows - len(set(self.ids))

    @property
    def repeated(self) -> int:
        """Arrivals beyond the first of a row."""
        return len(self.ids) - len(set(self.ids))

    def figures(self) -> dict[str, float]:
        """Return p50, p95, p99 and the maximum, in seconds."""
        shares = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}
        return {name: self.percentile(share) for name, share in shares.items()} | {"max_s": self.delays_s[-1]}


def create(connection: pymysql.connections.Connection[Any]) -> None:
    """Make the table anew."""
    with connection.cursor() as cursor:
        for statement in _CREATE:
            cursor.execute(statement)


def write(
    connection: pymysql.connections.Connection[Any], rows_per_s: int, rows: int, per_transaction: int
) -> tuple[float, int]:
    """Commit rows at a steady rate, each with the time at which it was sent; return the seconds it took, and rows."""
    began, done = time.perf_counter(), 0
    with connection.cursor() as cursor:
        while done < rows:
            sent_us = time.time_ns() // 1000
            count = min(per_transaction, rows - done)
            values = ",".join([f"({sent_us},'{_PAD}')"] * count)
            cursor.execute(f"INSERT INTO {TABLE} (sent_us, pad) VALUES {values}")  # noqa: S608 - our own numbers
            done += count
            ahead = began + done / rows_per_s - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
    return time.perf_counter() - began, done


def end_of(bootstrap: str, topic: str) -> int:
    """Return the sum of the ends of a topic's partitions, 0 while there is no such topic."""
    from confluent_kafka import Consumer, TopicPartition

    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "databus-bench-end", "log_level": 0})) as asked:
        known = asked.list_topics(timeout=30).topics.get(topic)
        if known is None or known.error is not None:
            return 0
        places = [TopicPartition(topic, p) for p in known.partitions]
        return sum(asked.get_watermark_offsets(place, timeout=30, cached=False)[1] for place in places)


class Reader(threading.Thread):
    """Reads a topic from its present end on, as a read_committed consumer that waits for nothing."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="bench-reader", daemon=True)
        self._servers, self._topic = bootstrap, topic
        self._assigned, self._done = threading.Event(), threading.Event()
        self.arrivals: list[tuple[int, float]] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Read until `finish`."""
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001 - raised by `finish`
            self._error = error
            self._assigned.set()

    def ready(self) -> None:
        """Wait until every row that is committed from now on will be read."""
        self._assigned.wait()

    def finish(self, rows: int) -> None:
        """Wait until so many arrived, or nothing came for long; then stop reading.

        Raises:
            SandboxError: the topic could not be read.
        """
        last, since = -1, time.monotonic()
        while self.is_alive() and len(self.arrivals) < rows and time.monotonic() - since < _PATIENCE_S:
            if len(self.arrivals) != last:
                last, since = len(self.arrivals), time.monotonic()
            time.sleep(0.2)
        time.sleep(1.0)  # what comes twice comes now
        self._done.set()
        self.join()
        if self._error is not None:
            raise SandboxError(f"the topic {self._topic} cannot be read: {self._error}") from self._error

    def _read(self) -> None:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        settings = {
            "bootstrap.servers": self._servers,
            "group.id": "databus-bench-freshness",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
        with closing(Consumer(settings)) as consumer:
            partitions = consumer.list_topics(self._topic, timeout=30).topics[self._topic].partitions
            places = [TopicPartition(self._topic, p) for p in partitions]
            for place in places:
                place.offset = consumer.get_watermark_offsets(place, timeout=30, cached=False)[1]
            consumer.assign(places)
            self._assigned.set()
            while not self._done.is_set():
                for message in consumer.consume(1000, 0.05):
                    now = time.time()
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    value = message.value()
                    if value is not None:
                        row = json.loads(value)["after"]
                        self.arrivals.append((row["id"], now - row["sent_us"] / 1e6))


def measured(
    connection: pymysql.connections.Connection[Any], bootstrap: str, topic: str, size: tuple[int, int, int]
) -> Delays:
    """Commit rows and time their arrival in a topic that exists.

    Args:
        connection: of the writer, in autocommit.
        bootstrap: the brokers.
        topic: where the rows arrive.
        size: rows per second, rows, rows to a transaction.
    """
    reader = Reader(bootstrap, topic)
    reader.start()
    reader.ready()
    seconds, _ = write(connection, *size)
    reader.finish(size[1])
    return Delays(size[1], seconds, [n for n, _ in reader.arrivals], sorted(d for _, d in reader.arrivals))
