"""The writer of the profiles without transactions: rows are produced and acknowledged, and no marker is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from databus.core.batches.receipts import WriteReceipt
from databus.core.errors.sink import SinkUnavailableError
from databus.core.flow_specs import Profile
from databus.core.state.plan import Plan
from databus.kafka.callbacks import fatal_error_raised
from databus.kafka.client import LastError, sink_error
from databus.kafka.client_settings import merged
from databus.sinks.kafka.produce import produce
from databus.sinks.kafka.session import ProducerSettings
from databus.sinks.kafka.tally import MessageTally, too_large
from databus.sinks.kafka.topics.standing import PinnedTopics

SETTINGS: Mapping[Profile, Mapping[str, Any]] = {
    "at_least_once": {"acks": "all", "enable.idempotence": True, "linger.ms": 20},
    "throughput_first": {"acks": "1", "enable.idempotence": False, "linger.ms": 100, "batch.size": 4_000_000},
}
"""librdkafka settings of each profile; the sink's own `producer` settings come last."""


class _WatchedProducer:
    """A producer of which every failed delivery is noted, also of records that report theirs elsewhere."""

    def __init__(self, producer: Producer, failed: Callable[[Any, Any], None]):
        self._producer, self._failed = producer, failed
        self.poll = producer.poll
        self.list_topics = producer.list_topics

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, report: Callable[..., None] | None, *others: Any
    ) -> None:
        """Hand a record to the producer."""
        self._producer.produce(topic, value, key, partition, self._both(report) if report else None, *others)

    def _both(self, report: Callable[..., None]) -> Callable[..., None]:
        def delivered(error: Any, message: Any) -> None:
            self._failed(error, message)
            report(error, message)

        return delivered


class PlainSession:
    """A producer without transactions, of one batch and slot."""

    def __init__(self, settings: ProducerSettings, profile: Profile):
        self._settings = settings
        self._seen = LastError()
        self._lost: list[tuple[Any, str]] = []
        ours = {"queue.buffering.max.kbytes": 131_072, "compression.type": settings.compression, **SETTINGS[profile]}
        largest = {"message.max.bytes": settings.librdkafka()["message.max.bytes"]}
        chosen = merged(ours, settings.extra, largest)
        chosen["batch.size"] = min(int(chosen.get("batch.size", 1_000_000)), settings.batch_bytes)
        chosen["on_delivery"] = self._failed
        self._producer = settings.client.producer(chosen, self._seen)
        self.producer = _WatchedProducer(self._producer, self._failed)

    def flush(self) -> None:
        """Wait until every record is acknowledged.

        Raises:
            SinkError: a record was refused or not acknowledged in time.
        """
        client = self._settings.client
        try:
            with fatal_error_raised():
                left = self._producer.flush(client.timeout_s)
        except KafkaException as error:
            raise self.produce_failed(error) from error
        if left:
            raise SinkUnavailableError(
                f"{client.conn_id} ({client.servers}): {left} records unacknowledged after {client.timeout_s:.0f} s",
                hint="Check that the brokers run; a retry writes the batch again.",
            )
        if self._lost:
            cause, topic = self._lost[0]
            raise sink_error(client, f"produce to {topic} ({len(self._lost)} records refused)", cause, self._seen)

    def produce_failed(self, error: KafkaException) -> Exception:
        """Map what produce() or poll() raised."""
        return sink_error(self._settings.client, "produce", error, self._seen)

    def discard(self) -> None:
        """Drop what is not sent yet."""
        self._producer.purge()

    def _failed(self, error: Any, message: Any) -> None:
        if error is not None:
            self._lost.append((error, message.topic()))


@dataclass(frozen=True)
class PlainSlotWriter:
    """Writes the slots of one plan at least once.

    Attributes:
        sink: sink name.
        plan: the plan.
        settings: the producer's settings.
        limits: topic → largest record in bytes.
        profile: "at_least_once" or "throughput_first".
        fails: whether a row that is too large stops the batch.
        form: format of keys and values, for those that are held back.
    """

    sink: str
    plan: Plan
    settings: ProducerSettings
    limits: Mapping[str, int] = field(default_factory=dict)
    profile: Profile = "at_least_once"
    fails: bool = False
    form: str = "json"

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Write all rows of a slot in the order given.

        Raises:
            SinkOutputChangedError: a topic of the plan was deleted; part of the rows may be in the others.
            SinkUnavailableError: the brokers do not answer; part of the rows may be in the topics.
            RecordRejectedError: a row is too large, and is to stop the batch; rows before it may be in the topics.
        """
        tally = MessageTally(self.sink, self.limits, self.form)
        session: PlainSession | None = None
        standing = PinnedTopics.of(self.plan, self.sink, self.settings.client)
        try:
            with standing.explained():
                for batch in rows:
                    standing.require()
                    session = session or PlainSession(self.settings, self.profile)
                    fitting = tally.accept(batch)
                    if self.fails and tally.rejected:
                        raise too_large(tally.rejected, f"flow {self.plan.flow}, slot {slot}")
                    produce(session, fitting, tally)
                if session is not None:
                    session.flush()
                    standing.require()
        except BaseException:
            if session is not None:
                session.discard()
            raise
        return tally.receipt(slot, self.plan.batch)
