"""Records and their copies on two real clusters, and what a trace tells of them; whole reads are the oracle."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from confluent_kafka import Message

from databus import Batching, Flow
from databus.ops.trace.follow import trace
from databus.ops.trace.journey import Journey
from databus.ops.trace.query import recognise
from tests.integration.kafka_target import consume, event_id
from tests.integration.kafka_world import KafkaWorld, caught_up, facts
from tests.integration.mirrors import mirror_of
from tests.integration.shop_flow import Shop

QUICK = Batching(max_rows=40, max_wait=timedelta(seconds=0.1))


def asked(world: KafkaWorld, flows: Sequence[Flow], what: str, **options: Any) -> list[Journey]:
    return trace(recognise(what), flows, (world.connections, world.settings), **options)


def at(message: Message) -> str:
    return f"{message.topic()}:{message.partition()}:{message.offset()}"


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def hops(journey: Journey) -> list[tuple[str, str, str, str, str, str]]:
    """Return mirror, site and place of both ends, and state, of each hop."""
    return [
        (hop.mirror, hop.source.site, str(hop.source), hop.target.site, str(hop.target), hop.state)
        if hop.source and hop.target
        else (hop.mirror, "", str(hop.source), "", str(hop.target), hop.state)
        for hop in journey.hops
    ]


@dataclass
class Copies:
    """A flow into the east whose topic is mirrored to the west, and from there under another name to the east."""

    world: KafkaWorld
    shop: Shop
    there: Flow
    back: Flow
    east: list[Message]
    west: list[Message]
    again: list[Message]

    @property
    def topic(self) -> str:
        return self.shop.name

    @property
    def flows(self) -> list[Flow]:
        return [self.shop.flow, self.there, self.back]

    def __call__(self, what: str, **options: Any) -> list[Journey]:
        return asked(self.world, self.flows, what, **options)

    def copies(self, original: Message) -> tuple[Message, Message]:
        """Return the copies of an east record by what it says, wherever they lie."""
        (west,) = (m for m in self.west if same_change(m, original))
        (again,) = (m for m in self.again if same_change(m, original))
        return west, again

    def way(self, original: Message) -> list[tuple[str, str, str, str, str, str]]:
        """Return the hops of an east record."""
        west, again = self.copies(original)
        return [
            (self.there.name, "kafka_east", at(original), "kafka_west", at(west), ""),
            (self.back.name, "kafka_west", at(west), "kafka_east", at(again), ""),
        ]

    def sample(self) -> list[Message]:
        """East records over the whole topic, a delete and its tombstone among them."""
        gone = next(m for m in self.east if m.value() is None)
        delete = next(m for m in self.east if event_id(m) == event_id(gone) and m.value() is not None)
        return [*self.east[:: len(self.east) // 8], delete, gone]


def same_change(one: Message, other: Message) -> bool:
    return event_id(one) == event_id(other) and (one.value() is None) == (other.value() is None)


def mirrored_twice(world: KafkaWorld, envelope: str) -> Copies:
    """Write, mirror and mirror back, in two parts; then read all three topics whole."""
    shop = Shop(world, f"copied_{envelope}", partitions=3, slots=2, envelope=envelope)
    shop.flow = shop.flow.model_copy(update={"checks": (), "batching": QUICK})
    topic = shop.name
    world.west.create(topic, 3)
    # What lay there before moves the offsets apart, by other lengths in each partition.
    world.west.write(topic, [{"value": b"before", "partition": p, "headers": [("event_id", b"x")]} for p in (0, 0, 1)])
    there = mirror_of(world, topic, name=f"there_{topic}", batching=QUICK)
    back = mirror_of(
        world, topic, name=f"back_{topic}", source_conn_id="kafka_west", target_conn_id="kafka_east",
        renames={topic: f"{topic}.again"}, batching=Batching(max_rows=70, max_wait=timedelta(seconds=0.1)),
    )  # fmt: skip
    for _ in range(2):
        shop.writer.run(40)
        for flow in (shop.flow, there, back):
            caught_up(world, flow)
    east, west = world.east.servers, world.west.servers
    again = f"{topic}.again"
    read = [consume(servers, name) for servers, name in ((east, topic), (west, topic), (east, again))]
    return Copies(world, shop, there, back, *read)


def require_bytes(copies: Copies, journey: Journey) -> None:
    """Read what stands at the offsets that a journey tells, and compare all that makes the records what they are."""
    ours = {("kafka_east", at(m)): m for m in (*copies.east, *copies.again)}
    everything = ours | {("kafka_west", at(m)): m for m in copies.west}
    for hop in journey.hops:
        assert hop.source is not None
        assert hop.target is not None
        one, other = (everything[place.site, str(place)] for place in (hop.source, hop.target))
        assert facts(one) == facts(other)


class Foreign:
    """A topic of another's producer on both sites, and mirrors of it."""

    def __init__(self, world: KafkaWorld, partitions: int = 1):
        self.world = world
        self.topic = world.east.create(world.east.name("f"), partitions)
        self.flows: list[Flow] = []

    def mirror(self, source: str = "kafka_east", target: str = "kafka_west", **options: Any) -> Flow:
        name = f"mirror_{uuid.uuid4().hex[:8]}"
        self.flows.append(
            mirror_of(self.world, self.topic, name=name, source_conn_id=source, target_conn_id=target, **options)
        )
        return self.flows[-1]

    def run(self) -> None:
        for flow in self.flows:
            caught_up(self.world, flow)

    def __call__(self, what: str, **options: Any) -> list[Journey]:
        return asked(self.world, self.flows, what, **options)

    def sides(self) -> tuple[list[Message], list[Message]]:
        return consume(self.world.east.servers, self.topic), consume(self.world.west.servers, self.topic)
