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
from copy import copy
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
_NEARLY = 0.8
"""Share of producer ids in use from which on the log warns."""
_DENIED_S = 10.0
"""Seconds for which a topic that may not be written is refused without asking again."""


@dataclass(eq=False)
class _Waiting:
    topic: Topic
    request: WriteRequest
    outcome: Future[WriteAnswer] = field(default_factory=Future)

    @property
    def size(self) -> int:
        return sum(record.size for record in self.request.records)


_Judged = tuple[
    list[tuple[_Waiting, Delivery]], list[tuple[_Waiting, WrittenRequest]], list[tuple[_Waiting, DatabusError]]
]
"""Requests that are new, that repeat a written one, and that a producer may not send."""


class _SomeDeniedError(Exception):
    """A transaction was given up, and its requests are for several topics."""


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
        self._warned = False
        self._denied: dict[str, tuple[float, SinkAccessError]] = {}
        self.fenced = False
        self._thread = threading.Thread(target=self._run, name=f"stream-lane-{number}", daemon=True)
        self._thread.start()

    @property
    def producers(self) -> int:
        """Number of producer ids that are known."""
        session = self._session
        return 0 if session is None else len(session.producers)

    @property
    def used(self) -> float:
        """Share of the lane's producer ids that are in use, 0 to 1."""
        session = self._session
        return 0.0 if session is None else session.producers.used

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
        while (taken := self._take()) is not None:
            error = self._tried(taken)
            if error is None:
                self._warn()
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
            if taken:
                self._write(taken)
            elif self._claimed and not self.fenced:
                self._confirm()
        except DatabusError as error:
            log.warning("lane %d of stream %s: %s", self._number, self._options.name, error)
            return error
        except Exception as error:
            log.exception("lane %d of stream %s", self._number, self._options.name)
            return StreamNotAnsweredError(f"unexpected: {type(error).__name__}: {error}")
        return None

    def _confirm(self) -> None:
        """Ask whether the lane is still this instance's, so that `/health` tells before a writer does.

        Raises:
            StreamFencedError: another instance has taken it over.
            SinkError: the brokers are away or refuse.
        """
        try:
            self._opened().confirm()
        except SinkFencedError:
            self._session = None
            self._opened()

    def _warn(self) -> None:
        nearly = self.used >= _NEARLY
        if nearly and not self._warned:
            log.warning(
                "lane %d of stream %s: %d producer ids are in use, %.0f %% of its bound; beyond it new ids are "
                "refused: use fewer, or raise --producers",
                self._number, self._options.name, self.producers, 100 * self.used,
            )  # fmt: skip
        self._warned = nearly

    def _take(self) -> list[_Waiting] | None:
        """Return what waits; empty where nothing came for long, None at the end."""
        try:
            first = self._queue.get(timeout=self._options.confirm_s)
        except queue.Empty:
            return []
        if first is None:
            return None
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
        taken, (new, repeats, wrong) = self._allowed(session, taken, now_ms)
        offsets = {}
        if new:
            try:
                refused = self._refused(session, new)
            except _SomeDeniedError:
                self._session = None
                for topic in dict.fromkeys(one.request.topic for one in taken):
                    of_topic = [one for one in taken if one.request.topic == topic and not one.outcome.done()]
                    self._write(of_topic, again=again)
                return
            if refused:
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

    def _allowed(self, session: LaneSession, taken: Sequence[_Waiting], now_ms: int) -> tuple[list[_Waiting], _Judged]:
        """Return requests without those to topics that were refused just now, and what is to become of each."""
        left, judged = list(taken), _judged(session, taken, now_ms)
        while denied := self._denied_now(judged[0]):
            # What follows or repeats a refused request was judged as if that were written.
            left = [one for one in left if one not in denied]
            judged = _judged(session, left, now_ms)
        return left, judged

    def _denied_now(self, new: Sequence[tuple[_Waiting, Delivery]]) -> set[_Waiting]:
        """Refuse requests to topics that were refused just now, and return them; each refusal costs a session."""
        now, found = time.monotonic(), set()
        self._denied = {topic: denied for topic, denied in self._denied.items() if denied[0] > now}
        for one, _ in new:
            if (denied := self._denied.get(one.request.topic)) is not None:
                one.outcome.set_exception(copy(denied[1]))
                found.add(one)
        return found

    def _refused(self, session: LaneSession, new: Sequence[tuple[_Waiting, Delivery]]) -> dict[_Waiting, DatabusError]:
        """Write requests; return those of which a record was refused for what it is, with the error.

        Raises:
            _SomeDeniedError: one of the topics may not be written; which one the brokers do not say.
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
            request = new[0][0].request
            why = write_error(self._settings, request, session.cause(), seen)
            if isinstance(why, SinkAccessError):
                if any(one.request.topic != request.topic for one, _ in new):
                    raise _SomeDeniedError
                self._denied[request.topic] = time.monotonic() + _DENIED_S, why
                return {one: copy(why) for one, _ in new}
            raise StreamNotAnsweredError(f"lane {self._number}: the transaction was given up: {why.message}")
        for error in failed.values():
            if error.retryable:
                raise error
        return failed


def _judged(session: LaneSession, taken: Sequence[_Waiting], now_ms: int) -> _Judged:
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
