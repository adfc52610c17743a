"""A mirror between two real clusters: what a consumer of the target sees is what one of the source sees."""

from __future__ import annotations

import random
import subprocess
import time
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer

from databus import Batching
from databus.core.errors import SinkSettingError, SinkUnavailableError, SourceUnavailableError
from databus.ops.mirror.consumer_groups import GroupSync
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_world import KafkaWorld, caught_up, kill, records
from tests.integration.mirrors import both_ways, mirror_of, settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world

HEADERS = [("h", b"1"), ("h", None), ("h", b""), ("\u00e9", b"\xff\x00")]


def test_records_are_mirrored_byte_for_byte(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    # Times near now: compaction waits by the records' times, and a segment ends where they jump.
    now = int(time.time() * 1000)
    topic = east.create(east.name("m"), 3, {"cleanup.policy": "compact", "max.message.bytes": "2000000",
                                              "min.compaction.lag.ms": "3600000"})  # fmt: skip
    east.write(
        topic,
        [
            {"key": b"k", "value": b"v", "partition": 0, "timestamp": now - 1000, "headers": HEADERS},
            {"key": b"k", "value": None, "partition": 0, "timestamp": now - 900},
            {"key": b"", "value": b"", "partition": 1, "timestamp": now - 5},
            {"key": b"\x00\xff", "value": bytes(range(256)), "partition": 1, "timestamp": now - 7},
            {"key": b"big", "value": b"x" * 1_500_000, "partition": 2, "timestamp": now - 8},
        ],
    )
    east.transaction(topic, [{"key": b"a", "value": b"aborted", "partition": p} for p in range(3)], commit=False)
    east.transaction(topic, [{"key": b"c", "value": b"committed", "partition": p} for p in range(3)], commit=True)
    east.write(topic, [{"key": f"{n}", "value": f"{n}", "partition": n % 3} for n in range(500)])
    mirror = mirror_of(world, topic)
    caught_up(world, mirror)
    expected = records(east, topic)
    assert len(expected) == 5 + 3 + 500
    assert records(west, topic) == expected
    made = settings(west, topic)
    assert (made["cleanup.policy"], made["max.message.bytes"]) == ("compact", "2000000")
    # Nothing new: nothing moves, and nothing hangs on the control records at the ends.
    assert world.run(mirror).rows == 0


def test_topics_and_partitions_are_followed(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    stem = east.name("f")
    first = east.create(f"{stem}.a")
    east.create(f"{stem}.private")
    mirror = mirror_of(
        world, f"{stem}.*", exclude_topics=("*.private",), policy="prefix", renames={f"{stem}.b": f"{stem}.new"}
    )
    east.write(first, [{"value": f"{n}"} for n in range(5)])
    east.write(f"{stem}.private", [{"value": "no"}])
    caught_up(world, mirror)
    east.grow(first, 3)
    east.write(first, [{"value": f"more {n}", "partition": n % 3} for n in range(9)])
    second = east.create(f"{stem}.b", 2)
    east.write(second, [{"value": "b", "partition": 1}])
    caught_up(world, mirror)
    assert records(west, f"kafka_east.{first}") == records(east, first)
    assert records(west, f"{stem}.new") == records(east, second)
    on_target = west.admin.list_topics(timeout=30).topics
    assert {name for name in on_target if stem in name} == {f"kafka_east.{first}", f"{stem}.new"}
    assert len(on_target[f"{stem}.new"].partitions) == 2


def test_each_record_once_in_order_through_kills(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("k"), 3)
    mirror = mirror_of(world, topic, slots=2)
    chance, written = random.Random(3), 0
    for round_number in range(4):
        east.write(topic, [{"key": f"{n}", "value": f"{n}", "partition": n % 3} for n in range(written, written + 900)])
        east.transaction(topic, [{"value": "aborted", "partition": p % 3} for p in range(9)], commit=False)
        written += 900
        process = world.run_apart(mirror)
        try:
            process.wait(chance.uniform(2.0, 4.0) + round_number)
        except subprocess.TimeoutExpired:
            kill(process)
    caught_up(world, mirror)
    expected = records(east, topic)
    assert len(expected) == written
    assert records(west, topic) == expected


def test_the_offset_map_is_exact(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("o"), 2)
    for n in range(6):
        east.transaction(topic, [{"value": f"{n}.{i}", "partition": i % 2} for i in range(10)], commit=n % 3 != 1)
    mirror = mirror_of(world, topic, batching=Batching(max_rows=13, max_wait=timedelta(seconds=0.3)))
    caught_up(world, mirror)
    with open_services(mirror, world.connections, world.settings) as services:
        receipts = [r for entry in services.store.history(mirror.name, 100) for r in entry.receipts]
    mapped: dict[tuple[int, int], int] = {}
    for receipt in receipts:
        for name, facts in receipt["outputs"].items():
            assert facts["source"] == name  # the topic kept its name
            partition = int(name.rpartition("[")[2][:-1])
            for source, target, count in facts["runs"]:
                for step in range(count):
                    assert mapped.setdefault((partition, source + step), target + step) == target + step
    ours = {(m[0], m[1]): m[2] for m in _placed(east, topic)}
    theirs = {(m[0], m[1]): m[2] for m in _placed(west, topic)}
    assert {place: theirs[place[0], target] for place, target in mapped.items()} == ours


def _placed(logs: Logs, topic: str) -> list[tuple[int, int, bytes]]:
    from tests.integration.kafka_target import consume

    return [(m.partition(), m.offset(), m.value()) for m in consume(logs.servers, topic)]


def test_two_ways_do_not_loop(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("w"))
    west.create(topic)
    there, back = both_ways(world, topic)
    east.write(topic, [{"value": "from east", "headers": HEADERS}])
    west.write(topic, [{"value": "from west"}])
    for _ in range(3):
        caught_up(world, there)
        caught_up(world, back)
    marked = [*HEADERS, ("databus.origin", b"kafka_east")]
    assert [(r[2], r[3]) for r in records(east, topic)] == [
        (b"from east", HEADERS), (b"from west", [("databus.origin", b"kafka_west")]),
    ]  # fmt: skip
    assert [(r[2], r[3]) for r in records(west, topic)] == [(b"from west", None), (b"from east", marked)]


def test_what_cannot_be_mirrored_is_named_before_anything_is_written(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("n"), 3)
    other = east.create(east.name("n"))
    for name in (topic, other):
        east.write(name, [{"value": "v"}])
    west.create(topic, 2)
    with pytest.raises(SinkSettingError, match="has 2 partitions") as refused:
        world.run(mirror_of(world, topic, grow=False))
    assert refused.value.code == "mirror_fewer_partitions"
    with pytest.raises(SinkSettingError, match="would both be") as refused:
        world.run(mirror_of(world, topic, other, renames={topic: other}))
    assert refused.value.code == "mirror_rename_clash"
    same = world.override("kafka_east")
    with pytest.raises(SinkSettingError, match="into itself") as refused:
        world.run(mirror_of(world, topic, target_conn_id=same))
    assert refused.value.code == "mirror_loop"
    away = world.override("kafka_east", extra={"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 1000})
    with pytest.raises(SourceUnavailableError, match=r"127\.0\.0\.1:1"):
        world.run(mirror_of(world, topic, source_conn_id=away, timeout=timedelta(seconds=2.0)))
    with pytest.raises(SinkUnavailableError, match=r"127\.0\.0\.1:1"):
        world.run(mirror_of(world, other, target_conn_id=away, timeout=timedelta(seconds=2.0)), max_seconds=2.0)
    assert records(west, topic) == []
    assert other not in west.admin.list_topics(timeout=30).topics


def read_as(logs: Logs, group: str, topic: str, most: int) -> list[bytes]:
    """Read up to so many records as a member of a group, commit, and leave."""
    consumer = Consumer(
        {"bootstrap.servers": logs.servers, "group.id": group, "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
    )  # fmt: skip
    consumer.subscribe([topic])
    found: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    try:
        while len(found) < most and len(ended) < 2:
            assert time.monotonic() < deadline
            message: Any = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                ended.add(message.partition())
                continue
            ended.discard(message.partition())
            found.append(message.value())
            consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()
    return found


def test_consumers_fail_over_and_back(world: KafkaWorld) -> None:
    """What docs/runbooks/fail-consumers-over.md says, step by step."""
    east, west = world.east, world.west
    topic, group = east.create(east.name("c"), 2), east.name("group")
    west.create(topic, 2)
    there, back = both_ways(world, topic, groups=(group,))

    def mirrored() -> None:
        for flow in (there, back, there, back):
            caught_up(world, flow)

    for n in range(4):
        east.transaction(topic, [{"value": f"east {n}.{i}", "partition": i % 2} for i in range(10)], commit=n != 2)
        west.write(topic, [{"value": f"west {n}.{i}", "partition": i % 2} for i in range(6)])
        caught_up(world, (there, back)[n % 2])
    mirrored()
    seen = read_as(east, group, topic, 23)
    caught_up(world, there)
    # The eastern data centre is given up: consumers start in the west, where their group stands already.
    seen += read_as(west, group, topic, 11)
    west.write(topic, [{"value": f"west late {i}", "partition": i % 2} for i in range(8)])
    east.write(topic, [{"value": f"east late {i}", "partition": i % 2} for i in range(8)])
    mirrored()
    seen += read_as(west, group, topic, 5)
    # And back: the group is carried over by hand, since it stands in the east already.
    with open_services(there, world.connections, world.settings) as services:
        shown = GroupSync(there, services).carry([group], back=True, execute=False)
        assert GroupSync(there, services).carry([group], back=True) == shown
    seen += read_as(east, group, topic, 10_000)
    everything = {r[2] for r in records(east, topic)}
    assert everything == {r[2] for r in records(west, topic)}
    assert set(seen) == everything
    assert len(everything) == 30 + 24 + 16
    # The sites order the records of both differently: what lies between is read again, and no more than that.
    assert len(seen) - len(everything) <= 24
