"""Calls to one consumer that meet, with a reader in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from databus.core.errors import StreamFullError
from databus.kafka.client import ClientSettings
from databus.stream import consumers as module
from databus.stream.consumers import Consumers
from databus.stream.options import StreamOptions
from databus.stream.reader import Most
from databus.stream.topics import Topic
from tests.unit.stream.fakes import FakeMessage

TOPIC = Topic("events", 1, 1, 2_000_000)
ONE = Most(1, 1_000, 0.0)


class Gate:
    """Place where a call in a thread waits."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.open.wait(30)


class FakeReader:
    """Reader of a partition with records 0 to 9, or of what is coming; calls wait at gates."""

    def __init__(self) -> None:
        self.stored: dict[int, int] = {}
        self.commits: list[dict[int, int]] = []
        self.gates: dict[str, Gate] = {}
        self.coming: list[list[FakeMessage]] = []

    def _at(self, call: str) -> None:
        if (gate := self.gates.get(call)) is not None:
            gate.wait()

    def read(self, places: Mapping[int, int], most: Most) -> list[FakeMessage]:
        if self.coming:
            return self.coming.pop(0)
        return [FakeMessage(places[0])] if places[0] < 10 else []

    def read_spans(self, spans: Mapping[int, tuple[int, int]]) -> list[FakeMessage]:
        return [FakeMessage(offset) for offset in range(*spans[0])]

    def edges(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(partitions, (0, 10))

    def committed(self, partitions: Sequence[int]) -> dict[int, int]:
        found = {p: self.stored[p] for p in partitions if p in self.stored}
        self._at("committed")
        return found

    def commit(self, places: Mapping[int, int]) -> None:
        self.commits.append(dict(places))
        self._at("commit")
        self.stored.update(places)

    def close(self) -> None:
        pass


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> FakeReader:
    found = FakeReader()
    monkeypatch.setattr(module, "PlaceReader", lambda *_: found)
    return found


async def take(consumers: Consumers, **given: Any) -> Any:
    arguments = {"most": ONE, "start": "earliest", "deadline_s": 60.0, **given}
    return await consumers.deliver(arguments.pop("topic", TOPIC), arguments.pop("name", "c"), **arguments)


def run(scenario: Any, **options: Any) -> None:
    async def within() -> None:
        consumers = Consumers(ClientSettings("k", "h:1"), StreamOptions(**options))
        try:
            await scenario(consumers)
        finally:
            await consumers.close()

    asyncio.run(within())


def test_a_move_during_the_first_read_stays(reader: FakeReader) -> None:
    async def scenario(consumers: Consumers) -> None:
        reader.stored = {0: 2}
        gate = reader.gates["committed"] = Gate()
        first = asyncio.create_task(take(consumers))
        await asyncio.to_thread(gate.reached.wait, 30)
        move = asyncio.create_task(consumers.move(TOPIC, "c", {0: 7}))
        await asyncio.wait({move}, timeout=0.2)
        gate.open.set()
        await asyncio.gather(first, move)
        _, messages = await take(consumers)
        assert messages[0].offset() in (7, 8)  # 8: the first read came after the move
        assert reader.stored == {0: 7}

    run(scenario)


def test_an_acknowledgement_that_is_being_stored_counts(reader: FakeReader) -> None:
    async def scenario(consumers: Consumers) -> None:
        late, _ = await take(consumers, deadline_s=0.0)
        gate = reader.gates["commit"] = Gate()
        ack = asyncio.create_task(consumers.acknowledge(TOPIC, "c", late.id))
        await asyncio.to_thread(gate.reached.wait, 30)
        again = asyncio.create_task(take(consumers))
        await asyncio.wait({again}, timeout=0.2)
        gate.open.set()
        assert await ack is True
        delivery, messages = await again
        assert [message.offset() for message in messages] == [1]
        assert delivery.attempt == 1

    run(scenario)


@pytest.mark.parametrize(("start", "place"), [("earliest", 0), ("latest", 10)])
def test_where_a_consumer_begins_is_stored(reader: FakeReader, start: str, place: int) -> None:
    async def scenario(consumers: Consumers) -> None:
        await take(consumers, start=start)
        assert reader.stored == {0: place}

    run(scenario)


def test_a_new_consumer_begins_at_its_end_but_where_it_was_moved(reader: FakeReader) -> None:
    async def scenario(consumers: Consumers) -> None:
        two = replace(TOPIC, partitions=2)
        await consumers.move(two, "c", {0: 5})
        await take(consumers, topic=two, start="latest")
        assert reader.stored == {0: 5, 1: 10}

    run(scenario)


def test_readers_that_are_being_opened_count(reader: FakeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, opened = Gate(), []

    def opening(*_: Any) -> FakeReader:
        opened.append(1)
        gate.wait()
        return reader

    async def scenario(consumers: Consumers) -> None:
        monkeypatch.setattr(module, "PlaceReader", opening)
        # The two of one name share a reader.
        takes = [asyncio.create_task(take(consumers, name=name)) for name in ("a", "a", "b", "c")]
        done, _ = await asyncio.wait(takes, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        gate.open.set()
        assert done == {takes[3]}
        with pytest.raises(StreamFullError, match="2 readers are at work"):
            await takes[3]
        await asyncio.gather(*takes[:3])
        assert len(opened) == 2
        await take(consumers, name="c")  # in place of one that nobody uses

    run(scenario, readers=2)


def test_consumers_whose_deliveries_are_late_make_room(reader: FakeReader) -> None:
    async def scenario(consumers: Consumers) -> None:
        await take(consumers, name="late", deadline_s=0.0)
        await take(consumers, name="waits")
        await take(consumers, name="new")
        assert len(consumers) == 2
        with pytest.raises(StreamFullError, match="2 consumers are at work"):
            await take(consumers, name="late")

    run(scenario, readers=1, consumers=2)


def test_places_are_stored_again(reader: FakeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(consumers: Consumers) -> None:
        for _ in range(3):
            await take(consumers)
        assert reader.commits == [{0: 0}]  # not with each read
        monkeypatch.setattr(module, "_STORED_AGAIN_S", 0.0)
        await take(consumers)
        assert reader.commits == [{0: 0}, {0: 0}]

    run(scenario)


def test_what_is_stored_in_part_is_not_told_to_be(reader: FakeReader) -> None:
    async def scenario(consumers: Consumers) -> None:
        reader.coming = [[FakeMessage(0, of=1)], [FakeMessage(0), FakeMessage(1, of=1)]]
        two = replace(TOPIC, partitions=2)
        first, _ = await take(consumers, topic=two)
        second, _ = await take(consumers, topic=two)
        assert await consumers.acknowledge(two, "c", second.id) is False
        assert reader.stored == {0: 1, 1: 0}
        assert await consumers.acknowledge(two, "c", first.id) is True
        assert reader.stored == {0: 1, 1: 2}

    run(scenario)
