"""Heartbeats of mirrors, in MirrorMaker 2's form: topic, key and value as its class `Heartbeat` writes them (KIP-382).

A key is source and target, each a STRING (INT16 length, UTF-8); a value is a version, INT16 0, and a time, INT64 ms
since the epoch: the Kafka protocol's primitive types.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from databus.core.errors.sink import SinkUnavailableError
from databus.core.times import credible
from databus.kafka.client import ClientSettings, LastError, kafka_error, sink_error
from databus.kafka.selection import HEARTBEATS

_VALUE = struct.Struct(">hq")
_TAIL = 1_000
"""So many records from the end are looked through for a mirror's newest."""
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Heartbeat:
    """Heartbeat record.

    Attributes:
        source: name of the site it was written on.
        target: name of the site it is on the way to.
        at: when it was written, aware UTC.
    """

    source: str
    target: str
    at: datetime

    @property
    def key(self) -> bytes:
        """The record's key."""
        return _text(self.source) + _text(self.target)

    @property
    def value(self) -> bytes:
        """The record's value."""
        return _VALUE.pack(0, round(self.at.timestamp() * 1000))

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Heartbeat | None:
        """Return what a record says; None where it is no heartbeat, or has no credible time."""
        if key is None or value is None or len(value) != _VALUE.size:
            return None
        try:
            source, end = _read_text(key, 0)
            target, end = _read_text(key, end)
            version, stamp = _VALUE.unpack(value)
        except (struct.error, UnicodeDecodeError):
            return None
        at = None if version else credible(stamp, datetime.now(UTC))
        return None if at is None else cls(source, target, at)


class HeartbeatWriter:
    """Writes a mirror's heartbeats on its source; used by one thread."""

    def __init__(self, settings: ClientSettings, source: str, target: str):
        self._settings, self._source, self._target = settings, source, target
        self._seen = LastError()
        self._producer: Producer | None = None

    def beat(self) -> None:
        """Write one heartbeat; the topic is made when it is missing, compacted and with one partition.

        Raises:
            SinkAccessError: the source's account may not write there.
            SinkUnavailableError: it was not acknowledged in time.
        """
        now = Heartbeat(self._source, self._target, datetime.now(UTC))
        answers: list[KafkaError | None] = []
        try:
            if self._producer is None:
                self._make_topic()
                self._producer = self._settings.producer({"acks": "all", "message.timeout.ms": 10_000}, self._seen)
            self._producer.produce(
                HEARTBEATS, now.value, now.key, partition=0, on_delivery=lambda error, _: answers.append(error)
            )
            self._producer.flush(_PATIENCE_S)
        except KafkaException as error:
            raise sink_error(self._settings, "write a heartbeat", error, self._seen) from error
        if not answers:
            raise SinkUnavailableError(f"{self._settings.conn_id}: a heartbeat was not acknowledged in time")
        if answers[0] is not None:
            raise sink_error(self._settings, "write a heartbeat", answers[0], self._seen)

    def _make_topic(self) -> None:
        admin = self._settings.admin(self._seen)
        if HEARTBEATS in admin.list_topics(timeout=self._settings.timeout_s).topics:
            return
        topic = NewTopic(HEARTBEATS, 1, -1, config={"cleanup.policy": "compact"})
        try:
            admin.create_topics([topic], request_timeout=self._settings.timeout_s)[HEARTBEATS].result()
        except KafkaException as error:
            if kafka_error(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def newest(settings: ClientSettings, topic: str, source: str, target: str) -> Heartbeat | None:
    """Return a mirror's newest heartbeat in a topic; None where there is none among the last records.

    Raises:
        SinkUnavailableError: the cluster does not answer.
    """
    seen = LastError()
    config = {
        "group.id": "databus.reader", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
    }  # fmt: skip
    consumer = settings.consumer(config, seen)
    try:
        return _newest(consumer, settings, topic, (source, target))
    except KafkaException as error:
        raise sink_error(settings, f"read heartbeats of {topic}", error, seen) from error
    finally:
        consumer.close()


def _newest(consumer: Consumer, settings: ClientSettings, topic: str, way: tuple[str, str]) -> Heartbeat | None:
    if topic not in consumer.list_topics(timeout=settings.timeout_s).topics:
        return None
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=settings.timeout_s)
    consumer.assign([TopicPartition(topic, 0, max(low, high - _TAIL))])
    found: Heartbeat | None = None
    deadline = time.monotonic() + settings.timeout_s
    while time.monotonic() < deadline:
        for message in consumer.consume(_TAIL, 0.2):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                    return found
                raise KafkaException(error)
            beat = Heartbeat.read(message.key(), message.value())
            if beat is not None and (beat.source, beat.target) == way:
                found = beat
    raise SinkUnavailableError(f"{settings.conn_id}: the end of {topic} did not come in time")


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _read_text(data: bytes, start: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, start)
    end = start + 2 + length
    if length < 0 or end > len(data):
        raise struct.error("the text ends early")
    return data[start + 2 : end].decode(), end
