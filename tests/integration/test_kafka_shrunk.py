"""A Kafka source loses records of a batch that a kill left half written: what is left comes once, and counts add up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from databus import Flow, Kafka
from databus.core.batching import Batching
from databus.core.state.checkpoint import HistoryEntry
from databus.ops.ledger.verify import verify
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.half_written import half_written
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_target import consume
from tests.integration.kafka_world import KafkaWorld, caught_up
from tests.integration.mirrors import mirror_of
from tests.integration.test_kafka_flows import arrived, flow_of
from tests.integration.test_mirror_map import eager_cleaner

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world

COMPACT = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
CHUNK = 20


def chunked(world: KafkaWorld, topic: str, **options: Any) -> Flow:
    """A flow that takes a topic in one batch, and writes it in chunks of `CHUNK` rows."""
    flow = flow_of(world, topic, batching=Batching(max_rows=1000, max_wait=timedelta(seconds=0.3)), **options)
    (sink,) = flow.sinks
    assert isinstance(sink, Kafka)
    return flow.model_copy(update={"sinks": (sink.model_copy(update={"chunk_rows": CHUNK}),)})


def chunked_mirror(world: KafkaWorld, topic: str, **options: Any) -> Flow:
    mirror = mirror_of(
        world,
        topic,
        batching=Batching(max_rows=1000, max_wait=timedelta(seconds=0.3)),
        copy_settings=False,
        slots=1,
        **options,
    )
    (sink,) = mirror.sinks
    return mirror.model_copy(update={"sinks": (sink.model_copy(update={"chunk_rows": CHUNK}),)})


def compact(logs: Logs, topic: str, superseded: Mapping[int, range]) -> None:
    """Supersede the records at some offsets of partitions, and wait until they are gone."""
    gone = {(p, f"{p}.{n}".encode()) for p, offsets in superseded.items() for n in offsets}
    logs.write(topic, [{"key": value, "value": b"new " + value, "partition": p} for p, value in sorted(gone)])
    with eager_cleaner(logs):

        def compacted() -> bool:
            time.sleep(0.1)  # a segment is closed by a record that comes later than segment.ms
            for partition in superseded:
                stamp = f"roll {time.time_ns()}"
                logs.write(topic, [{"key": stamp, "value": stamp, "partition": partition}])
            return not gone & {(m.partition(), m.value()) for m in consume(logs.servers, topic)}

        logs.until(compacted, f"{topic} is compacted")


def written(count: int, partitions: int = 2) -> list[dict[str, Any]]:
    """Records whose key and value are "PARTITION.OFFSET"."""
    values = [(p, f"{p}.{n}") for n in range(count) for p in range(partitions)]
    return [{"key": value, "value": value, "partition": partition} for partition, value in values]


def committed(world: KafkaWorld, flow: Flow) -> HistoryEntry:
    """Return the oldest batch of a flow, after verifying its ledger."""
    with open_services(flow, world.connections, world.settings) as services:
        assert [str(problem) for problem in verify(flow, services, None).problems] == []
        return [entry for entry in services.store.history(flow.name, 1000) if entry.action == "commit"][-1]


def values_at(logs: Logs, topic: str) -> list[str]:
    return [m.value().decode() for m in consume(logs.servers, topic)]


def test_a_batch_that_is_tried_again_after_compaction_loses_nothing(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("compacted"), 2, COMPACT)
    logs.write(topic, written(40))
    flow = chunked(world, topic)
    half_written(lambda: world.run(flow), 1)  # offsets 0 to 19 of partition 0
    before = [row["value"] for row in arrived(world, topic)]
    assert sorted(before) == sorted(f"0.{n}" for n in range(CHUNK))
    compact(logs, topic, {0: range(5, 30), 1: range(3)})
    left = values_at(logs, topic)
    caught_up(world, flow)
    seen = Counter(row["value"] for row in arrived(world, topic))
    assert set(seen.values()) == {1}
    assert set(seen) == {*before, *left}
    first = committed(world, flow)
    of_range = [value for value in left if value[1] == "."]
    assert len(of_range) == 80 - 28
    (counts,) = first.counts.values()
    assert (counts.read, counts.dispatched) == (len(of_range), len(of_range))
    (receipt,) = first.receipts
    assert receipt["vanished"] == 15
    assert receipt["written"] == len(of_range) + 15
    compact(logs, topic, {1: range(10, 20)})
    caught_up(world, flow)
    committed(world, flow)  # what is compacted away after the commit is no discrepancy either


def test_a_slot_that_is_finished_stays_so_after_compaction(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("finished"), 2, COMPACT)
    logs.write(topic, written(30))
    flow = chunked(world, topic)
    (sink,) = flow.sinks
    flow = flow.model_copy(update={"sinks": (sink.model_copy(update={"slots": 2, "partitions": 2}),)})
    half_written(lambda: world.run(flow), 1, slot=1)  # slot 0 is finished, slot 1 has begun or is finished
    compact(logs, topic, {0: range(10), 1: range(10)})
    left = values_at(logs, topic)
    caught_up(world, flow)
    seen = Counter(row["value"] for row in arrived(world, topic))
    assert set(seen.values()) == {1}
    assert {*left} <= {*seen}
    first = committed(world, flow)
    (counts,) = first.counts.values()
    assert counts.read == 40
    assert (
        sum(receipt.get("vanished", 0) for receipt in first.receipts)
        == sum(receipt["written"] for receipt in first.receipts) - counts.read
    )
    assert any(receipt["duplicate"] and receipt.get("vanished") for receipt in first.receipts)


def test_a_mirror_goes_on_behind_what_compaction_took(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("mirrored"), 2, COMPACT)
    logs.write(topic, written(40))
    mirror = chunked_mirror(world, topic)
    half_written(lambda: world.run(mirror), 1)
    before = values_at(world.west, topic)
    compact(logs, topic, {0: range(5, 30), 1: range(3)})
    left = values_at(logs, topic)
    caught_up(world, mirror)
    seen = Counter(values_at(world.west, topic))
    assert set(seen.values()) == {1}
    assert set(seen) == {*before, *left}
    (receipt,) = committed(world, mirror).receipts
    assert receipt["vanished"] == 15
