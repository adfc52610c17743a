"""Requests to write, and what the brokers confirmed of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from databus.stream.body import StreamRecord
from databus.stream.producers import Key, Offsets, WrittenRequest

GIVEN_UP = frozenset({
    KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._INVALID_DIFFERENT_RECORD, KafkaError._STATE,  # noqa: SLF001
})  # fmt: skip
"""Errors of records that were given up for what became of others."""


@dataclass(frozen=True, eq=False)
class WriteRequest:
    """Request to write records to one topic.

    Attributes:
        topic: its name.
        records: in the order of the body.
        producer: producer id; "" for none.
        sequence: its number among the producer's requests to the topic.
        digest: of its records.
    """

    topic: str
    records: Sequence[StreamRecord]
    producer: str = ""
    sequence: int = 0
    digest: str = ""

    @property
    def key(self) -> Key:
        """Key of its producer's state."""
        return self.topic, self.producer


def digest_of(*parts: bytes) -> str:
    """Return a digest of a request's bytes, by which a repeat is told from other records."""
    found = hashlib.blake2b(digest_size=12)
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.hexdigest()


@dataclass(frozen=True)
class WriteAnswer:
    """Answer to a request that was written.

    Attributes:
        offsets: partition → offsets of its records.
        repeated: whether it had been written before.
    """

    offsets: Mapping[int, Offsets]
    repeated: bool = False


def place_of(message: Message) -> tuple[int, int]:
    """Return partition and offset of a message of the brokers, which has both."""
    return cast("tuple[int, int]", (message.partition(), message.offset()))


@dataclass(eq=False)
class Delivery:
    """Confirmations of one request's records, collected as they come.

    Attributes:
        request: the request.
        done: called once all records are confirmed or failed.
        left: records of which nothing is known.
        error: first failure; one that is the request's own, where there is one.
    """

    request: WriteRequest
    done: Callable[[Delivery], Any] = lambda _: None
    left: int = 0
    error: KafkaError | None = None
    _spans: dict[int, list[int]] = field(default_factory=dict)  # partition → first, last, count

    @property
    def offsets(self) -> dict[int, Offsets]:
        """Offsets by partition."""
        return {partition: Offsets(*span) for partition, span in sorted(self._spans.items())}

    @property
    def confirmed(self) -> int:
        """Number of records that are written."""
        return sum(count for _, _, count in self._spans.values())

    @property
    def written(self) -> WrittenRequest:
        """The request as its producer's state keeps it."""
        return WrittenRequest(self.request.sequence, self.request.digest, self.offsets)

    def produce(self, producer: Producer, partition: int) -> None:
        """Give the records to a producer, whose callbacks come with poll or flush; what it refuses at once is `error`.

        Args:
            producer: takes them.
            partition: where records go that have neither key nor partition.
        """
        topic, records = self.request.topic, self.request.records
        self.left = len(records)
        targets = [
            record.partition if record.partition >= 0 or record.key is not None else partition for record in records
        ]
        if any(record.headers for record in records) or len(set(targets)) > 1:
            for number, (record, target) in enumerate(zip(records, targets, strict=True)):
                headers: Any = list(record.headers) or None
                try:
                    producer.produce(topic, record.value, record.key, target, on_delivery=self._report, headers=headers)
                except KafkaException as error:
                    self._refused(len(records) - number, error.args[0])
                    return
                except BufferError as error:
                    self._refused(len(records) - number, KafkaError(KafkaError._QUEUE_FULL, str(error)))  # noqa: SLF001
                    return
            return
        # In one call: a third of the time of a call for each. It takes no headers, and no partition of each message
        # (confluent-kafka 2.16 says it does).
        messages: list[dict[str, Any]] = [
            {"value": record.value} if record.key is None else {"value": record.value, "key": record.key}
            for record in records
        ]
        queued = producer.produce_batch(topic, messages, targets[0], on_delivery=self._report)
        if queued < len(messages):
            self._refused(len(messages) - queued, next(m["_error"] for m in messages if "_error" in m))

    def _refused(self, count: int, error: KafkaError) -> None:
        self.left -= count
        self._failed(error)

    def _failed(self, error: KafkaError) -> None:
        if self.error is None or self.error.code() in GIVEN_UP:
            self.error = error

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(error)
        else:
            partition, offset = place_of(message)
            span = self._spans.get(partition)
            if span is None:
                self._spans[partition] = [offset, offset, 1]
            else:
                if offset > span[1]:
                    span[1] = offset
                elif offset < span[0]:
                    span[0] = offset
                span[2] += 1
        self.left -= 1
        if not self.left:
            self.done(self)
