"""Looks at a few records at the edges of a range: their size and their times, which no request shows."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from time import monotonic
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, TopicPartition

from databus.core.times import credible
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.client_settings import merged
from databus.kafka.source_errors import source_error
from databus.sources.kafka.fetch import FetchRange

log = logging.getLogger(__name__)

PARTITIONS = 8
"""Partitions looked at, those with the largest shares."""

RECORDS = 16
"""Records looked at of each, at either edge."""

DEFAULT_BYTES = 1_000
_OVERHEAD_BYTES = 12
_PATIENCE_S = 2.0
_IN_PATIENCE = 500
"""Partitions whose first records should have come within that."""

_AT_ONCE = 5_000

Place = tuple[str, int]
"""Topic and partition."""

_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 20,
    # A broker gives whole record batches: where one is larger than this it comes alone, a round trip per partition.
    "fetch.message.max.bytes": 1_048_576,
    "fetch.max.bytes": 16_777_216,
    "queued.min.messages": RECORDS,
    # Having as many, librdkafka would rest for a second before it fetched again, also elsewhere in the partition.
    "fetch.queue.backoff.ms": 1,
}

_OF_MANY = {"fetch.message.max.bytes": 65_536}
"""Of thousands of partitions one record each is wanted."""


@dataclass(frozen=True)
class Sample:
    """Sample of records at the edges.

    Attributes:
        record_bytes: mean size of a record (key, value, headers, 12 bytes of its own).
        first_at: the earliest credible time among the first records, None when none was there.
        last_at: the latest among the last records.
    """

    record_bytes: int
    first_at: datetime | None
    last_at: datetime | None


class Sampler:
    """Sampling consumer, opened when first needed and kept; used by one thread.

    Producers choose the times of records: one that cannot be (`times.credible`) counts as none, the first is logged.
    """

    def __init__(self, settings: ClientSettings, isolation: str, extra: Mapping[str, Any]):
        self._settings, self._seen = settings, LastError()
        self._config = merged(_SETTINGS, extra, {"isolation.level": isolation, "group.id": "databus.reader"})
        self._consumer: Consumer | None = None
        self._warned = False

    def look(self, stretches: Sequence[FetchRange], *, tail: bool = True) -> Sample:
        """Return what the first and, with `tail`, the last records of the largest stretches show."""
        largest = heapq.nlargest(PARTITIONS, (s for s in stretches if s.end > s.begin), key=lambda s: s.end - s.begin)
        heads = self._read([FetchRange(s.topic, s.partition, s.begin, min(s.end, s.begin + RECORDS)) for s in largest])
        tails = heads
        if tail and any(s.end - s.begin > RECORDS for s in largest):
            tails = self._read(
                [FetchRange(s.topic, s.partition, max(s.begin, s.end - RECORDS), s.end) for s in largest]
            )
        sizes = [_size(m) for m in heads]
        mean = max(1, round(sum(sizes) / len(sizes))) if sizes else DEFAULT_BYTES
        return Sample(mean, min(self._times(heads), default=None), max(self._times(tails), default=None))

    def first_times(self, stretches: Sequence[FetchRange]) -> dict[Place, datetime]:
        """Return the time of the first record of each stretch; one that does not come, or has none, is left out."""
        if not stretches:
            return {}
        try:
            # One that has had other partitions before takes seconds of CPU to change over, and keeps them paused.
            with closing(self._settings.consumer(merged(self._config, _OF_MANY), self._seen)) as consumer:
                return self._first_times(consumer, {(s.topic, s.partition): s for s in stretches})
        except KafkaException as error:
            raise source_error(self._settings, "look at records", error, self._seen) from error

    def close(self) -> None:
        """Close the consumer; safe to call twice."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _first_times(self, consumer: Consumer, waiting: dict[Place, FetchRange]) -> dict[Place, datetime]:
        found: dict[Place, datetime] = {}
        deadline = monotonic() + _PATIENCE_S * ceil(len(waiting) / _IN_PATIENCE)
        consumer.assign([TopicPartition(s.topic, s.partition, s.begin) for s in waiting.values()])
        while waiting and monotonic() < deadline:
            done = []
            messages: list[Any] = consumer.consume(_AT_ONCE, 0.02)
            for message in messages:
                place = (message.topic(), message.partition())
                stretch = waiting.pop(place, None)
                if stretch is None:
                    continue
                done.append(TopicPartition(*place))
                if message.error() is None and message.offset() < stretch.end:
                    found.update((place, when) for when in self._times([message]))
            consumer.pause(done)
        consumer.unassign()
        return found

    def _read(self, stretches: Sequence[FetchRange]) -> list[Any]:
        if not stretches:
            return []
        if self._consumer is None:
            self._consumer = self._settings.consumer(self._config, self._seen)
        waiting = {(s.topic, s.partition): s for s in stretches}
        found: list[Any] = []
        paused: list[TopicPartition] = []
        deadline = monotonic() + _PATIENCE_S
        try:
            self._consumer.assign([TopicPartition(s.topic, s.partition, s.begin) for s in stretches])
            # A sample that comes late is no sample: the plan does without.
            while waiting and monotonic() < deadline:
                messages: list[Any] = self._consumer.consume(RECORDS, 0.02)
                for message in messages:
                    place = (message.topic(), message.partition())
                    stretch = waiting.get(place)
                    if stretch is None:
                        continue
                    over = message.error() is not None or message.offset() >= stretch.end
                    if not over:
                        found.append(message)
                    if over or message.offset() + 1 >= stretch.end:
                        del waiting[place]
                        # What its fetch brought besides is not handed on, so that the others' come.
                        paused.append(TopicPartition(*place))
                        self._consumer.pause(paused[-1:])
            self._consumer.resume(paused)
            self._consumer.unassign()
        except KafkaException as error:
            raise source_error(self._settings, "look at records", error, self._seen) from error
        return found

    def _times(self, messages: Sequence[Any]) -> list[datetime]:
        now = datetime.now(UTC)
        found: list[datetime] = []
        for message in messages:
            kind, stamp = message.timestamp()
            if kind == TIMESTAMP_NOT_AVAILABLE:
                continue
            when = credible(stamp, now)
            if when is not None:
                found.append(when)
            elif not self._warned:
                self._warned = True
                log.warning(
                    "%s: record %s[%s]@%s has the time %s ms since the epoch, which cannot be: such times count as not "
                    "known, in plans, lag and alerts (is the producer's unit milliseconds?)",
                    self._settings.conn_id, message.topic(), message.partition(), message.offset(), stamp,
                )  # fmt: skip
        return found


def _size(message: Any) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in message.headers() or ())
    return len(message.key() or b"") + len(message.value() or b"") + headers + _OVERHEAD_BYTES
