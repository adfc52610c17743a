"""Backfills of Kafka topics and of mirrors on two real clusters: ranges whose ends lie elsewhere in each partition."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, KafkaTopics
from databus.core.errors import (
    BackfillIncompleteError,
    BackfillOpenError,
    BackfillRangeError,
    OffsetPurgedError,
    SinkUnavailableError,
)
from databus.core.positions.offset_ranges import earlier
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.core.state.backfill import Aim, Mode
from databus.ops.backfill.run import BackfillRequest, preview, take_up
from databus.ops.backfill.status import status
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.services import open_services
from databus.runtime.drain import Drain
from tests.contract.source_contract import rows_of
from tests.integration import kafka_world as given
from tests.integration.backfills import at_once, cut_off_twice, live_nodes, past_services, run_range
from tests.integration.kafka_target import consume
from tests.integration.kafka_world import KafkaWorld, caught_up, records
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world

BASE = datetime(2026, 11, 1, 10, tzinfo=UTC)
MISSING = Aim(Mode.MISSING)
PARTITIONS = 3


def at(minutes: float) -> str:
    return (BASE + timedelta(minutes=minutes)).isoformat()


def record(number: int, minutes: float, partition: int | None = None) -> dict[str, Any]:
    """Return a record that says it was made at a time; its value is its own."""
    stamp = int((BASE + timedelta(minutes=minutes)).timestamp() * 1000)
    return {
        "key": f"k{number % 5}",
        "value": f"v{number}",
        "partition": number % PARTITIONS if partition is None else partition,
        "timestamp": stamp,
        "headers": [("n", str(number).encode()), ("n", None)],
    }


def stepping_back(minutes: int, each: int, seed: int) -> list[dict[str, Any]]:
    """Records over some minutes, by a clock that goes on and now and then steps back by up to 90 s."""
    chosen = random.Random(seed)
    times = [(n + 0.5) / each - chosen.choice((0, 0, 0, chosen.random() * 1.5)) for n in range(minutes * each)]
    return [record(n, max(0.0, minute)) for n, minute in enumerate(times)]


def by_minute(world: KafkaWorld, topic: str) -> dict[int, Counter[tuple[Any, ...]]]:
    """Return the records of a source's topic by minute of the running maximum of time in their partition."""
    latest: dict[int, float] = {}
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for facts in records(world.east, topic):
        partition, stamp = facts[0], facts[4][1]
        latest[partition] = max(latest.get(partition, 0), stamp)
        minute = int((latest[partition] / 1000 - BASE.timestamp()) // 60)
        found.setdefault(minute, Counter())[_hashable(facts)] += 1
    return found


def _hashable(facts: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*facts[:3], tuple(facts[3] or ()), *facts[4:])


def seen(world: KafkaWorld, topic: str) -> Counter[tuple[Any, ...]]:
    there = topic in world.west.admin.list_topics(timeout=30).topics
    return Counter(_hashable(facts) for facts in records(world.west, topic)) if there else Counter()


def mirrored(world: KafkaWorld, what: list[dict[str, Any]], **options: Any) -> tuple[Flow, str]:
    """Return a mirror that has caught up, and its topic."""
    topic = world.east.create(world.east.name("bf"), PARTITIONS)
    world.east.write(topic, what)
    flow = mirror_of(world, topic, **options)
    caught_up(world, flow)
    return flow, topic


def test_intervals_of_a_mirror_partition_its_records_byte_for_byte(world: KafkaWorld) -> None:
    flow, topic = mirrored(world, [*stepping_back(5, 12, seed=3), *(record(900 + p, 7, p) for p in range(PARTITIONS))])
    expected, nodes, live = by_minute(world, topic), live_nodes(world, flow.name), records(world.west, topic)
    order = list(range(5))
    random.Random(5).shuffle(order)
    moved = Counter[tuple[Any, ...]]()
    for minute in order:
        state = run_range(world, flow, at(minute), at(minute + 1))
        now = seen(world, f"{topic}.replay")
        assert now - moved == expected.get(minute, Counter()), f"minute {minute}"
        assert (state.done, state.rows.dispatched) == (True, expected.get(minute, Counter()).total())
        moved = now
    assert set(moved.values()) == {1}
    assert live_nodes(world, flow.name) == nodes
    assert records(world.west, topic) == live  # and the live topic


def test_a_day_in_order_has_each_partition_as_it_was(world: KafkaWorld) -> None:
    flow, topic = mirrored(world, stepping_back(4, 15, seed=8), policy="prefix")
    small = flow.model_copy(update={"batching": Batching(max_rows=7)})
    for minute in range(4):
        run_range(world, small, at(minute), at(minute + 1), in_order=True)
    last = run_range(world, small, at(4), at(9), in_order=True)  # what stepped forward over the end
    assert last.done
    assert records(world.west, f"kafka_east.{topic}.replay") == records(world.east, topic)


def test_missing_is_what_was_skipped_however_the_ends_lie_in_each_partition(world: KafkaWorld) -> None:
    flow, topic = mirrored(world, stepping_back(2, 12, seed=1))
    world.east.write(topic, [record(n, 2 + n / 30) for n in range(100, 130)])
    with open_services(flow, world.connections, world.settings) as services:
        mediation.execute(flow, services, "skip", Target(place="latest"), Attribution("ada", "in a hurry"))
    world.east.write(topic, [record(n, 4 + n / 400) for n in range(200, 220)])
    caught_up(world, flow)
    nodes, had = live_nodes(world, flow.name), seen(world, topic)
    everything = Counter(_hashable(facts) for facts in records(world.east, topic))
    assert (everything - had).total() == 30
    # Intervals that overlap, and cut partitions elsewhere than batches did: what one takes up, the other leaves.
    first = run_range(world, flow, at(1), at(5.7), MISSING)
    second = run_range(world, flow, "earliest", "latest", MISSING)
    again = run_range(world, flow, at(1), at(5.7), MISSING)
    assert (first.done, second.done, again.backfill.id) == (True, True, first.backfill.id)
    assert 0 < first.rows.dispatched < 30
    assert first.rows.dispatched + second.rows.dispatched == 30
    assert seen(world, topic) == everything
    assert live_nodes(world, flow.name) == nodes
    third = run_range(world, flow, at(0), at(5), MISSING)
    assert (third.pieces, third.done) == ((), True)


def test_a_range_once_though_run_again_cut_off_or_twice_at_a_time(
    world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic = mirrored(world, [record(n, n / 60) for n in range(90)])
    flow = flow.model_copy(update={"batching": Batching(max_rows=9)})
    drain = Drain()
    cut_off_twice(monkeypatch, drain)
    with pytest.raises(SinkUnavailableError):
        run_range(world, flow, at(0), at(1))
    with pytest.raises(BackfillIncompleteError, match="is not done"):
        run_range(world, flow, at(0), at(1), drain=drain)
    with past_services(world, flow) as services:
        assert [state.done for state in status(flow, services)] == [False]
    assert at_once(2, lambda: run_range(world, flow, at(0), at(1), lease_wait_s=60)) == []
    assert seen(world, f"{topic}.replay") == by_minute(world, topic)[0]


def test_what_comes_meanwhile_is_not_of_the_range(world: KafkaWorld) -> None:
    topic = world.east.create(world.east.name("bf"), PARTITIONS)
    world.east.write(topic, [record(n, 0.5) for n in range(12)])
    flow = Flow(
        name=f"{topic}_flow",
        source=KafkaTopics(conn_id="kafka_east", topics=(f"{topic}*",), start="earliest"),
        sinks=(Kafka(conn_id="kafka_west", topic="out." + topic),),
        zookeeper_conn_id=world.override("zookeeper_default", extra={"session_timeout_s": 3}),
    )
    caught_up(world, flow)
    with past_services(world, flow) as services:
        taken = take_up(flow, services, BackfillRequest("earliest", "latest", Aim(Mode.REPLAY, ".replay")), "ada")
        world.east.write(topic, [record(n, 0.6) for n in range(20, 26)])
        other = world.east.create(f"{topic}-other", 2)
        world.east.write(other, [record(n, 0.6, n % 2) for n in range(4)])
        caught_up(world, flow)
        assert services.backfills is not None
        assert [b.id for b in services.backfills.backfills(flow.name)] == [taken.id]
    words = tuple(f"offsets:{','.join(f'{topic}:{p}:{n}' for p in range(PARTITIONS))}" for n in (0, 4))
    state = run_range(world, flow, *words)
    assert (state.backfill.id, state.done, state.rows.dispatched) == (taken.id, True, 12)
    assert len(consume(world.west.servers, f"out.{topic}.replay")) == 12
    assert len(consume(world.west.servers, f"out.{topic}")) == 22


def test_what_cannot_be_told_or_is_gone_is_refused_by_name(world: KafkaWorld) -> None:
    flow, topic = mirrored(world, [record(n, n / 10) for n in range(60)])
    with past_services(world, flow) as services:

        def refuse(start: str, end: str, aim: Aim = MISSING) -> None:
            preview(flow, services, BackfillRequest(start, end, aim), "ada")

        with pytest.raises(
            BackfillRangeError, match=rf"ends before it begins in some partitions: {topic}\[0\] from 15"
        ):
            refuse(f"offsets:{topic}:0:15,{topic}:1:2", f"offsets:{topic}:0:9,{topic}:1:12")
        world.east.cut(topic, 1, 10)
        with pytest.raises(OffsetPurgedError, match=rf"nothing older is left of {topic}\[1\] \(deleted up to 10\)"):
            refuse(at(1), at(4), Aim(Mode.REPLAY, ".replay"))
        refuse(at(4), at(5), Aim(Mode.REPLAY, ".replay"))
    with open_services(flow, world.connections, world.settings) as services:
        now = datetime.now(UTC)
        early, late = ((now - timedelta(seconds=s)).isoformat() for s in (600, 5))
        with pytest.raises(BackfillOpenError, match="some may still come that say an earlier time"):
            preview(flow, services, BackfillRequest(early, late, MISSING), "ada")
        take_up(flow, services, BackfillRequest(at(4), at(5), Aim(Mode.REPLAY, ".replay")), "ada")
    world.east.delete(topic)
    world.east.create(topic, PARTITIONS)
    world.east.write(topic, [record(n, n / 10) for n in range(60)])
    with pytest.raises(OffsetPurgedError, match="the log that held offset"):
        run_range(world, flow, at(4), at(5))
    assert seen(world, f"{topic}.replay") == Counter()


def test_a_view_of_a_range_ends_in_each_partition_where_the_range_does(world: KafkaWorld) -> None:
    """So a sink that fell behind sees it: the flow may be ahead of the next batch in one partition only."""
    topic = world.east.create(world.east.name("bf"), 2)
    world.east.write(topic, [record(n, 0, 0) for n in range(40)] + [record(n, 0, 1) for n in range(100, 104)])
    source = world.east.open(topics=(topic,), start="earliest")
    try:
        start = source.start_offset()
        end = KafkaOffsets({topic: {0: 6, 1: 3}})
        assert isinstance(start, KafkaOffsets)
        view = source.between(OffsetRange(earlier(start, end), end))  # type: ignore[attr-defined] # of this source
        place, values = start, list[Any]()
        while (plan := view.plan(place, Batching(max_rows=4, max_wait=timedelta(seconds=0.1)))) is not None:
            values += [row["after"] for row in rows_of(view, plan)]
            place = plan.range.end
        assert place.compare(end).name == "EQUAL"
        assert len(values) == 9
        assert view.lag(place).bytes == 0
        assert source.lag(place).bytes > 0
    finally:
        source.close()
