"""Reads by offset with a client in memory: ends that a new leader tells too early, and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from databus.stream.reader import Most, PlaceReader
from tests.unit.stream.fakes import FakeConsumer, FakeMessage, end_at


@dataclass
class FakeSettings:
    """Settings that open one consumer."""

    opened: FakeConsumer
    conn_id: str = "k"

    def consumer(self, settings: Any, seen: Any) -> FakeConsumer:
        return self.opened


def reader(*messages: FakeMessage) -> PlaceReader:
    settings: Any = FakeSettings(FakeConsumer(messages))
    return PlaceReader(settings, "events", "group", 10.0)


def test_an_end_before_that_of_what_was_delivered_is_waited_out() -> None:
    found = reader(FakeMessage(3), end_at(4), FakeMessage(4), FakeMessage(5), end_at(6)).read_spans({0: (3, 6)})
    assert [message.offset() for message in found] == [3, 4, 5]


def test_what_was_compacted_away_is_left_out() -> None:
    found = reader(FakeMessage(3), end_at(6)).read_spans({0: (3, 6)})
    assert [message.offset() for message in found] == [3]


def test_headers_count_in_a_read() -> None:
    large = [FakeMessage(offset, b"v", named=[("h", b"x" * 99), ("none", None)]) for offset in range(5)]
    assert len(reader(*large, end_at(5)).read({0: 0}, Most(5, 210, 0.0))) == 2
