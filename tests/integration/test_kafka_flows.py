"""Flows whose source is Kafka, on real servers: each record once through kills, gaps recorded and passed."""

from __future__ import annotations

import json
import logging
import random
import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, KafkaTopics
from databus.core.alerts.alert import AlertKind
from databus.core.errors import ConfigError, OffsetPurgedError
from databus.core.findings import Level
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.observe.alerts.rules import Observation
from databus.ops.health.doctor import examine_flow
from databus.ops.health.status import FlowLook
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.heard_alerts import Heard
from tests.integration.kafka_target import consume
from tests.integration.kafka_world import KafkaWorld, caught_up, kill

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


def flow_of(world: KafkaWorld, topic: str, **options: Any) -> Flow:
    quick = world.override("zookeeper_default", extra={"session_timeout_s": 3})
    batching = options.pop("batching", Batching(max_rows=40, max_wait=timedelta(seconds=0.3)))
    return Flow(
        name=f"flow_{uuid.uuid4().hex[:10]}",
        source=KafkaTopics(**{"conn_id": "kafka_east", "topics": (topic,), "start": "earliest", **options}),
        sinks=(Kafka(conn_id="kafka_east", topic=f"{topic}.out", envelope="row", partitions=3, tombstones=False),),
        batching=batching,
        zookeeper_conn_id=quick,
    )


def arrived(world: KafkaWorld, topic: str) -> list[dict[str, Any]]:
    return [json.loads(m.value()) for m in consume(world.east.servers, f"{topic}.out")]


def gaps_of(world: KafkaWorld, flow: Flow) -> list[tuple[str, str]]:
    with open_services(flow, world.connections, world.settings) as services:
        return [(gap.decision, gap.why) for gap in services.store.gaps(flow.name)]


def missed(world: KafkaWorld, flow: Flow) -> tuple[str, ...] | None:
    """Return what an alert would name."""
    with FlowLook(flow, world.connections, world.settings) as look:
        return look.look().missing_tables


def test_each_record_once_through_kills(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("k"), 3)
    written = 0
    flow = flow_of(world, topic)
    chance = random.Random(5)
    for round_number in range(4):
        logs.write(
            topic, [{"key": f"k{n % 13}", "value": f"{n}", "partition": n % 3} for n in range(written, written + 300)]
        )
        written += 300
        logs.transaction(topic, [{"value": "aborted"}] * 10, commit=False)
        process = world.run_apart(flow)
        try:
            process.wait(chance.uniform(2.0, 5.0) + round_number)
        except Exception:  # noqa: BLE001 - it still ran
            kill(process)
    caught_up(world, flow)
    seen = arrived(world, topic)
    assert sorted(int(row["value"]) for row in seen) == list(range(written))
    assert len({row["__event_id"] for row in seen}) == written
    by_partition: dict[int, list[int]] = {}
    for row in seen:
        by_partition.setdefault(row["partition"], []).append(row["offset"])
    for key in {row["key"] for row in seen}:
        for partition in range(3):
            places = [r["offset"] for r in seen if (r["key"], r["partition"]) == (key, partition)]
            assert places == sorted(places)


def test_a_flow_goes_on_and_tells_its_failure_whatever_times_its_records_say(world: KafkaWorld, heard: Heard) -> None:
    logs = world.east
    topic = logs.create(logs.name("k"), config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    flow = flow_of(world, topic)
    logs.write(topic, [{"value": "now"}])
    caught_up(world, flow)
    logs.write(topic, [{"value": "then", "timestamp": 1_764_032_400_000_000}])
    heard.tell(flow, Observation(AlertKind.FAILURE, RuleVerdict.OVER, "transfer failed", "transfer", run_id="r1"))
    assert heard.events("failure") == ["raised"]
    with FlowLook(flow, world.connections, world.settings) as look:
        figures = look.look()
    assert (figures.unreachable, figures.lag_seconds, [p.records for p in figures.partitions]) == ({}, None, [1])
    caught_up(world, flow)
    assert sorted(row["value"] for row in arrived(world, topic)) == ["now", "then"]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_gap_is_recorded_and_passed(world: KafkaWorld, policy: str) -> None:
    logs = world.east
    topic = logs.create(logs.name("g"))
    logs.write(topic, [{"key": "k", "value": f"{n}"} for n in range(5)])
    flow = flow_of(world, topic, on_gap=policy)
    world.run(flow)
    logs.write(topic, [{"key": "k", "value": f"{n}"} for n in range(5, 15)])
    logs.cut(topic, 0, 10)
    world.run(flow)
    logs.write(topic, [{"key": "k", "value": "last"}])
    world.run(flow)
    left = ["10", "11", "12", "13", "14"] if policy == "earliest" else []
    assert [row["value"] for row in arrived(world, topic)] == ["0", "1", "2", "3", "4", *left, "last"]
    ((decision, why),) = gaps_of(world, flow)
    assert decision == "skipped"
    assert f"on_gap={policy}: {topic}[0]: records 5 to 9 were deleted (retention)" in why


def test_a_gap_stops_the_flow_until_somebody_decides(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("f"))
    logs.write(topic, [{"key": "k", "value": f"{n}"} for n in range(5)])
    flow = flow_of(world, topic)
    world.run(flow)
    logs.delete(topic)
    logs.create(topic)
    logs.write(topic, [{"key": "k", "value": f"new {n}"} for n in range(3)])
    for _ in range(2):
        with pytest.raises(OffsetPurgedError, match="made anew"):
            world.run(flow)
    ((decision, why),) = gaps_of(world, flow)
    assert decision == "open"
    assert "what followed offset 5 of the former one is gone" in why
    willing = flow.model_copy(update={"source": flow.source.model_copy(update={"on_gap": "earliest"})})
    world.run(willing)
    values = [row["value"] for row in arrived(world, topic)]
    assert values == ["0", "1", "2", "3", "4", "new 0", "new 1", "new 2"]
    ((decision, why),) = gaps_of(world, flow)
    assert decision == "skipped"


def test_a_topic_that_is_not_there_stops_the_flow_before_its_first_row(world: KafkaWorld) -> None:
    logs = world.east
    topic = logs.create(logs.name("there"))
    logs.write(topic, [{"key": "k", "value": "1"}])
    absent = f"{topic}s"
    misspelled = flow_of(world, topic, topics=(topic, absent))
    with pytest.raises(ConfigError, match=f"topic {absent}: the topic does not exist") as refused:
        world.run(misspelled)
    assert refused.value.code == "source_topic_missing"
    assert refused.value.hint.startswith(f"Did you mean {topic}")
    assert world.checkpoint(misspelled) is None
    diagnosed = {(f.level, f.code) for f in examine_flow(misspelled, world.connections)}
    assert (Level.ERROR, "source_topic_missing") in diagnosed
    # One that is waited for, and a pattern that matches nothing, are named by each run.
    pattern = f"{absent}.*"
    source = misspelled.source.model_copy(update={"on_missing_topic": "wait", "topics": (topic, absent, pattern)})
    waits = misspelled.model_copy(update={"source": source})
    for _ in range(2):
        assert world.run(waits).summary()["missing_tables"] == [absent, pattern]
    logs.create(absent)
    logs.write(absent, [{"key": "k", "value": "2"}])
    assert world.run(waits).summary()["missing_tables"] == [pattern]
    assert [row["value"] for row in arrived(world, topic)] == ["1", "2"]
    levels = {f.subject.split()[-1]: f.level for f in examine_flow(waits, world.connections) if "missing" in f.code}
    assert levels == {pattern: Level.WARN}


def test_topics_that_are_deleted_while_a_flow_runs_are_told_by_name(
    world: KafkaWorld, caplog: pytest.LogCaptureFixture
) -> None:
    logs = world.east
    stem = logs.name("gone")
    named, matched = logs.create(stem), logs.create(f"{stem}.a")
    logs.create(f"{stem}.b")
    flow = flow_of(world, stem, topics=(stem, f"{stem}.?"))
    assert world.run(flow).missing_tables == ()

    def delete() -> None:
        logs.delete(named)
        logs.delete(matched)

    later = threading.Timer(3.0, delete)
    later.start()
    caplog.set_level(logging.INFO, "databus")
    summary = world.run(flow, until_caught_up=False, max_seconds=20).summary()
    later.join()
    assert summary["missing_tables"] == [named, matched]
    told = [record.getMessage() for record in caplog.records if " is gone" in record.getMessage()]
    assert [text.partition(" is gone")[0].rpartition(" ")[2] for text in told] == [named, matched]
    assert "only a pattern names it, and all that was in it at" in told[1]
    # What only a pattern names is told once where all of it was moved, and missed where it was not.
    caplog.clear()
    assert world.run(flow).missing_tables == (named,)
    assert missed(world, flow) == (named,)
    left = logs.create(f"{stem}.c")
    logs.write(left, [{"key": "k", "value": f"{n}"} for n in range(5)])
    few = flow.model_copy(update={"batching": Batching(max_rows=2, max_wait=timedelta(seconds=0.3))})
    world.run(few, max_batches=1)
    logs.delete(left)
    for _ in range(2):
        assert world.run(few).missing_tables == (named, left)
        assert missed(world, flow) == (named, left)
    assert f"topic {left} is gone (deleted" in caplog.text


def test_a_topic_that_rotates_away_between_two_runs_is_no_alert(world: KafkaWorld) -> None:
    logs = world.east
    stem = logs.name("day")
    first, second = logs.create(f"{stem}.1"), logs.create(f"{stem}.2", 3)
    for topic in (first, second):
        logs.write(topic, [{"key": "k", "value": topic, "partition": 0}])
    flow = flow_of(world, stem, topics=(f"{stem}.*",), exclude_topics=(f"{stem}.out",))
    world.run(flow)
    logs.delete(first)
    assert missed(world, flow) == ()
    assert world.run(flow).missing_tables == (first,)
    assert world.run(flow).missing_tables == ()
    assert missed(world, flow) == ()
    logs.create(f"{stem}.3")
    logs.write(f"{stem}.3", [{"key": "k", "value": "3"}])
    assert world.run(flow).missing_tables == ()
    assert sorted(row["value"] for row in arrived(world, stem)) == ["3", first, second]
