"""Reader of records of one topic by offsets, and of what a group has committed; calls block."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from databus.core.errors.source import SourceUnavailableError
from databus.core.errors.stream import StreamPlaceGoneError
from databus.kafka.client import ClientSettings, LastError, kafka_error
from databus.kafka.consumer import bounded
from databus.kafka.source_errors import source_error
from databus.stream.requests import place_of

_CLIENT: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 2_048,
    "queued.min.messages": 1_000,
    "fetch.wait.max.ms": 100,
}
_GULP = 500
_ALIVE_S = 3.0
_PASSING_S, _LOOK_S, _STEP_S = 0.02, 0.05, 0.5
_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001


@dataclass(frozen=True)
class Most:
    """Most that one read returns: records, bytes, and seconds that it waits for the first of them."""

    records: int
    size: int
    wait_s: float


class PlaceReader:
    """Reader of a topic with a client of its own; one read at a time, other calls beside it.

    Args:
        settings: the cluster.
        topic: its name.
        group: whose offsets are read and committed.
        timeout_s: seconds in which the brokers answer.
    """

    def __init__(self, settings: ClientSettings, topic: str, group: str, timeout_s: float):
        self._settings, self._topic, self._timeout_s = settings, topic, timeout_s
        self._seen = LastError()
        self._client = settings.consumer({**_CLIENT, "group.id": group}, self._seen)
        self._at: dict[int, int] = {}
        self._ended: dict[int, int] = {}  # partition → offset of its end as it was told
        self._reports = 0
        self._stop = threading.Event()
        self._reading = threading.Lock()

    def read(self, places: Mapping[int, int], most: Most) -> list[Message]:
        """Return records from places on, those of a partition in order; empty where there are none and none came.

        Raises:
            StreamPlaceGoneError: the topic has no record at a place, nor ends there.
            SourceError: the cluster does not answer or refuses.
        """
        with self._reading:
            self._seek(places)
            deadline = time.monotonic() + most.wait_s
            found: list[Message] = []
            size = 0
            while not self._stop.is_set():
                left = _PASSING_S if found else max(_LOOK_S, min(_STEP_S, deadline - time.monotonic()))
                messages = self._consume(min(_GULP, most.records - len(found)), left)
                for message in messages:
                    size += _size(message)
                    if size > most.size and found:
                        self._at = {}  # the rest of them is read again
                        return found
                    partition, offset = place_of(message)
                    self._at[partition] = offset + 1
                    found.append(message)
                if len(found) >= most.records or size >= most.size or (found and not messages):
                    break
                if not found and time.monotonic() >= deadline and self._is_over(places, deadline):
                    break
            return found

    def _is_over(self, places: Mapping[int, int], deadline: float) -> bool:
        """Return whether all partitions were read to their ends: before that nobody knows that there is nothing.

        Raises:
            SourceUnavailableError: they were not for long.
        """
        if self._ended.keys() >= places.keys():
            self._check_alive()
            return True
        if time.monotonic() > deadline + self._timeout_s:
            raise SourceUnavailableError(f"{self._settings.conn_id}: {self._topic} cannot be read: no answer")
        return False

    def read_spans(self, spans: Mapping[int, tuple[int, int]]) -> list[Message]:
        """Return all records of spans (first offset, the one behind the last).

        Raises:
            StreamPlaceGoneError: retention has passed the beginning of one.
            SourceUnavailableError: they did not come in time.
        """
        with self._reading:
            self._at = {}
            self._seek({partition: start for partition, (start, _) in spans.items()})
            ends = {partition: end for partition, (_, end) in spans.items()}
            found: list[Message] = []
            deadline = time.monotonic() + self._timeout_s
            while ends and not self._stop.is_set():
                if time.monotonic() > deadline:
                    raise SourceUnavailableError(f"records of {self._topic} that were delivered did not come again")
                for message in self._consume(_GULP, 0.5):
                    partition, offset = place_of(message)
                    if offset < spans[partition][1]:
                        found.append(message)
                    if offset >= spans[partition][1] - 1:
                        ends.pop(partition, None)
                # What is missing before a later end was compacted away. A new leader tells an end that is too early.
                ends = {p: end for p, end in ends.items() if self._ended.get(p, -1) < end}
            self._at = {}
            return found

    def edges(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return partition → its first offset, and the one behind its last that readers see.

        Raises:
            SourceError: the cluster does not answer or refuses.
        """
        try:
            return {
                p: self._client.get_watermark_offsets(TopicPartition(self._topic, p), timeout=self._timeout_s)
                for p in partitions
            }
        except KafkaException as error:
            failed = kafka_error(error)
        raise source_error(self._settings, f"read the edges of {self._topic}", failed, self._seen)

    def committed(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return partition → the group's committed offset, where it has one.

        Raises:
            SourceError: the cluster does not answer or refuses.
        """
        try:
            answers = self._client.committed([TopicPartition(self._topic, p) for p in partitions], self._timeout_s)
            failed = next((one.error for one in answers if one.error is not None), None)
            if failed is None:
                return {one.partition: one.offset for one in answers if one.offset >= 0}
        except KafkaException as error:
            failed = kafka_error(error)
        raise source_error(self._settings, f"read the offsets of a consumer of {self._topic}", failed, self._seen)

    def commit(self, places: Mapping[int, int]) -> None:
        """Commit offsets of the group; stored by the brokers when it returns.

        Raises:
            SourceError: the cluster does not answer or refuses.
        """
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in places.items()]
        answers: list[TopicPartition] = []
        try:
            # It knows no time-out of its own.
            bounded(lambda: answers.extend(self._client.commit(offsets=offsets, asynchronous=False)), self._timeout_s)
            failed = next((one.error for one in answers if one.error is not None), None)
            if failed is None:
                return
        except KafkaException as error:
            failed = kafka_error(error)
        raise source_error(self._settings, f"commit offsets of a consumer of {self._topic}", failed, self._seen)

    def close(self) -> None:
        """End a read that waits, and close the client."""
        self._stop.set()
        with self._reading:
            self._client.close()

    def _seek(self, places: Mapping[int, int]) -> None:
        if self._at != places:
            self._client.assign([TopicPartition(self._topic, p, offset) for p, offset in places.items()])
            self._at = dict(places)
            self._ended.clear()

    def _consume(self, count: int, seconds: float) -> list[Message]:
        """Return records; notes which partitions have ended."""
        try:
            # `consume` waits until it has as many as asked for: the first one alone is waited for.
            first = self._client.poll(seconds)
            messages = [] if first is None else [first]
            if messages and count > 1:
                messages += self._client.consume(count - 1, _PASSING_S)
        except KafkaException as error:
            failed, partition = kafka_error(error), -1
        else:
            records = []
            for message in messages:
                came, (partition, offset) = message.error(), place_of(message)
                if came is None:
                    self._ended.pop(partition, None)
                    records.append(message)
                elif came.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    self._ended[partition] = offset
                else:
                    failed = came
                    break
            else:
                return records
        self._at = {}
        if failed.code() in _GONE:
            self._raise_gone(partition)
        raise source_error(self._settings, f"read {self._topic}", failed, self._seen)

    def _raise_gone(self, partition: int) -> None:
        earliest, end = self.edges([partition])[partition]
        error = StreamPlaceGoneError(
            f"the offset asked for is not in {self._topic}[{partition}], which has {earliest} to {end}"
        )
        error.earliest = earliest
        raise error

    def _check_alive(self) -> None:
        """Raise an error where connections were lost and no broker answers now: nothing to read is something else."""
        if self._seen.reports == self._reports:
            return
        reports = self._seen.reports
        try:
            self._client.list_topics(self._topic, timeout=min(_ALIVE_S, self._timeout_s))
        except KafkaException as error:
            failed = kafka_error(error)
        else:
            self._reports = reports
            return
        raise source_error(self._settings, f"read {self._topic}", failed, self._seen)


def _size(message: Message) -> int:
    headers: Any = message.headers() or ()
    size = len(message.value() or b"") + len(message.key() or b"")
    return size + sum(len(name) + len(value or b"") for name, value in headers)
