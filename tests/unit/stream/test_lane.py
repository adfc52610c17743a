"""Requests of one lane that meet in a transaction, with a session in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from databus.core.errors import (
    SinkAccessError,
    SinkFencedError,
    SinkSettingError,
    StreamFencedError,
    StreamFullError,
    StreamNotAnsweredError,
    StreamSequenceError,
)
from databus.core.errors.root import DatabusError
from databus.kafka.client import ClientSettings, LastError
from databus.stream import lane as lanes
from databus.stream.body import StreamRecord
from databus.stream.lane import Lane
from databus.stream.options import StreamOptions
from databus.stream.plain import write_error
from databus.stream.producers import Producers
from databus.stream.requests import Delivery, WriteAnswer, WriteRequest
from databus.stream.topics import Topic

PURGED = KafkaError._PURGE_QUEUE
DIFFERENT = KafkaError._INVALID_DIFFERENT_RECORD
SETTINGS = ClientSettings("k", "h:1")


class FakeSession:
    """Session whose transactions end as a script says: producer → code of the error of its records."""

    script: list[dict[str, int]]
    cause_code = KafkaError.UNKNOWN
    fence: DatabusError | None = None
    confirmed = 0
    opened = 0
    taken_over = False
    denied: str = ""
    asked = threading.Event()

    def __init__(self, *_: Any, **__: Any):
        FakeSession.opened += 1
        if self.taken_over and FakeSession.opened > 1:
            raise StreamFencedError("another instance has taken the lane over")
        self.producers = Producers(10, 10**9)
        self.given_up = False

    def write(self, deliveries: Any) -> None:
        if any(delivery.request.topic == self.denied for delivery, _ in deliveries):
            self.given_up = True
            for delivery, _ in deliveries:
                delivery.error = KafkaError(PURGED)
            return
        errors = self.script.pop(0) if self.script else {}
        for delivery, _ in deliveries:
            code = errors.get(delivery.request.producer)
            delivery.error = None if code is None else KafkaError(code)

    def commit(self, states: Any) -> None:
        for key, state in states.items():
            self.producers.keep(key, state)

    def confirm(self) -> None:
        FakeSession.confirmed += 1
        FakeSession.asked.set()
        if self.fence is not None:
            raise self.fence

    def cause(self) -> KafkaError:
        return KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED if self.given_up else self.cause_code)


Send = Callable[..., list[Future[WriteAnswer]]]


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    """Send a request of each (producer, sequence[, topic]) at once; they meet in one transaction."""
    monkeypatch.setattr(lanes, "LaneSession", FakeSession)
    monkeypatch.setattr(FakeSession, "script", [], raising=False)
    monkeypatch.setattr(FakeSession, "confirmed", 0)
    monkeypatch.setattr(FakeSession, "opened", 0)
    go = threading.Event()
    lane = Lane(SETTINGS, StreamOptions(lanes=1), 0, lambda: go.wait(30) and None)
    topic = Topic("events", 1, 1, 2_000_000)

    def submit(*requests: tuple[str, int] | tuple[str, int, str], **facts: Any) -> list[Future[WriteAnswer]]:
        for name, value in facts.items():
            monkeypatch.setattr(FakeSession, name, value, raising=False)
        first = lane.submit(topic, WriteRequest("events", [StreamRecord(b"x")], "opens", 1))
        sent = [
            lane.submit(topic, WriteRequest(to[0] if to else "events", [StreamRecord(b"x")], producer, sequence))
            for producer, sequence, *to in requests
        ]
        go.set()
        first.exception(30)
        return sent

    yield submit
    go.set()
    lane.close()


def test_a_refused_request_does_not_fail_its_neighbours(send: Send) -> None:
    good, bad = send(("good", 0), ("bad", 0), script=[{"good": PURGED, "bad": KafkaError.INVALID_RECORD}])
    assert isinstance(bad.exception(30), SinkSettingError)
    assert good.result(30).repeated is False


@pytest.mark.parametrize("code", [PURGED, DIFFERENT])
def test_records_that_were_given_up_are_to_be_sent_again(send: Send, code: int) -> None:
    for one in send(("a", 0), ("b", 0), script=[{"a": code, "b": PURGED}]):
        error = one.exception(30)
        assert isinstance(error, StreamNotAnsweredError)
        assert error.retryable


def test_refusals_one_after_another_end(send: Send) -> None:
    refused = KafkaError.INVALID_RECORD
    script = [{"a": refused, "b": PURGED, "c": PURGED}, {"b": refused, "c": PURGED}]
    a, b, c = send(("a", 0), ("b", 0), ("c", 0), script=script)
    assert isinstance(a.exception(30), SinkSettingError)
    assert isinstance(b.exception(30), SinkSettingError)
    assert isinstance(c.exception(30), StreamNotAnsweredError)


def test_a_request_alone_is_told_that_it_may_not_write(send: Send) -> None:
    (one,) = send(("a", 0), script=[{"a": PURGED}], cause_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(one.exception(30), SinkAccessError)


def test_a_topic_that_may_not_be_written_does_not_hold_others_up(send: Send) -> None:
    requests = [("a", 0, "events"), ("a", 0, "closed"), ("b", 0, "closed"), ("b", 0, "events")]
    good, bad, worse, other = send(*requests, denied="closed")
    for one in (bad, worse):
        error = one.exception(30)
        assert isinstance(error, SinkAccessError)
        assert not error.retryable
        assert "closed" in str(error)
    assert good.result(30).repeated is False
    assert other.result(30).repeated is False
    for number in range(3):
        again, fine = send(("c", 0, "closed"), ("c", number, "events"))
        assert isinstance(again.exception(30), SinkAccessError)
        assert fine.result(30).repeated is False
    # A repeat and the next one of what is refused were not written either.
    same = send(("d", 0, "closed"), ("d", 0, "closed"))
    for one in same:
        assert isinstance(one.exception(30), SinkAccessError)
    first, repeated, beside = send(("d", 0, "closed"), ("d", 0, "closed"), ("e", 0, "events"))
    for one in (first, repeated):
        assert isinstance(one.exception(30), SinkAccessError)
    assert beside.result(30).repeated is False
    # The one behind the refusal; a topic that was refused just now is not asked for again.
    assert FakeSession.opened == 3


def test_an_idle_lane_learns_that_it_was_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LaneSession", FakeSession)
    for name, value in {"script": [], "confirmed": 0, "opened": 0, "fence": None}.items():
        monkeypatch.setattr(FakeSession, name, value, raising=False)
    monkeypatch.setattr(FakeSession, "asked", asked := threading.Event())
    lane = Lane(SETTINGS, StreamOptions(confirm_s=0.02), 0, lambda: None)
    assert not asked.wait(0.1), "a lane that was never opened asks nothing"
    first = WriteRequest("events", [StreamRecord(b"x")], "a", 0)
    lane.submit(Topic("events", 1, 1, 2_000_000), first).result(30)
    assert asked.wait(30)
    assert not lane.fenced
    monkeypatch.setattr(FakeSession, "taken_over", True)
    monkeypatch.setattr(FakeSession, "fence", SinkFencedError("fenced"))
    deadline = time.monotonic() + 30
    while not lane.fenced:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lane.close()


def test_the_log_warns_before_producer_ids_are_used_up(send: Send, caplog: pytest.LogCaptureFixture) -> None:
    for one in send(*((f"w{n}", 0) for n in range(7))):
        one.result(30)
    assert "producer ids" not in caplog.text
    for one in (*send(("w7", 0)), *send(("w8", 0))):
        one.result(30)
    (again,) = send(("w0", 1))
    again.result(30)
    wait_for_warning(caplog)
    assert caplog.text.count("8 producer ids are in use, 80 % of its bound") == 1
    assert "raise --producers" in caplog.text


def wait_for_warning(caplog: pytest.LogCaptureFixture) -> None:
    deadline = time.monotonic() + 30
    while "producer ids" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_gap_is_told_by_the_instance_that_has_the_lane(send: Send) -> None:
    (gap,) = send(("a", 3))
    assert isinstance(gap.exception(30), StreamSequenceError)
    assert FakeSession.confirmed >= 1
    (gap,) = send(("a", 3), fence=SinkFencedError("taken over"))
    assert isinstance(gap.exception(30), StreamNotAnsweredError)


def test_a_delivery_keeps_the_cause_that_is_its_own() -> None:
    class FakeProducer:
        def produce_batch(self, topic: str, messages: list[Any], partition: int, on_delivery: Any) -> int:
            for code in (DIFFERENT, KafkaError.INVALID_RECORD, PURGED):
                on_delivery(KafkaError(code), None)
            return len(messages)

    delivery, producer = Delivery(WriteRequest("events", [StreamRecord(b"x")] * 3)), FakeProducer()
    delivery.produce(producer, 0)  # type: ignore[arg-type]
    assert delivery.error is not None
    assert delivery.error.code() == KafkaError.INVALID_RECORD


def test_a_full_queue_is_another_try() -> None:
    full = KafkaError(KafkaError._QUEUE_FULL)
    error = write_error(SETTINGS, WriteRequest("events", []), full, LastError())
    assert isinstance(error, StreamFullError)
