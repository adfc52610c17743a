"""Records of the mirror's benchmark: written to the source, and compared with what a consumer reads of the target."""

from __future__ import annotations

import threading
import time
import zlib
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from databus.core.errors.config import SandboxError

KEY_BYTES = 16
_BASE_MS = 1_700_000_000_000
_POOL_BYTES = 1 << 22
_LETTERS = ord("A"), ord("Z")
_AT_ONCE = 10_000
_PATIENCE_S = 60.0
_STEP_S = 0.02


@dataclass(frozen=True)
class Digest:
    """Digest of a topic's records, by partition.

    Attributes:
        counts: records.
        sums: CRC-32 over key, value and time of all records, in their order.
    """

    counts: tuple[int, ...]
    sums: tuple[int, ...]

    @property
    def records(self) -> int:
        """Records of all partitions."""
        return sum(self.counts)


class DigestBuilder:
    """Makes a digest record by record."""

    def __init__(self, partitions: int):
        self._counts, self._sums = [0] * partitions, [0] * partitions

    def add(self, partition: int, key: bytes, value: bytes, stamp_ms: int) -> None:
        """Add the next record of a partition."""
        self._counts[partition] += 1
        seen = zlib.crc32(key, self._sums[partition])
        self._sums[partition] = zlib.crc32(b"%d" % stamp_ms, zlib.crc32(value, seen))

    def digest(self) -> Digest:
        """Return what was added."""
        return Digest(tuple(self._counts), tuple(self._sums))


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Make a topic of one replica.

    Raises:
        SandboxError: it cannot be made.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept: without it, what it was asked for is given up
    try:
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    except KafkaException as error:
        raise SandboxError(f"topic {topic} cannot be made: {error}") from error


def delete(bootstrap: str, topic: str) -> None:
    """Delete a topic, so that its disk space is free for the next run."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result()


def load(bootstrap: str, topic: str, records: int, value_bytes: int, partitions: int, compression: str) -> Digest:
    """Write records with keys and times of their own in turn to all partitions; return what they are.

    Values are capital letters by chance, as Kafka's own performance tool sends them: they hardly compress.

    Raises:
        SandboxError: not all were acknowledged.
    """
    filling = _Filling(bootstrap, topic, value_bytes, partitions, compression)
    filling.write(records)
    return filling.finish()


class _Filling:
    def __init__(self, bootstrap: str, topic: str, value_bytes: int, partitions: int, compression: str):
        from confluent_kafka import Producer

        low, high = _LETTERS
        size = _POOL_BYTES + value_bytes
        self._pool = np.random.default_rng(7).integers(low, high, size, np.uint8, endpoint=True).tobytes()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 262_144,
                "compression.type": compression,
            }
        )
        self._topic, self._value_bytes, self._partitions = topic, value_bytes, partitions
        self._folding, self.written = DigestBuilder(partitions), 0

    def write(self, records: int) -> None:
        """Hand over so many records more."""
        produce, poll = self._producer.produce, self._producer.poll
        for number in range(self.written, self.written + records):
            start = number * 7919 % _POOL_BYTES
            key, value = b"%016d" % number, self._pool[start : start + self._value_bytes]
            partition, stamp = number % self._partitions, _BASE_MS + number
            self._folding.add(partition, key, value, stamp)
            while True:
                try:
                    produce(self._topic, value, key, partition, timestamp=stamp)
                    break
                except BufferError:
                    poll(0.1)
            if number % 1000 == 0:
                poll(0)
        self.written += records

    def finish(self) -> Digest:
        """Wait until all are acknowledged, and return what was written.

        Raises:
            SandboxError: not all were.
        """
        if left := self._producer.flush(_PATIENCE_S):
            raise SandboxError(f"{left} records of {self._topic} were not acknowledged")
        return self._folding.digest()


class SteadyWriter(threading.Thread):
    """Writes records at a steady rate until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, per_second: int, value_bytes: int, partitions: int):
        super().__init__(name="bench-writer", daemon=True)
        self._filling = _Filling(bootstrap, topic, value_bytes, partitions, "none")
        self._per_second, self._over = per_second, threading.Event()
        self._error: Exception | None = None

    @property
    def written(self) -> int:
        """Records so far."""
        return self._filling.written

    def run(self) -> None:
        """Write what is due, again and again."""
        began = time.monotonic()
        try:
            while not self._over.wait(_STEP_S):
                due = int((time.monotonic() - began) * self._per_second) - self._filling.written
                self._filling.write(max(0, due))
        except Exception as error:  # noqa: BLE001 - raised by stop()
            self._error = error

    def stop(self) -> Digest:
        """End, and return what was written.

        Raises:
            SandboxError: not all was acknowledged.
        """
        self._over.set()
        self.join()
        if self._error is not None:
            raise SandboxError(f"the source cannot be written: {self._error}") from self._error
        return self._filling.finish()


def read(bootstrap: str, topic: str) -> Digest:
    """Return what a consumer of committed records reads of a topic up to its present end.

    Raises:
        SandboxError: it cannot be read.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "databus-bench-mirror",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "queued.max.messages.kbytes": 32_768,
    }
    with closing(Consumer(settings)) as consumer:
        known = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        left, folding = set(known), DigestBuilder(len(known))
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in known])
        came = time.monotonic()
        while left:
            found: list[Any] = consumer.consume(_AT_ONCE, 0.2)
            if found:
                came = time.monotonic()
            elif time.monotonic() - came > _PATIENCE_S:
                raise SandboxError(f"nothing came of {topic} for {_PATIENCE_S:.0f} s")
            for message in found:
                error, partition = message.error(), message.partition()
                if error is None:
                    folding.add(partition or 0, message.key() or b"", message.value() or b"", message.timestamp()[1])
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                    left.discard(partition or 0)
                else:
                    raise SandboxError(f"{topic} cannot be read: {error.str()}")
    return folding.digest()
