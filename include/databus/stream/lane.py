"""Lane of producers: their requests and their state in one Kafka transaction, so that a repeat is known for long.

One thread takes all requests that wait, writes their records, waits for their offsets, writes each producer's new state
and commits. A kill at any place leaves both or neither.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkAccessError, SinkFencedError
from databus.core.errors.stream import (
    StreamFencedError,
    StreamFullError,
    StreamNotAnsweredError,
    StreamProducerConflictError,
    StreamSequenceError,
)
from databus.kafka.client import ClientSettings, LastError
from databus.stream.lane_session import LaneSession
from databus.stream.options import StreamOptions
from databus.stream.plain import write_error
from databus.stream.producers import Key, ProducerState, WrittenRequest, judge
from databus.stream.requests import GIVEN_UP, Delivery, WriteAnswer, WriteRequest
from databus.stream.topics import Topic

log = logging.getLogger(__name__)

_TAKEN = 1_000
"""Requests of one transaction at most."""
_BYTES = 16 * 1024 * 1024
"""Bytes of one transaction, after which no further request is taken into it."""
_WAITING = 10_000
"""Requests that wait for a lane at most."""


@dataclass(eq=False)
class _Waiting:
    topic: Topic
    request: WriteRequest
    outcome: Future[WriteAnswer] = field(default_factory=Future)

    @property
    def size(self) -> int:
        return sum(record.size for record in self.request.records)


class Lane:
    """Lane of a service: `submit` from any thread, answers come from the lane's own.

    Args:
        settings: the cluster.
        options: of the service.
        number: of the lane, from 0.
        prepare: called before the lane is opened: makes the state topic.
    """

    def __init__(self, settings: ClientSettings, options: StreamOptions, number: int, prepare: Callable[[], None]):
        self._settings, self._options, self._number, self._prepare = settings, options, number, prepare
        self._owner = uuid.uuid4().hex
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(_WAITING)
        self._session: LaneSession | None = None
        self._claimed = False
        self.fenced = False
        self._thread = threading.Thread(target=self._run, name=f"stream-lane-{number}", daemon=True)
        self._thread.start()

    @property
    def producers(self) -> int:
        """Number of producer ids that are known."""
        session = self._session
        return 0 if session is None else len(session.producers)

    def submit(self, topic: Topic, request: WriteRequest) -> Future[WriteAnswer]:
        """Hand a request over.

        Returns:
            Its answer once it is committed, else a DatabusError: nothing of it is acknowledged.

        Raises:
            StreamFullError: too many wait.
        """
        waiting = _Waiting(topic, request)
        try:
            self._queue.put_nowait(waiting)
        except queue.Full:
            raise StreamFullError("too many requests wait for the brokers") from None
        return waiting.outcome

    def close(self) -> None:
        """Commit what waits, then end."""
        self._queue.put(None)
        self._thread.join(2 * self._options.timeout_s)

    def _run(self) -> None:
        while taken := self._take():
            error = self._tried(taken)
            if error is None:
                continue
            self._session = None
            if isinstance(error, StreamFencedError):
                self.fenced = True
            if isinstance(error, SinkFencedError):  # by whom, says the next one
                error = StreamNotAnsweredError(error.message)
            _fail(taken, error)
        self._session = None

    def _tried(self, taken: Sequence[_Waiting]) -> DatabusError | None:
        try:
            self._write(taken)
        except DatabusError as error:
            log.warning("lane %d of stream %s: %s", self._number, self._options.name, error)
            return error
        except Exception as error:
            log.exception("lane %d of stream %s", self._number, self._options.name)
            return StreamNotAnsweredError(f"unexpected: {type(error).__name__}: {error}")
        return None

    def _take(self) -> list[_Waiting]:
        """Return what waits, at least one request; empty at the end."""
        first = self._queue.get()
        if first is None:
            return []
        taken, size = [first], first.size
        while len(taken) < _TAKEN and size < _BYTES:
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._queue.put(None)
                break
            taken.append(more)
            size += more.size
        return taken

    def _opened(self) -> LaneSession:
        if self._session is None:
            if self.fenced:
                raise StreamFencedError(
                    f"another instance of stream {self._options.name} has taken lane {self._number} over"
                )
            self._prepare()
            self._session = LaneSession(self._settings, self._options, self._number, self._owner, claimed=self._claimed)
            self._claimed = True
        return self._session

    def _write(self, taken: Sequence[_Waiting], *, again: bool = True) -> None:
        """Answer requests; what is raised is the error of those that are left without an answer.

        Args:
            taken: in their order.
            again: whether those that are left after a refusal are written at once.
        """
        session = self._opened()
        now_ms = int(time.time() * 1000)
        new, repeats, wrong = _judged(session, taken, now_ms)
        offsets = {}
        if new:
            if refused := self._refused(session, new):
                self._session = None  # the next one ends the transaction
                for one, why in refused.items():
                    one.outcome.set_exception(why)
                left = [one for one in taken if not one.outcome.done()]
                if left and not again:
                    raise StreamNotAnsweredError("records of other requests were refused, twice")
                if left:
                    self._write(left, again=False)
                return
            states: dict[Key, ProducerState] = {}
            for one, delivery in new:
                key = one.request.key
                state = states.get(key) or session.producers.of(key, now_ms)
                states[key] = state.after(delivery.written, now_ms)
                offsets[key, one.request.sequence] = delivery.offsets
            session.commit(states)
        elif wrong:
            session.confirm()  # another instance may have written what is not known here
        for one, why in wrong:
            one.outcome.set_exception(why)
        for one, delivery in new:
            one.outcome.set_result(WriteAnswer(delivery.offsets))
        for one, written in repeats:
            found = offsets.get((one.request.key, written.sequence), written.offsets)
            one.outcome.set_result(WriteAnswer(found, repeated=True))

    def _refused(self, session: LaneSession, new: Sequence[tuple[_Waiting, Delivery]]) -> dict[_Waiting, DatabusError]:
        """Write requests; return those of which a record was refused for what it is, with the error.

        Raises:
            DatabusError: the brokers did not take records, whatever they are.
        """
        session.write([(d, _partition(one.request.producer, one.topic.partitions)) for one, d in new])
        seen = LastError()
        causes = {one: delivery.error for one, delivery in new if delivery.error is not None}
        failed = {
            one: write_error(self._settings, one.request, cause, seen)
            for one, cause in causes.items()
            if cause.code() not in GIVEN_UP
        }
        if causes and not failed:
            why = write_error(self._settings, new[0][0].request, session.cause(), seen)
            if len(new) == 1 and isinstance(why, SinkAccessError):
                return {new[0][0]: why}
            raise StreamNotAnsweredError(f"lane {self._number}: the transaction was given up: {why.message}")
        for error in failed.values():
            if error.retryable:
                raise error
        return failed


def _judged(
    session: LaneSession, taken: Sequence[_Waiting], now_ms: int
) -> tuple[list[tuple[_Waiting, Delivery]], list[tuple[_Waiting, WrittenRequest]], list[tuple[_Waiting, DatabusError]]]:
    """Return what is new, what repeats a request that is written, and what a producer may not send."""
    ahead: dict[Key, ProducerState] = {}
    new: list[tuple[_Waiting, Delivery]] = []
    repeats: list[tuple[_Waiting, WrittenRequest]] = []
    wrong: list[tuple[_Waiting, DatabusError]] = []
    for one in taken:
        request = one.request
        try:
            state = ahead.get(request.key) or session.producers.of(request.key, now_ms)
            written = judge(state, request.key, request.sequence, request.digest)
        except (StreamSequenceError, StreamProducerConflictError) as error:
            wrong.append((one, error))
            continue
        except DatabusError as error:
            one.outcome.set_exception(error)
            continue
        if written is not None:
            repeats.append((one, written))
            continue
        new.append((one, Delivery(request)))
        # What comes behind it needs its number and digest; its offsets are known once it is written.
        ahead[request.key] = state.after(WrittenRequest(request.sequence, request.digest, {}), now_ms)
    return new, repeats, wrong


def _partition(producer: str, partitions: int) -> int:
    """Return the partition of a producer's records without a key: always the same, so that their order is kept."""
    return zlib.crc32(producer.encode()) % partitions


def _fail(taken: Iterable[_Waiting], error: DatabusError) -> None:
    for one in taken:
        if not one.outcome.done():
            one.outcome.set_exception(error)
