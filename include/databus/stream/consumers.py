"""Consumers of topics: their deliveries and Kafka clients, and reads by offset; bounded in number."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import Message

from databus.core.errors.stream import StreamFullError, StreamRequestError
from databus.kafka.client import ClientSettings
from databus.stream.deliveries import Deliveries, OpenDelivery
from databus.stream.options import StreamOptions
from databus.stream.reader import Most, PlaceReader
from databus.stream.requests import place_of
from databus.stream.topics import Topic

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PATIENCE_S = 0.5
_STORED_AGAIN_S = 86_400.0
"""Seconds after which a consumer's places are stored again: Kafka forgets what was stored long ago."""
_BY_OFFSET = ""
"""Name of the consumer that reads by offset and has no deliveries."""


@dataclass(eq=False)
class _Consumer:
    deliveries: Deliveries
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # of reads
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    reader: PlaceReader | None = None
    users: int = 0
    stored_s: float = 0.0  # when all places were stored last (monotonic); 0 before the first read


class Consumers:
    """Consumers of one cluster; used in the event loop, their clients in threads.

    Args:
        settings: the cluster.
        options: of the service.
        check_room: called before records are read; raises where there is no memory for them.
    """

    def __init__(self, settings: ClientSettings, options: StreamOptions, check_room: Callable[[], None] = lambda: None):
        self._settings, self._options, self._check_room = settings, options, check_room
        self._known: OrderedDict[tuple[str, str, int], _Consumer] = OrderedDict()
        self._threads = ThreadPoolExecutor(2 * options.readers + 2, "stream-reader")
        self._opening = 0
        self._start = uuid.uuid4().hex[:8]

    def __len__(self) -> int:
        return sum(name != _BY_OFFSET for _, name, _ in self._known)

    async def read(self, topic: Topic, partition: int, place: int | str, most: Most) -> tuple[int, list[Message]]:
        """Return the offset that a read begins at, and its records.

        Args:
            topic: its facts.
            partition: of it.
            place: offset, "earliest" or "latest".
            most: bounds.

        Raises:
            StreamPlaceGoneError: the topic has no record there.
            StreamFullError: too many read.
            SourceError: the cluster does not answer or refuses.
        """
        number = 0
        while (busy := self._known.get((topic.name, _BY_OFFSET, number))) is not None and busy.users:
            number += 1
        async with self._using(topic.name, _BY_OFFSET, number) as (_, reader):
            if isinstance(place, str):
                edges = (await self._call(reader.edges, [partition]))[partition]
                place = edges[0] if place == "earliest" else edges[1]
            self._check_room()
            return place, await self._call(reader.read, {partition: place}, most)

    async def deliver(
        self, topic: Topic, name: str, most: Most, start: str, deadline_s: float
    ) -> tuple[OpenDelivery | None, list[Message]]:
        """Deliver the next records of a consumer: those of a late delivery first; None where none came in time.

        Args:
            topic: its facts.
            name: of the consumer.
            most: bounds of what follows; a late delivery is made again as it was.
            start: "earliest" or "latest": where a consumer begins that has acknowledged nothing.
            deadline_s: seconds until it is made again.

        Raises:
            StreamFullError: too many deliveries are open, or too many read.
            StreamPlaceGoneError: retention has passed the consumer's place.
            SourceError: the cluster does not answer or refuses.
        """
        until = time.monotonic() + most.wait_s
        async with self._using(topic.name, name) as (consumer, reader), AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(most.wait_s + _PATIENCE_S):
                    await stack.enter_async_context(consumer.turn)
            except TimeoutError:
                return None, []  # another read of this consumer waits for longer
            deliveries = consumer.deliveries
            await self._begin(topic, consumer, reader, start)
            while True:
                self._check_room()
                now = time.monotonic()
                if (late := deliveries.expired(now)) is not None:
                    messages = await self._call(reader.read_spans, late.spans)
                    async with consumer.storing:  # an acknowledgement that is being stored counts
                        if not deliveries.is_open(late):
                            continue  # acknowledged meanwhile
                        return deliveries.again(late, time.monotonic() + deadline_s), messages
                if len(deliveries) >= self._options.open_deliveries:
                    raise StreamFullError(
                        f"{len(deliveries)} deliveries of consumer {name} of {topic.name} are open",
                        hint="Acknowledge some of them first.",
                    )
                left = until - now
                if (deadline := deliveries.first_deadline_s) is not None:
                    left = min(left, deadline - now)
                asked = dict(deliveries.next)
                bounds = Most(most.records, most.size, max(0.0, left))
                messages = await self._call(reader.read, asked, bounds)
                if asked != deliveries.next:
                    continue  # somebody moved its places
                if messages:
                    ends = {partition: offset + 1 for partition, offset in map(place_of, messages)}
                    return deliveries.deliver(ends, time.monotonic() + deadline_s), messages
                if time.monotonic() >= until:
                    return None, []

    async def acknowledge(self, topic: Topic, name: str, delivery_id: str) -> bool:
        """Take a delivery as handled.

        Returns:
            Whether all of it is stored in Kafka: not while a delivery before it is open.

        Raises:
            StreamDeliveryError: it is not open.
            SourceError: the cluster does not answer or refuses; it is still open.
        """
        async with self._using(topic.name, name) as (consumer, reader), consumer.storing:
            moved = consumer.deliveries.after(delivery_id)
            if moved:
                await self._call(reader.commit, moved)
            return consumer.deliveries.acknowledge(delivery_id)

    async def move(self, topic: Topic, name: str, places: Mapping[int, int] | str) -> dict[int, int]:
        """Set a consumer's places: offsets by partition, or "earliest" or "latest" of all; returns them as stored.

        Raises:
            StreamRequestError: a partition is not there.
            SourceError: the cluster does not answer or refuses.
        """
        async with self._using(topic.name, name) as (consumer, reader), consumer.storing:
            if isinstance(places, str):
                edges = await self._call(reader.edges, range(topic.partitions))
                places = {p: first if places == "earliest" else end for p, (first, end) in edges.items()}
            if unknown := sorted(p for p in places if p >= topic.partitions):
                raise StreamRequestError(f"topic {topic.name} has {topic.partitions} partitions, not {unknown[0]}")
            await self._call(reader.commit, places)
            consumer.deliveries.begin(places)
            return dict(places)

    async def close(self) -> None:
        """Close all clients."""
        readers = [one.reader for one in self._known.values() if one.reader is not None]
        await asyncio.gather(*(asyncio.to_thread(reader.close) for reader in readers))
        self._threads.shutdown(wait=False)

    async def _begin(self, topic: Topic, consumer: _Consumer, reader: PlaceReader, start: str) -> None:
        """Begin with the partitions that are new to a consumer; all its places are stored again once a day."""
        deliveries, now = consumer.deliveries, time.monotonic()
        if deliveries.next.keys() >= set(range(topic.partitions)) and now - consumer.stored_s < _STORED_AGAIN_S:
            return
        async with consumer.storing:  # places that are moved meanwhile stay
            new = [p for p in range(topic.partitions) if p not in deliveries.next]
            committed = await self._call(reader.committed, new) if new else {}
            first = [p for p in new if p not in committed]
            edges = await self._call(reader.edges, first)
            # What is added later was never there to be left out: it begins at its first record.
            latest = start == "latest" and not consumer.stored_s and not committed
            begun = {**{p: edges[p][1] if latest else edges[p][0] for p in first}, **committed}
            await self._call(reader.commit, {**deliveries.places, **begun})
            deliveries.begin(begun)
            consumer.stored_s = now

    def _using(self, topic: str, name: str, number: int = 0) -> _Using:
        if name and not _NAME.fullmatch(name):
            raise StreamRequestError(
                f"{name[:40]!r} is no name of a consumer", hint="Take letters, digits, '.', '_' and '-', 100 at most."
            )
        return _Using(self, (topic, name, number))

    async def open(self, key: tuple[str, str, int]) -> tuple[_Consumer, PlaceReader]:
        """Return a consumer with its client, in use until `leave`.

        Raises:
            StreamFullError: all clients are in use, or there are as many consumers as may be.
        """
        consumer = self._known.get(key)
        if consumer is None:
            self._forget()
            consumer = self._known[key] = _Consumer(Deliveries(self._start))
        self._known.move_to_end(key)
        consumer.users += 1
        try:
            async with consumer.opening:
                reader = consumer.reader = consumer.reader or await self._open_reader(key)
        except BaseException:
            self.leave(consumer)
            raise
        return consumer, reader

    def leave(self, consumer: _Consumer) -> None:
        """Let go of a consumer."""
        consumer.users -= 1

    async def _open_reader(self, key: tuple[str, str, int]) -> PlaceReader:
        topic, name, number = key
        await self._make_room()
        self._opening += 1  # at once: others that come meanwhile count it
        try:
            group = f"databus.stream.{self._options.name}.{name or number}"
            return await self._call(PlaceReader, self._settings, topic, group, self._options.timeout_s)
        finally:
            self._opening -= 1

    async def _make_room(self) -> None:
        """Close readers that nobody uses until one more may be opened.

        Raises:
            StreamFullError: all are in use.
        """
        while True:
            open_ones = [one for one in self._known.values() if one.reader is not None]
            if (count := len(open_ones) + self._opening) < self._options.readers:
                return
            idle = next((one for one in open_ones if not one.users), None)
            if idle is None or idle.reader is None:
                raise StreamFullError(f"{count} readers are at work", hint="Try again, or raise --readers.")
            reader, idle.reader = idle.reader, None
            await self._call(reader.close)

    def _forget(self) -> None:
        if len(self._known) < self._options.consumers:
            return
        idle = {key: one.deliveries for key, one in self._known.items() if not one.users and one.reader is None}
        now = time.monotonic()
        # What is late comes again, from the stored place as after a restart.
        found = next((k for k, d in idle.items() if not len(d)), None) or next(
            (k for k, d in idle.items() if d.are_late(now)), None
        )
        if found is not None:
            del self._known[found]
            return
        raise StreamFullError(f"{len(self._known)} consumers are at work", hint="Use fewer, or raise --consumers.")

    async def _call(self, call: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


class _Using:
    """Use of a consumer and its client."""

    def __init__(self, consumers: Consumers, key: tuple[str, str, int]):
        self._consumers, self._key = consumers, key

    async def __aenter__(self) -> tuple[_Consumer, PlaceReader]:
        self._consumer, reader = await self._consumers.open(self._key)
        return self._consumer, reader

    async def __aexit__(self, *_: object) -> None:
        self._consumers.leave(self._consumer)
