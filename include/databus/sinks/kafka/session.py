"""Transactional sessions: a producer and the consumer that reads its marker, kept between batches of a Python worker.

A new producer connects and initialises its transactions, so Spark's reused Python workers keep theirs
(`kept_sessions`). A kept producer may have been fenced since; `begin` with a probe finds out before any input is
consumed. The live job's, which has just committed, need not ask: whoever writes the marker fences it first
(`Session.committed`).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from databus.core.errors.sink import SinkTransactionHangingError, SinkUnavailableError
from databus.kafka.callbacks import fatal_error_raised
from databus.kafka.client import ClientSettings, LastError, kafka_error, sink_error
from databus.kafka.client_settings import merged
from databus.kafka.consumer import bounded
from databus.sinks.kafka.markers import MARKER_TOPIC, Marker, MarkerKey

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 120_000
_ABORT_TIMEOUT_S = 1.0
_ABORT_WITHIN_S = 10.0
_CAUSE_TIMEOUT_S = 2.0
_GRACE_S = 1.0
_KEPT_TIMEOUT_S = 3.0
"""A kept producer whose coordinator does not answer so long is given up for a new one, which takes less time."""

_MARKER_TIMEOUT_S = 5.0
_CONNECT_WITHIN_S = 2.0
"""A first connection is waited for so long before transactions are asked for."""

_JUST_S = 3.0
"""What was committed so long ago at most is known without asking: batches at the head of the log follow each other."""

_SETTLED_WITHIN_S = 10.0
"""init_transactions ends what was open, so a marker is settled at once; one that is not by then never will be."""

_LOST = b"databus: end of a lost transaction"
"""Key of records that are written to be aborted; compacted topics want one."""

_MARKER_SHARE = 4
"""A marker gets this part of the time-out, but not less than `_MARKER_TIMEOUT_S`: all rows of its transaction were
acknowledged before, and librdkafka may wait for the group's coordinator for ever (see `bounded`), where the next
attempt, with a new producer, does not."""

_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    # The coordinator still closes the last transaction when the next one begins: librdkafka's 100 ms would make each
    # transaction that long.
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 20,
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "queue.buffering.max.kbytes": 131_072,
}


@dataclass(frozen=True)
class ProducerSettings:
    """Producer settings of a slot; a cached producer serves only equal settings.

    Attributes:
        client: how to reach the cluster.
        compression: compression.type.
        max_message_bytes: largest record of any topic; our own check per topic comes first.
        batch_bytes: largest record batch, which every topic must take.
        extra: further librdkafka settings.
    """

    client: ClientSettings
    compression: str = "lz4"
    max_message_bytes: int = 1_048_588
    batch_bytes: int = 1_000_000
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def librdkafka(self) -> dict[str, Any]:
        """Return the producer's settings; the flow's own come last, the guarantee's are refused by the spec."""
        # A record's overhead stays far below 1 KiB; the topic's own limit was checked before.
        config = merged(_PRODUCER, {"compression.type": self.compression}, self.extra)
        config["message.max.bytes"] = min(self.max_message_bytes + 1024, 1_000_000_000)
        config["batch.size"] = min(int(config["batch.size"]), self.batch_bytes)
        return config


class Producing(Protocol):
    """Producer and what rows are produced with.

    Attributes:
        producer: the producer.
    """

    producer: Any

    def produce_failed(self, error: KafkaException) -> Exception:
        """Map what produce() or poll() raised."""
        ...


class Session:
    """Producer session of one slot, initialised, with its marker reader. Used by one thread."""

    def __init__(self, key: MarkerKey, slot: int, settings: ProducerSettings):
        self.key = key
        self.slot = slot
        self.settings = settings
        self.kept = False
        self.hurries = False
        self.pid = os.getpid()
        self._seen = LastError()
        self._committed: tuple[Marker, float, int] | None = None
        self._consumer: Consumer = key.consumer(settings.client, self._seen)
        try:
            # The group's metadata is the same for ever: the consumer never joins it.
            self._group = self._consumer.consumer_group_metadata()
            self.producer: Producer = settings.client.producer(
                {**settings.librdkafka(), "transactional.id": key.transactional_id(slot)}, self._seen
            )
            self._connect()
            self._retry("start transactions", self.producer.init_transactions, settings.client.timeout_s)
        except BaseException:
            self._consumer.close()
            raise

    def _connect(self) -> None:
        """Connect before transactions are asked for: without a connection librdkafka looks for one half a second later.

        What fails here fails there again, with its own error.
        """
        with suppress(KafkaException), fatal_error_raised():
            self.producer.list_topics(MARKER_TOPIC, timeout=min(self.settings.client.timeout_s, _CONNECT_WITHIN_S))

    def committed(self) -> Marker | None:
        """Return the marker that this session has just committed; None when it has to be read.

        Nobody can have moved it since without fencing this producer, whose next transaction then cannot commit: to
        compare a plan with it is as good as to compare it with one that was read. An error of a connection ends that.
        """
        if self._committed is None:
            return None
        marker, since, reports = self._committed
        try:
            with fatal_error_raised():
                self.producer.poll(0)
        except KafkaException as error:  # a fatal error, such as a fence, is raised and not reported
            self._seen(kafka_error(error))
        just = time.monotonic() - since <= _JUST_S and self._seen.reports == reports
        return marker if just else None

    def marker(self) -> Marker | None:
        """Return this slot's committed marker.

        Read after init_transactions, which has finished or aborted whatever an earlier writer had left open.

        Raises:
            SinkTransactionHangingError: something is open all the same: the brokers lost the end of a transaction.
            SinkUnavailableError: no answer in time.
        """
        client, slots = self.settings.client, range(self.slot, self.slot + 1)
        soon = replace(client, timeout_s=min(client.timeout_s, _SETTLED_WITHIN_S))
        try:
            return self.key.read(self._consumer, soon, slots, self._seen)[0]
        except SinkUnavailableError as error:
            self.settled_marker()
            raise self._hanging() from error

    def settled_marker(self) -> Marker | None:
        """Return this slot's marker as it was before any transaction that is open or hangs."""
        client, slots = self.settings.client, range(self.slot, self.slot + 1)
        with closing(self.key.consumer(client, self._seen, settled=False)) as consumer:
            return self.key.read(consumer, client, slots, self._seen)[0]

    def begin(self, probe: Marker | None = None) -> None:
        """Begin a transaction; with `probe`, ask the coordinator at once whether this producer is still the slot's.

        Raises:
            SinkFencedError: another writer took over.
            SinkUnavailableError: with a probe: no broker answers.
        """
        if probe is not None:
            self._ask()
        self._call("begin a transaction", self.producer.begin_transaction)
        if probe is not None:
            self._send(probe, _KEPT_TIMEOUT_S)

    def _ask(self) -> None:
        """Have a broker answer, before a call that may wait for ever where none does (see `bounded`).

        Its producer cannot be dropped then, and librdkafka wakes for it a thousand times a second.
        """
        within_s = min(self.settings.client.timeout_s, _KEPT_TIMEOUT_S)
        self._call("reach a broker", lambda: self.producer.list_topics(MARKER_TOPIC, within_s))

    def commit(self, marker: Marker) -> None:
        """Commit the rows produced since `begin` together with the marker.

        Raises:
            SinkFencedError: another writer took over; nothing of this transaction is visible.
            SinkUnavailableError: no answer in time: the next attempt's marker shows what happened.
        """
        self._committed = None
        self._send(marker)
        self._retry("commit", self.producer.commit_transaction, self.settings.client.timeout_s)
        self._committed = marker, time.monotonic(), self._seen.reports

    def flush(self) -> None:
        """Wait until every record is acknowledged or refused."""
        client = self.settings.client
        within_s = min(client.timeout_s, _KEPT_TIMEOUT_S) if self.hurries else client.timeout_s
        try:
            with fatal_error_raised():
                left = self.producer.flush(within_s)
        except KafkaException as error:
            raise self._mapped("produce", error) from error
        if left:
            raise SinkUnavailableError(
                f"{client.conn_id} ({client.servers}): {left} records unacknowledged after {within_s:.0f} s",
                hint="Check that the brokers run; a retry of the batch goes on from the marker.",
            )

    def produce_failed(self, error: KafkaException) -> Exception:
        """Map what produce() or poll() raised."""
        return self._mapped("produce", error)

    def discard(self) -> None:
        """Abort what is open as far as that is possible, and drop the clients."""
        try:
            bounded(lambda: self.producer.abort_transaction(_ABORT_TIMEOUT_S), _ABORT_WITHIN_S)
        except KafkaException as error:
            # Fenced, never begun, or brokers gone: the next init_transactions aborts it all the same.
            log.debug("abort of %s: %s", self.key.transactional_id(self.slot), error)
        self._consumer.close()

    def _send(self, marker: Marker, within_s: float = 0.0) -> None:
        position = TopicPartition(MARKER_TOPIC, self.slot, marker.batch, metadata=marker.metadata())
        self._retry(
            "write the marker",
            lambda timeout_s: bounded(
                lambda: self.producer.send_offsets_to_transaction([position], self._group, timeout_s),
                timeout_s + _GRACE_S,
            ),
            within_s or self._marker_timeout_s,
        )

    @property
    def _marker_timeout_s(self) -> float:
        return _KEPT_TIMEOUT_S if self.kept else max(self.settings.client.timeout_s / _MARKER_SHARE, _MARKER_TIMEOUT_S)

    def abort_lost(self, topics: Mapping[str, int], error: SinkTransactionHangingError) -> None:
        """Abort a transaction of this slot whose end a lone broker lost: rows and marker, in all partitions alike.

        Ending a transaction of the same producer in a partition ends what hangs there. So one is begun that touches
        every partition, and aborted: no `read_committed` reader sees a record of it.

        Args:
            topics: topic → number of its partitions, all that the transaction may have written to.
            error: the error that showed that it hangs.

        Raises:
            SinkTransactionHangingError: there are several brokers: a partition may hold the transaction's end already,
                and then aborting it elsewhere would repeat rows.
        """
        timeout_s = self.settings.client.timeout_s
        try:
            with fatal_error_raised():
                brokers = len(self.producer.list_topics(timeout=timeout_s).brokers)
        except KafkaException as failed:
            raise self._mapped("count the brokers", failed) from failed
        if brokers != 1:
            raise error
        log.warning("the lone broker lost the end of a transaction, which is aborted now: %s", error.message)
        self.begin()
        for topic, count in topics.items():
            for partition in range(count):
                self._call("produce", partial(self.producer.produce, topic, key=_LOST, partition=partition))
        self.flush()
        self._send(Marker(0, "lost"))
        self._retry("abort", self.producer.abort_transaction, timeout_s)

    def _hanging(self) -> SinkTransactionHangingError:
        client = self.settings.client
        return SinkTransactionHangingError(
            f"{client.conn_id} ({client.servers}): a transaction keeps the marker of slot {self.slot} of group "
            f"{self.key.group} back, although {self.key.transactional_id(self.slot)} has none open",
            hint="The brokers lost its end, as a single replica does when it is restarted in mid-commit. Nothing was "
            "written twice. Find it with `kafka-transactions.sh find-hanging --broker-id N`, and abort it in every "
            "partition that is listed (`kafka-transactions.sh abort`); the batch is then written again. Should the "
            "flow then find its marker a batch behind, rewind it by that batch: `databus checkpoint rewind`.",
        )

    def _call(self, doing: str, call: Callable[[], Any]) -> None:
        try:
            with fatal_error_raised():
                call()
        except KafkaException as error:
            raise self._mapped(doing, error) from error

    def _retry(self, doing: str, call: Callable[[float], Any], within_s: float) -> None:
        # A retriable error of these calls means "call again with the same arguments" (librdkafka's transactional API).
        deadline = time.monotonic() + within_s
        while True:
            try:
                with fatal_error_raised():
                    call(max(deadline - time.monotonic(), 0.1))
            except KafkaException as error:
                if kafka_error(error).retriable() and time.monotonic() < deadline:
                    continue
                raise self._mapped(doing, error) from error
            else:
                return

    def _mapped(self, doing: str, error: KafkaException) -> Exception:
        # In a thread of its own, as in `discard`: the client keeps what a callback raises, and with it what is being
        # handled here.
        with suppress(KafkaException):
            bounded(lambda: self._await_cause(kafka_error(error)), _CAUSE_TIMEOUT_S + _GRACE_S)
        name = self.key.transactional_id(self.slot)
        return sink_error(self.settings.client, f"{doing} as {name}", error, self._seen)

    def _await_cause(self, error: KafkaError) -> None:
        # The cause of a fatal error or a refused login shows in poll() only, raised or by the error callback, and may
        # lag behind the error itself.
        deadline = time.monotonic() + _CAUSE_TIMEOUT_S
        while True:
            self._take(partial(self.producer.poll, 0.05))
            if self._seen.owes_cause_of(error):
                # An error that was raised once is raised again by the calls of a transaction only.
                self._take(self.producer.begin_transaction)
            if not self._seen.owes_cause_of(error) or time.monotonic() > deadline:
                break

    def _take(self, call: Callable[[], Any]) -> None:
        try:
            with fatal_error_raised():
                call()
        except KafkaException as cause:
            self._seen(kafka_error(cause))
