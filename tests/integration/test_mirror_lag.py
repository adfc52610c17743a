"""How far a mirror is behind, by topic-partition: for people, sensors and Prometheus."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from databus import Batching
from databus.observe.prometheus import of_flow, render
from databus.ops.health.head import HeadLook
from databus.ops.health.status import FlowLook
from databus.sources.kafka import stable_offsets as kafka_stable_offsets
from tests.integration import kafka_world as given
from tests.integration.commands import Commands
from tests.integration.kafka_world import KafkaWorld, caught_up
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


def test_lag_is_told_by_partition_in_records_and_seconds(
    world: KafkaWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    east = world.east
    topic = east.create(east.name("g"), 3)
    mirror = mirror_of(world, topic, policy="prefix", batching=Batching(max_wait=timedelta(seconds=0.3)))
    east.write(topic, [{"value": "moved", "partition": p} for p in (0, 1)])
    caught_up(world, mirror)
    began = time.time() - 100
    stamps = [int(1000 * (began + n)) for n in range(4)]
    east.write(topic, [{"value": "new", "partition": 1, "timestamp": stamp} for stamp in stamps])
    east.transaction(topic, [{"value": "aborted", "partition": 2}], commit=False)
    told = f"from databus.registry import flow_from_json\nflow = flow_from_json({mirror.to_json()!r})\n"
    (tmp_path / "mirrors.py").write_text(f"# databus\n{told}")
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    rows = Commands(world, tmp_path, monkeypatch).json("mirror", "lag", mirror.name)
    assert [(r["topic"], r["partition"], r["target"]) for r in rows] == [
        (topic, p, f"kafka_east.{topic}") for p in range(3)
    ]
    # The aborted record and its marker are offsets that no consumer sees; there is nothing to tell an age by.
    assert [r["records"] for r in rows] == [0, 4, 2]
    assert rows[0]["seconds"] == 0
    assert rows[1]["seconds"] >= 100
    assert rows[2]["seconds"] is None
    with FlowLook(mirror, world.connections, world.settings) as look:
        text = render(of_flow(look.look()))
    assert f'databus_partition_lag_records{{flow="{mirror.name}",partition="1",topic="{topic}"}} 4' in text
    assert f'databus_partition_lag_seconds{{flow="{mirror.name}",partition="0",topic="{topic}"}} 0' in text


def test_what_an_open_transaction_keeps_back_is_told(
    world: KafkaWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kafka_stable_offsets, "STILL_S", 0.5)
    monkeypatch.setattr(kafka_stable_offsets, "EVERY_S", 0.2)
    east = world.east
    topic = east.create(east.name("g"), 2)
    mirror = mirror_of(world, topic, policy="prefix", batching=Batching(max_wait=timedelta(seconds=2.0)))
    east.write(topic, [{"value": "before", "partition": p} for p in (0, 1)])
    with east.open_transaction(topic, [{"value": "open", "partition": 0}] * 3):
        caught_up(world, mirror)
        (tmp_path / "mirrors.py").write_text(
            f"# databus\nfrom databus.registry import flow_from_json\nflow = flow_from_json({mirror.to_json()!r})\n"
        )
        for name, value in world.environment.items():
            monkeypatch.setenv(name, value)
        commands = Commands(world, tmp_path, monkeypatch)
        assert [(r["records"], r["held_back"]) for r in commands.json("mirror", "lag", mirror.name)] == [(0, 3), (0, 0)]
    told = [r.getMessage() for r in caplog.records if "kept back" in r.getMessage()]
    assert len(told) == 1
    assert f"3 records of {topic}[0] from 1 on are kept back by a transaction" in told[0]
    caught_up(world, mirror)
    assert [(r["records"], r["held_back"]) for r in commands.json("mirror", "lag", mirror.name)] == [(0, 0), (0, 0)]


def test_a_sensor_waits_for_the_lag_of_a_mirror(world: KafkaWorld) -> None:
    east = world.east
    topic = east.create(east.name("g"))
    mirror = mirror_of(world, topic)
    look = HeadLook(mirror, world.connections, world.settings)
    try:
        assert not look.place().within(60.0, None)  # it never ran
        east.write(topic, [{"value": "v", "timestamp": int(1000 * (time.time() - 500))}])
        caught_up(world, mirror)
        assert look.place().within(60.0, 0)
        east.write(topic, [{"value": "v", "timestamp": int(1000 * (time.time() - 500))}])
        assert not look.place().within(60.0, None)
        assert look.place().within(3600.0, 10_000)
        caught_up(world, mirror)
        assert look.place().within(60.0, 0)
    finally:
        look.close()
