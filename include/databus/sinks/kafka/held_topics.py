"""Topics read for their state: read_committed, from their beginning to their end, and later on from there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from databus.core.errors.sink import SinkUnavailableError
from databus.kafka.client import ClientSettings, LastError, kafka_error, sink_error
from databus.sinks.kafka.held_rows import batch_of, origin_of, records_of, state_of

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.core.protocols.validated_sink import RowOrigin

Place = tuple[str, int]
"""Topic and number of a partition."""

Key = tuple[str, bytes]
"""Topic, and key of a record in it."""

_AT_ONCE = 10_000
_POLL_S = 0.5
_MOST_BYTES = 64 << 20


class HeldTopics:
    """State of topics, open for reading; that of `rows` is of one moment.

    Args:
        settings: how to reach the cluster.
        group: names the consumers; they join no group.
        envelope: "debezium" or "row".
        partitions: topic → number of its partitions.
    """

    of_one_moment = True

    def __init__(self, settings: ClientSettings, group: str, envelope: str, partitions: Mapping[str, int]):
        self._settings, self._group, self._envelope = settings, group, envelope
        self._places = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._seen = LastError()
        self._consumer: Consumer | None = None
        self._next: dict[Place, int] = {}
        self._watched: dict[Key, tuple[bytes | None, str | None]] = {}
        self._origins: dict[Key, RowOrigin | None] = {}

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Return the records of all keys up to the end that the topics have at the call; see `SinkState.rows`."""
        start = dict.fromkeys(self._places, OFFSET_BEGINNING)
        return self._records(start, self._ends(self._places))

    def later(self) -> Iterator[pa.RecordBatch]:
        """Return the records behind those of `rows`; see `SinkState.later`."""
        start = dict(self._next)
        return self._records(start, self._ends(list(start)))

    def look(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return the last records of some keys: keys not asked for before are looked for from the beginning."""
        asked: list[Key] = list(zip(keys["output"].to_pylist(), keys["key"].to_pylist(), strict=True))
        if new := set(asked) - self._watched.keys():
            self._watched.update(dict.fromkeys(new, (None, None)))
            topics = {topic for topic, _ in self._watched}
            start = {place: OFFSET_BEGINNING for place in self._places if place[0] in topics}
        else:
            start = dict(self._next)
        for messages in self._read(start, self._ends(list(start))):
            for message in messages:
                key = (message.topic(), message.key())
                if key in self._watched:
                    self._watched[key] = state_of(message.value(), self._envelope), _version(message)
                    self._origins[key] = origin_of(message.value(), self._envelope)
        return batch_of([(*key, *self._watched[key]) for key in asked])

    def origin(self, output: str, key: bytes) -> RowOrigin | None:
        """Return the flow and table that the last record of a key names; see `OriginTellingState.origin`."""
        return self._origins.get((output, key))

    def close(self) -> None:
        """Close the consumer; safe to call twice."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _records(self, start: Mapping[Place, int], ends: Mapping[Place, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        for messages in self._read(start, ends):
            left = messages
            while left:  # an Arrow column holds less than 2 GiB
                sizes = np.cumsum([len(message.value() or b"") for message in left])
                count = max(1, int(np.searchsorted(sizes, _MOST_BYTES)))
                yield records_of(left[:count], self._envelope)
                left = left[count:]

    def _read(self, start: Mapping[Place, int], ends: Mapping[Place, tuple[int, int]]) -> Iterator[list[Any]]:
        """Yield messages from some places on up to the ends, once no transaction is open before these.

        A commit is answered before its records can be read: a reader that stopped where it can read would miss them.

        Raises:
            SinkUnavailableError: a transaction stays open, or nobody answers.
        """
        consumer = self._opened()
        left = {place for place, (low, high) in ends.items() if high > max(low, start[place])}
        if left:
            consumer.assign([TopicPartition(*place, start[place]) for place in left])
        heard = time.monotonic()
        while left:
            messages: list[Any] = []
            for message in self._polled(consumer):
                place = (message.topic(), message.partition())
                if (error := message.error()) is not None:
                    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                        raise sink_error(self._settings, f"read {place[0]}[{place[1]}]", error, self._seen)
                    passed = message.offset()
                else:
                    passed, heard = message.offset() + 1, time.monotonic()
                    if passed <= ends[place][1]:
                        messages.append(message)
                if passed >= ends[place][1]:
                    left.discard(place)
            if messages:
                yield messages
            if left and time.monotonic() - heard > self._settings.timeout_s:
                topics = ", ".join(sorted({topic for topic, _ in left}))
                raise SinkUnavailableError(
                    f"{self._settings.conn_id} ({self._settings.servers}): the end of {topics} cannot be read for "
                    f"{self._settings.timeout_s:.0f} s",
                    hint="A transaction of the flow or of another writer is open there: try again behind it.",
                )
        self._next.update({place: high for place, (_, high) in ends.items()})

    def _ends(self, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
        """Return the first offset of partitions, and their ends as of now, records of open transactions included."""
        with closing(self._settings.consumer(self._config("read_uncommitted"), self._seen)) as other:
            return {place: self._watermarks(other, place) for place in places}

    def _watermarks(self, consumer: Consumer, place: Place) -> tuple[int, int]:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=self._settings.timeout_s)
        except KafkaException as error:
            doing = f"read the end of {place[0]}[{place[1]}]"
            raise sink_error(self._settings, doing, kafka_error(error), self._seen) from error
        return int(low), int(high)

    def _polled(self, consumer: Consumer) -> list[Any]:
        try:
            return list(consumer.consume(_AT_ONCE, _POLL_S))
        except KafkaException as error:
            raise sink_error(self._settings, "read topics", kafka_error(error), self._seen) from error

    def _opened(self) -> Consumer:
        if self._consumer is None:
            self._consumer = self._settings.consumer(self._config("read_committed"), self._seen)
        return self._consumer

    def _config(self, isolation: str) -> dict[str, Any]:
        return {
            "group.id": self._group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }


def _version(message: Any) -> str:
    return f"{message.partition()}:{message.offset()}"
