"""Session of a lane with Kafka: its transactional producer, and its producers' state as committed.

Order at opening: fence whoever had the lane (`init_transactions`, which also ends what it left open), write the claim,
read the state up to the claim. So what was read cannot change but by this session, until it is fenced itself. The
partition's end would not do: a new leader tells one that is too early until its followers have fetched.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from databus.core.errors.root import DatabusError
from databus.core.errors.stream import StreamError, StreamFencedError, StreamNotAnsweredError
from databus.kafka.callbacks import fatal_error_raised
from databus.kafka.client import MISSING, ClientSettings, LastError, kafka_error, sink_error
from databus.stream.options import StreamOptions
from databus.stream.plain import producer_settings
from databus.stream.producers import Key, Producers, ProducerState
from databus.stream.requests import Delivery, place_of

_CLAIM = b"claim"
_READER = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "group.id": "databus-stream-state",
}
_SLACK_S = 10.0
"""Seconds for which a transaction may be open beyond the time-out of its records."""


class LaneSession:
    """Session of a lane; used by its thread alone. After an error it is of no more use: open another one.

    Args:
        settings: the cluster.
        options: of the service.
        number: of the lane.
        owner: identity of this instance of the service.
        claimed: whether this instance has had the lane before, so that another claim means it has been taken over.

    Raises:
        StreamFencedError: another instance has taken the lane over.
        SinkError: the brokers are away or refuse.
    """

    def __init__(self, settings: ClientSettings, options: StreamOptions, number: int, owner: str, *, claimed: bool):
        self._settings, self._options, self._number, self._owner = settings, options, number, owner
        self._id = uuid.uuid4().hex
        self._seen = LastError()
        if claimed and self._read()[1] not in ("", owner):  # "": it is as old as a producer that is forgotten
            raise StreamFencedError(f"another instance of stream {options.name} has taken lane {number} over")
        timeout_s = options.timeout_s
        self._producer = settings.producer(
            {
                **producer_settings(options, timeout_s),
                "transactional.id": f"databus.stream.{options.name}.{number}",
                "transaction.timeout.ms": int((timeout_s + _SLACK_S) * 1000),
            },
            self._seen,
        )
        with self._talking("claim the lane"):
            self._producer.init_transactions(timeout_s)
        self.confirm()
        self.producers, _ = self._read(self._id)

    def confirm(self) -> None:
        """Write the claim: as long as that succeeds nobody else has written state.

        Raises:
            SinkError: another one has taken over, or the brokers are away or refuse.
        """
        claim = {"owner": self._owner, "at_ms": int(time.time() * 1000), "session": self._id}
        with self._talking("claim the lane"):
            self._producer.begin_transaction()
            self._produce(_CLAIM, json.dumps(claim).encode())
            self._producer.commit_transaction(self._options.timeout_s)

    def write(self, deliveries: Sequence[tuple[Delivery, int]]) -> None:
        """Write the records of requests in a transaction that stays open; whether each came, its delivery says.

        Args:
            deliveries: with the partition of those of its records that have neither key nor partition.

        Raises:
            SinkError: the brokers are away or refuse.
        """
        with self._talking("write"):
            self._producer.begin_transaction()
            for delivery, partition in deliveries:
                delivery.produce(self._producer, partition)
            self._producer.flush(self._options.timeout_s + _SLACK_S)
        if any(delivery.left and delivery.error is None for delivery, _ in deliveries):
            raise StreamNotAnsweredError(f"{self._where}: records were not confirmed in time")

    def commit(self, states: Mapping[Key, ProducerState]) -> None:
        """Commit what was written, together with the producers' new states.

        Raises:
            StreamNotAnsweredError: whether it is committed is not known.
        """
        try:
            with self._talking("commit"):
                for (topic, producer), state in states.items():
                    self._produce(f"{topic}/{producer}".encode(), state.to_bytes())
                self._producer.commit_transaction(self._options.timeout_s)
        except DatabusError as error:
            raise StreamNotAnsweredError(f"not known to be committed: {error.message}") from None
        for key, state in states.items():
            self.producers.keep(key, state)

    def cause(self) -> KafkaError:
        """Return why the transaction that is open was given up."""
        try:
            self._producer.begin_transaction()  # refused with the error that the transaction has had
        except KafkaException as error:
            return kafka_error(error)
        return KafkaError(KafkaError.UNKNOWN)

    @property
    def _where(self) -> str:
        return f"{self._settings.conn_id} ({self._settings.servers}), lane {self._number}"

    def _produce(self, key: bytes, value: bytes) -> None:
        self._producer.produce(self._options.state_topic, value, key, self._number)

    @contextmanager
    def _talking(self, doing: str) -> Iterator[None]:
        try:
            with fatal_error_raised():
                yield
        except KafkaException as error:
            failed = kafka_error(error)
        else:
            return
        raise sink_error(self._settings, f"{doing} (lane {self._number})", failed, self._seen)

    def _is_end(self, error: KafkaError) -> bool:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            return True
        if error.code() in MISSING:  # just made, and not known to every broker yet
            return False
        raise sink_error(self._settings, f"read {self._options.state_topic}", error, self._seen)

    def _read(self, until: str = "") -> tuple[Producers, str]:
        """Return the producers of the lane's partition of the state topic, and who has claimed it last.

        Args:
            until: session whose claim is the end; "" for the partition's end as it is told now: whoever has taken the
                lane over may write on and on.
        """
        options = self._options
        producers = Producers(options.producers // options.lanes or 1, int(options.producer_idle_s * 1000))
        owner = ""
        topic = options.state_topic
        consumer = self._settings.consumer(_READER, self._seen)
        try:
            with self._talking("read the producers' state"):
                place = TopicPartition(topic, self._number)
                end = 0 if until else consumer.get_watermark_offsets(place, timeout=options.timeout_s)[1]
            consumer.assign([TopicPartition(topic, self._number, OFFSET_BEGINNING)])
            silent_since = time.monotonic()
            while True:
                with self._talking("read the producers' state"):
                    messages = consumer.consume(10_000, 1.0)
                for message in messages:
                    if (error := message.error()) is not None:
                        if self._is_end(error) and not until:
                            return producers, owner
                        continue
                    key, value = message.key() or b"", message.value()
                    if value is None:
                        continue
                    if key == _CLAIM:
                        claim = json.loads(value)
                        owner = claim["owner"]
                        if until and claim.get("session") == until:
                            return producers, owner
                        continue
                    name, _, producer = key.decode().partition("/")  # a topic's name has no slash
                    producers.keep((name, producer), ProducerState.from_bytes(value))
                newest = max((place_of(message)[1] for message in messages if message.error() is None), default=-1)
                if not until and newest >= max(0, end - 1):
                    return producers, owner
                if newest >= 0:
                    silent_since = time.monotonic()
                elif time.monotonic() - silent_since > options.timeout_s:
                    timed_out = KafkaError(KafkaError._TIMED_OUT, "no answer")  # noqa: SLF001
                    raise sink_error(self._settings, f"read {topic}", timed_out, self._seen)
        except (ValueError, KeyError, TypeError) as error:
            raise StreamError(
                f"topic {topic}[{self._number}] holds what is no state of a producer: {error}",
                hint="Only the service may write there. With another --name it begins anew, and knows no producer.",
            ) from None
        finally:
            consumer.close()
