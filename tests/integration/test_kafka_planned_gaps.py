"""What a Kafka log has lost of a plan in flight, half written as it is: named, or passed over as `on_gap` says."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from databus import Flow
from databus.core.errors import OffsetPurgedError, PlanChangedError
from databus.ops.runs.audit import audit_run
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.half_written import half_written
from tests.integration.kafka_world import KafkaWorld, caught_up
from tests.integration.test_kafka_flows import arrived, gaps_of
from tests.integration.test_kafka_shrunk import CHUNK, chunked, chunked_mirror, committed, values_at, written

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


def willing(flow: Flow, policy: str = "earliest") -> Flow:
    return flow.model_copy(update={"source": flow.source.model_copy(update={"on_gap": policy})})


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_plan_in_flight_goes_on_over_what_retention_took(world: KafkaWorld, policy: str) -> None:
    logs = world.east
    topic = logs.create(logs.name("retained"), 2)
    logs.write(topic, written(40))
    flow = chunked(world, topic, on_gap=policy)
    half_written(lambda: world.run(flow), 1)  # offsets 0 to 19 of partition 0
    logs.cut(topic, 0, 30)
    logs.cut(topic, 1, 5)
    caught_up(world, flow)
    left = [f"0.{n}" for n in range(30, 40)] + [f"1.{n}" for n in range(5, 40)]
    seen = [row["value"] for row in arrived(world, topic)]
    assert sorted(seen) == sorted([*(f"0.{n}" for n in range(CHUNK)), *left])
    first = committed(world, flow)
    (counts,) = first.counts.values()
    assert (counts.read, counts.dispatched) == (45, 45)
    (receipt,) = first.receipts
    assert (receipt["written"], receipt["vanished"]) == (65, CHUNK)
    ((decision, why),) = gaps_of(world, flow)
    assert decision == "skipped"
    assert f"on_gap={policy}: {topic}[0]: records 0 to 29 were deleted (retention); {topic}[1]: records 0 to 4" in why
    with open_services(flow, world.connections, world.settings) as services:
        audit = audit_run(flow, services, f"run of {flow.name}")
    assert (audit.summary.state, audit.summary.gaps_passed, audit.problems) == ("lost", (why,), ())
    logs.write(topic, written(1))
    assert world.run(flow).rows == 2


def test_a_plan_of_which_nothing_is_left_is_closed(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("emptied"), 2)
    logs.write(topic, written(40))
    flow = chunked(world, topic, on_gap="earliest")
    half_written(lambda: world.run(flow), 2)
    for partition in range(2):
        logs.cut(topic, partition, 40)
    caught_up(world, flow)
    assert sorted(row["value"] for row in arrived(world, topic)) == sorted(f"0.{n}" for n in range(40))
    first = committed(world, flow)
    (receipt,) = first.receipts
    assert (dict(first.counts), receipt["written"], receipt["vanished"]) == ({}, 40, 40)


def test_a_plan_in_flight_stops_by_name_and_goes_on_once_somebody_decides(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("asked"), 2)
    logs.write(topic, written(40))
    flow = chunked(world, topic)
    half_written(lambda: world.run(flow), 1)
    logs.cut(topic, 0, 30)
    for _ in range(2):
        with pytest.raises(OffsetPurgedError, match="records 0 to 29 were deleted") as stopped:
            world.run(flow)
    assert "of the planned range" in stopped.value.message
    assert "half written (kafka)" in stopped.value.hint
    assert "on_gap" in stopped.value.hint
    assert [decision for decision, _ in gaps_of(world, flow)] == ["open"]
    caught_up(world, willing(flow))
    seen = Counter(row["value"] for row in arrived(world, topic))
    assert set(seen.values()) == {1}
    assert len(seen) == CHUNK + 10 + 40
    assert [decision for decision, _ in gaps_of(world, flow)] == ["skipped"]
    committed(world, willing(flow))


def test_of_a_topic_made_anew_with_fewer_partitions_nothing_is_taken_for_what_was_planned(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("anew"), 3)
    logs.write(topic, [record for record in written(40, 3) if record["partition"]])
    flow = chunked(world, topic)
    half_written(lambda: world.run(flow), 1)  # of partition 1; the plan moves nothing of partition 0
    logs.delete(topic)
    logs.create(topic, 1)
    logs.write(topic, [{"key": f"new {n}", "value": f"new {n}"} for n in range(60)])
    for _ in range(2):
        with pytest.raises(OffsetPurgedError, match=r"\[1\]: the topic was made anew.*\[2\]: the topic was made anew"):
            world.run(flow)
    caught_up(world, willing(flow))
    seen = [row["value"] for row in arrived(world, topic)]
    assert sorted(seen) == sorted([*(f"1.{n}" for n in range(CHUNK)), *(f"new {n}" for n in range(60))])
    assert {decision for decision, _ in gaps_of(world, flow)} == {"skipped"}
    committed(world, willing(flow))


def test_a_mirror_in_flight_goes_on_over_what_retention_took(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("cutmirror"), 2)
    logs.write(topic, written(40))
    mirror = chunked_mirror(world, topic, on_gap="earliest")
    half_written(lambda: world.run(mirror), 1)
    logs.cut(topic, 0, 30)
    caught_up(world, mirror)
    seen = Counter(values_at(world.west, topic))
    assert set(seen.values()) == {1}
    assert len(seen) == CHUNK + 10 + 40
    (receipt,) = committed(world, mirror).receipts
    assert (receipt["written"], receipt["vanished"]) == (CHUNK + 50, CHUNK)


def test_a_half_written_plan_is_finished_under_settings_that_say_only_how(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("how"), 2)
    logs.write(topic, written(40))
    flow = chunked(world, topic)
    half_written(lambda: world.run(flow), 1)
    source = flow.source.model_copy(
        update={"timeout": timedelta(seconds=20), "consumer": {"fetch.max.bytes": 1_000_000}}
    )
    (sink,) = flow.sinks
    sink = sink.model_copy(
        update={"timeout": timedelta(seconds=20), "compression": "zstd", "producer": {"linger.ms": 2}}
    )
    changed = flow.model_copy(update={"source": source, "sinks": (sink,)})
    caught_up(world, changed)
    seen = Counter(row["value"] for row in arrived(world, topic))
    assert (len(seen), set(seen.values())) == (80, {1})
    assert committed(world, changed).batch == 1
    # What decides the rows is another matter.
    logs.write(topic, written(40))
    half_written(lambda: world.run(changed), 1)
    others = changed.model_copy(update={"source": source.model_copy(update={"value_format": "bytes"})})
    with pytest.raises(PlanChangedError, match="batch 2"):
        world.run(others)
    caught_up(world, changed)
