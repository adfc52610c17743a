"""State of a lane's producers as it is read at the opening, with clients in memory."""

from __future__ import annotations

import time
from typing import Any

import pytest

from databus.core.errors import StreamFencedError
from databus.stream.lane_session import LaneSession
from databus.stream.options import StreamOptions
from databus.stream.producers import ProducerState, WrittenRequest
from tests.unit.stream.fakes import FakeConsumer, FakeMessage, end_at


class FakeCluster:
    """Settings whose consumer is behind a leader that tells an end before the state, then all of it."""

    conn_id, servers = "k", "h:1"

    def __init__(self, state: FakeMessage):
        self._state = state
        self.claims: list[bytes] = []

    def producer(self, settings: Any, seen: Any) -> FakeCluster:
        return self

    def init_transactions(self, timeout_s: float) -> None:
        assert self.claims == []

    def begin_transaction(self) -> None:
        pass

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        assert key == b"claim"
        self.claims.append(value)

    def commit_transaction(self, timeout_s: float) -> None:
        pass

    def consumer(self, settings: Any, seen: Any) -> FakeConsumer:
        former = FakeMessage(0, b'{"owner": "former", "at_ms": 1}', b"claim")
        own = [FakeMessage(6, claim, b"claim") for claim in self.claims]
        return FakeConsumer([former, end_at(1), self._state, *own, end_at(7)])


def test_the_state_is_read_up_to_the_claim() -> None:
    now_ms = int(time.time() * 1000)
    state = ProducerState((WrittenRequest(5, "digest", {}),), now_ms)
    settings: Any = FakeCluster(FakeMessage(5, state.to_bytes(), b"events/w"))
    session = LaneSession(settings, StreamOptions(), 0, "me", claimed=False)
    assert session.producers.of(("events", "w"), now_ms) == state
    session.confirm()
    assert len(settings.claims) == 2


class BusyConsumer(FakeConsumer):
    """Consumer of a partition to which another instance writes on and on: its end never comes."""

    def __init__(self) -> None:
        super().__init__([])
        self._at = 0

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return 0, 4  # the last of them is the end of a transaction, which is no message

    def consume(self, count: int, seconds: float) -> list[FakeMessage]:
        self._at += 2
        return [FakeMessage(self._at, b'{"owner": "other", "at_ms": 1}', b"claim")]


def test_a_lane_that_was_taken_over_is_told_so_while_the_other_one_writes() -> None:
    settings: Any = FakeCluster(FakeMessage(5))
    settings.consumer = lambda *_: BusyConsumer()
    with pytest.raises(StreamFencedError, match="another instance"):
        LaneSession(settings, StreamOptions(), 0, "me", claimed=True)
