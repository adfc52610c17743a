"""Writer of requests without a producer id: acknowledged by the leader, or by all replicas in sync."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from databus.core.errors.root import DatabusError
from databus.core.errors.stream import StreamFullError, StreamNotAnsweredError
from databus.kafka.callbacks import fatal_error_raised
from databus.kafka.client import ClientSettings, LastError, sink_error
from databus.stream.options import MIB, StreamOptions
from databus.stream.requests import GIVEN_UP, Delivery, WriteAnswer, WriteRequest
from databus.stream.topics import BATCH_BYTES, Topic

log = logging.getLogger(__name__)

_POLL_S = 0.001
_QUEUED = 1_000_000
"""Records that wait in a producer at most."""

_UNCONFIRMED = GIVEN_UP | {
    KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT,  # noqa: SLF001
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}  # fmt: skip
"""Errors after which a record may be in the topic, or not, and the same one may be taken the next time."""


def producer_settings(options: StreamOptions, timeout_s: float) -> dict[str, Any]:
    """Return what the service's producers have in common."""
    return {
        "message.max.bytes": options.batch_bytes + MIB,
        "queue.buffering.max.messages": 2 * _QUEUED,
        "queue.buffering.max.kbytes": 2 * options.waiting_bytes // 1024 + 1024,
        "batch.size": BATCH_BYTES,
        "linger.ms": 1,
        "partitioner": "murmur2_random",  # as Java's clients and databus' own sinks place keys
        "delivery.timeout.ms": int(timeout_s * 1000),
    }


def write_error(settings: ClientSettings, request: WriteRequest, error: KafkaError, seen: LastError) -> DatabusError:
    """Return the error of a request that the brokers did not take, or did not confirm."""
    if error.code() == KafkaError._QUEUE_FULL:  # noqa: SLF001
        return StreamFullError("too many records wait for the brokers")
    found = sink_error(settings, f"write to {request.topic}", error, seen)
    if error.code() in _UNCONFIRMED:
        return StreamNotAnsweredError(found.message)
    return found


class PlainWriter:
    """Writes requests with one idempotent producer, or one that the leader alone answers; lives in an event loop.

    Order within a partition is that of the calls, with either.

    Args:
        settings: the cluster.
        options: of the service.
        leader: whether the leader's confirmation is enough.
    """

    def __init__(self, settings: ClientSettings, options: StreamOptions, *, leader: bool = False):
        self._settings = settings
        self._seen = LastError()
        common = producer_settings(options, options.timeout_s)
        # Without idempotence one request in flight keeps the order when it is tried again.
        acks = {"acks": 1, "max.in.flight": 1} if leader else {"acks": "all", "enable.idempotence": True}
        self._given = {**common, **acks}
        self._producer = settings.producer(self._given, self._seen)
        self._former: list[Producer] = []
        self._turn = itertools.count()
        self._open = 0
        self._wake = asyncio.Event()
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def write(self, topic: Topic, request: WriteRequest) -> WriteAnswer:
        """Write a request; returns once all records are confirmed.

        Raises:
            StreamFullError: too many records wait; nothing was written.
            StreamNotAnsweredError: not all were confirmed in time.
            SinkError: the brokers are away or refuse them.
        """
        if len(self._producer) + len(request.records) > _QUEUED:
            raise StreamFullError("too many records wait for the brokers")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        delivery = Delivery(request, lambda _: future.set_result(None))
        self._open += 1
        self._wake.set()
        producer = self._producer
        try:
            delivery.produce(producer, next(self._turn) % topic.partitions)
            if delivery.left:
                await asyncio.shield(future)
        finally:
            self._open -= 1
        if delivery.error is None:
            return WriteAnswer(delivery.offsets)
        if producer is self._producer and (delivery.error.fatal() or self._seen.fatal is not None):
            self._renew()
        failed = write_error(self._settings, request, delivery.error, self._seen)
        if delivery.confirmed:
            raise StreamNotAnsweredError(
                f"{delivery.confirmed} of {len(request.records)} records were written: {failed.message}"
            )
        raise failed

    async def close(self) -> None:
        """Wait for what is under way, then stop."""
        while self._open:
            await asyncio.sleep(0.01)
        self._polling.cancel()
        await asyncio.gather(self._polling, return_exceptions=True)
        self._producer.flush(1)

    def _renew(self) -> None:
        """Take another producer after a fatal error; the former one still reports what became of its records."""
        self._former.append(self._producer)
        self._seen = LastError()
        self._producer = self._settings.producer(self._given, self._seen)

    async def _poll(self) -> None:
        while True:
            if not self._open:
                self._wake.clear()
                await self._wake.wait()
            came = 0
            for producer in (self._producer, *self._former):
                try:
                    with fatal_error_raised():
                        came += producer.poll(0)
                except KafkaException as error:
                    log.warning("writer of a stream: %s", error)  # each record is reported all the same
            self._former = [producer for producer in self._former if len(producer)]
            await asyncio.sleep(0 if came else _POLL_S)
