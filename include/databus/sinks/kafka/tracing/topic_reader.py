"""Finding single records of a topic: one offset, or those of a batch's range of offsets that carry a change.

Records of one batch lie in a partition in the order of the log. So a large range is first narrowed by a binary search
over offsets, where the envelope has file and position; what is left is read and compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from databus.core.errors.sink import SinkSettingError, SinkUnavailableError
from databus.core.trace import (
    Change,
    ChangeSelector,
    RowImages,
    Sighting,
    TraceExpiredError,
    TraceLimitError,
    TraceNotRecordedError,
)
from databus.kafka.client import ClientSettings, LastError, kafka_error, sink_error
from databus.sinks.kafka.tracing.images import images_of
from databus.sinks.kafka.tracing.record import is_other, number_in_log, plain_key, reads_alike, sighting_of

_OUTPUT = re.compile(r"(?P<topic>.+)\[(?P<partition>\d+)\]")
_PLACE = re.compile(r"(?P<topic>[^:]+):(?P<partition>\d+):(?P<offset>\d+)")
_CHUNK = 1000
_NEAR = 100
"""Offsets that lie no farther apart are read at once."""

NARROW_FROM = 4_000
"""Ranges of more records are narrowed first."""

KEY_SEARCH_RECORDS = 200_000
"""Newest records of a partition that are looked through for a key."""


class TopicReader:
    """Reads single records, as a read_committed consumer of no group.

    Args:
        sink: sink name.
        settings: how to reach the cluster.
        decoded: gives a message with key and value as JSON, where they are in another format; None where they are not.
        option: of the sink, with which values in keys may be written otherwise than in canonical ones; "" for none.
    """

    def __init__(
        self,
        sink: str,
        settings: ClientSettings,
        decoded: Callable[[Message], Message] | None = None,
        option: str = "",
    ) -> None:
        self._option = option
        self._sink, self._settings, self._seen, self._decoded = sink, settings, LastError(), decoded
        self._opened: Consumer | None = None

    def close(self) -> None:
        """Close the consumer; safe to call twice."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def expect(self, outputs: Iterable[str], rows: Iterable[tuple[str, str]]) -> None:
        """See `TraceableSink.expect`; records are found by ranges, not by keys."""

    def sighting(self, place: str) -> Sighting:
        """See `TraceableSink.sighting`."""
        return self._seen_at(self._message(place))

    def images(self, place: str) -> RowImages:
        """See `ImageSink.images`."""
        return images_of(self._message(place).value())

    def _message(self, place: str) -> Message:
        match = _PLACE.fullmatch(place)
        if match is None:
            raise TraceNotRecordedError(f"{place} is no place of a topic", hint="Write TOPIC:PARTITION:OFFSET.")
        topic, partition, offset = match["topic"], int(match["partition"]), int(match["offset"])
        consumer = self._consumer()
        low, high = self._ends(consumer, topic, partition)
        if offset < low:
            raise TraceExpiredError(
                f"{place} is not kept any more: {topic}[{partition}] begins at {low}",
                hint="The topic's retention (or a deletion of records) removed it.",
            )
        if offset >= high:
            raise TraceNotRecordedError(f"{place} is not written yet: {topic}[{partition}] ends at {high}")
        found = next(self._read(consumer, topic, partition, offset, offset), None)
        if found is None:
            raise TraceNotRecordedError(
                f"{place} holds no record for a read_committed consumer",
                hint="It is a transaction's control record, of an aborted transaction, or was compacted away.",
            )
        return found

    def sightings(self, outputs: Mapping[str, Mapping[str, Any]], selector: ChangeSelector) -> list[Sighting]:
        """See `TraceableSink.sightings`."""
        found: list[Sighting] = []
        expired = []
        consumer = self._consumer()
        for output, facts in sorted(outputs.items()):
            match = _OUTPUT.fullmatch(output)
            if match is None or "first_offset" not in facts or facts["first_offset"] < 0:
                continue
            topic, partition = match["topic"], int(match["partition"])
            low, _ = self._ends(consumer, topic, partition)
            first, last = int(facts["first_offset"]), int(facts["last_offset"])
            if first < low:
                expired.append(f"{output} begins at {low}, the batch wrote {first}–{last}")
            if last < low:
                continue
            first, last = self._narrowed(consumer, (topic, partition), (max(first, low), last), selector)
            for message in self._read(consumer, topic, partition, first, last):
                if is_other(message, selector):
                    continue
                sighting = self._seen_at(message)
                # A tombstone carries an id and no place; it stands right behind its delete.
                follows = sighting.tombstone and found and found[-1].change.event_id == sighting.change.event_id
                if follows or selector.matches(sighting.change):
                    found.append(sighting)
                    if len(found) >= selector.most:
                        return found
        if expired and not found:
            raise TraceExpiredError(
                f"sink {self._sink}: {'; '.join(expired)}", hint="The topic's retention removed the records."
            )
        return found

    def at(self, topic: str, partition: int, offsets: Iterable[int]) -> dict[int, Sighting]:
        """Return what stands at some offsets, by few reads where they lie close together; nothing where no record does.

        Raises:
            SinkError: the cluster does not answer, or has no such topic.
        """
        consumer = self._consumer()
        low, high = self._ends(consumer, topic, partition)
        within = {offset for offset in offsets if low <= offset < high}
        found: dict[int, Sighting] = {}
        for first, last in _together(sorted(within)):
            for message in self._read(consumer, topic, partition, first, last):
                if _offset(message) in within:
                    found[_offset(message)] = self._seen_at(message)
        return found

    def alike(self, topic: str, partition: int, offsets: range, content: str) -> list[Sighting]:
        """Return the records of a range that have some content.

        Raises:
            TraceLimitError: the range is larger than may be read.
            SinkError: the cluster does not answer, or has no such topic.
        """
        consumer = self._consumer()
        low, high = self._ends(consumer, topic, partition)
        first, last = max(low, offsets.start), min(high, offsets.stop) - 1
        if last - first >= KEY_SEARCH_RECORDS:
            raise TraceLimitError(
                f"{topic}[{partition}]: {first} to {last} is more than is looked through for a record"
            )
        seen = (self._seen_at(message) for message in self._read(consumer, topic, partition, first, last))
        return [sighting for sighting in seen if sighting.content == content]

    def cluster_id(self, topic: str) -> str:
        """Return the id of the cluster, asked for with a topic so that it does not report all; "" where it has none.

        Raises:
            SinkError: the cluster does not answer.
        """
        try:
            return self._consumer().list_topics(topic, timeout=self._settings.timeout_s).cluster_id or ""
        except KafkaException as error:
            raise sink_error(self._settings, "ask for the cluster's id", kafka_error(error), self._seen) from error

    def newest(self, outputs: Sequence[str], key: str, table: str) -> list[Sighting]:
        """See `TraceableSink.newest`; looks through the newest `KEY_SEARCH_RECORDS` of the key's partition."""
        from databus.rows.murmur2 import murmur2

        key = plain_key(key)
        hashed = murmur2(key.encode()) & 0x7FFFFFFF
        found: list[Sighting] = []
        gone: SinkSettingError | None = None
        cut = []
        consumer = self._consumer()
        for topic in sorted({m["topic"] for o in outputs if (m := _OUTPUT.fullmatch(o))}):
            try:
                partition = hashed % self._partitions(consumer, topic)
            except SinkSettingError as error:  # deleted since: others may hold the key
                gone = error
                continue
            low, high = self._ends(consumer, topic, partition)
            sighting, reached = self._backwards(
                consumer, (topic, partition), (low, high), ChangeSelector(key=key, table=table)
            )
            if sighting is not None:
                found.append(sighting)
            elif reached > low:
                cut.append(f"{topic}[{partition}] back to offset {reached}")
        if gone is not None and not found and not cut:
            raise gone
        if cut and not found:
            raise TraceLimitError(
                f"sink {self._sink}: no change of {key} in the newest {KEY_SEARCH_RECORDS:,} records: {'; '.join(cut)}",
                hint="Name a change by GTID, FILE:POS or TOPIC:PARTITION:OFFSET; a search sink finds keys at once.",
            )
        if not found and self._option and not reads_alike(key):
            raise TraceLimitError(
                f"sink {self._sink}: no record has the key {key}, and with {self._option} a record's key may read "
                "otherwise than the row's",
                hint="Name the change by its event id, GTID or TOPIC:PARTITION:OFFSET.",
            )
        return found

    def _backwards(
        self, consumer: Consumer, of: tuple[str, int], ends: tuple[int, int], selector: ChangeSelector
    ) -> tuple[Sighting | None, int]:
        low, high = ends
        floor, size, newest = max(low, high - KEY_SEARCH_RECORDS), _CHUNK, None
        while high > floor and newest is None:
            first = max(floor, high - size)
            for message in self._read(consumer, *of, first, high - 1):
                if plain_key(message.key()) == selector.key:
                    seen = self._seen_at(message)
                    newest = seen if selector.matches(seen.change) and not seen.tombstone else newest
            high, size = first, size * 4
        return newest, high

    def _narrowed(
        self, consumer: Consumer, of: tuple[str, int], span: tuple[int, int], selector: ChangeSelector
    ) -> tuple[int, int]:
        """Return the part of a range that holds a transaction, by a binary search; the range where that cannot be."""
        first, last = span
        if selector.position is None or not selector.file or last - first < NARROW_FROM:
            return span
        wanted = number_in_log(Change(file=selector.file, position=selector.position))
        low, high = first, last
        while high - low > NARROW_FROM // 2:
            middle = (low + high) // 2
            message = next(self._read(consumer, *of, middle, high, most=1), None)
            here = number_in_log(self._seen_at(message).change) if message is not None else None
            if here is None or wanted is None or message is None:
                return span
            if here < wanted:
                low = _offset(message)
            elif here > wanted:
                high = middle
            else:
                return max(first, middle - NARROW_FROM), min(last, middle + NARROW_FROM)
        return low, high

    def _read(
        self, consumer: Consumer, topic: str, partition: int, first: int, last: int, most: int = 0
    ) -> Iterator[Message]:
        """Yield committed records from `first` to `last`, both included."""
        if last < first:
            return
        try:
            consumer.assign([TopicPartition(topic, partition, first)])
            given = 0
            while True:
                message = consumer.poll(self._settings.timeout_s)
                if message is None:
                    raise SinkUnavailableError(
                        f"{self._settings.conn_id} ({self._settings.servers}): no answer reading {topic}[{partition}]",
                        hint="Check that the brokers run.",
                    )
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                        return
                    raise sink_error(self._settings, f"read {topic}[{partition}]", error, self._seen)
                if _offset(message) > last:
                    return
                yield message if self._decoded is None else self._decoded(message)
                given += 1
                if _offset(message) == last or given == most:
                    return
        except KafkaException as error:
            raise sink_error(self._settings, f"read {topic}[{partition}]", kafka_error(error), self._seen) from error

    def _ends(self, consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
        try:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition, OFFSET_INVALID), timeout=self._settings.timeout_s
            )
        except KafkaException as error:
            raise sink_error(
                self._settings, f"read the ends of {topic}[{partition}]", kafka_error(error), self._seen
            ) from error
        return int(low), int(high)

    def _partitions(self, consumer: Consumer, topic: str) -> int:
        try:
            known = consumer.list_topics(topic, timeout=self._settings.timeout_s).topics[topic]
        except KafkaException as error:
            raise sink_error(self._settings, f"look at {topic}", kafka_error(error), self._seen) from error
        if known.error is not None:
            raise sink_error(self._settings, f"look at {topic}", known.error, self._seen)
        return len(known.partitions)

    def _consumer(self) -> Consumer:
        if self._opened is None:
            settings = {
                "group.id": "databus.trace",  # never committed to, never joined: partitions are assigned
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
            }
            self._opened = self._settings.consumer(settings, self._seen)
        return self._opened

    def _seen_at(self, message: Message) -> Sighting:
        return sighting_of(message, self._sink, self._settings.conn_id)


def _offset(message: Message) -> int:
    """Return the offset of a message that was read; only one to be produced has none."""
    offset = message.offset()
    assert offset is not None  # noqa: S101 - see above
    return offset


def _together(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of stretches in which the next offset is never far away."""
    edges = [n for n, (one, other) in enumerate(pairwise(offsets), 1) if other - one > _NEAR]
    for begin, end in pairwise([0, *edges, len(offsets)]):
        if begin < end:
            yield offsets[begin], offsets[end - 1]
