"""State of a lane's producers as it is read at the opening, with clients in memory."""

from __future__ import annotations

import time
from typing import Any

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
