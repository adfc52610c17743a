"""Heartbeats: the delay of a mirror is known while nothing is written on its source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from databus.bench.mirror.mirror_maker import MirrorMaker
from databus.core.errors import ConfigError
from databus.kafka.heartbeats import Heartbeat
from databus.ops.mirror.heartbeats import HeartbeatSighting, newest_heartbeat
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.kafka_world import KafkaWorld, caught_up, records
from tests.integration.mirrors import mirror_of
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


def test_a_heartbeat_tells_the_delay_of_an_idle_mirror(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("h"))
    source = world.override("kafka_east")  # a name of its own, so that the topics on the target are too
    mirror = mirror_of(world, topic, source_conn_id=source, heartbeat=timedelta(seconds=10))
    with open_services(mirror, world.connections, world.settings) as services:
        assert newest_heartbeat(mirror, services) == HeartbeatSighting(None, None)
        began = datetime.now(UTC)
        caught_up(world, mirror)
        seen = newest_heartbeat(mirror, services)
        assert seen.written_at is not None
        assert seen.age_s is not None
        assert abs((seen.written_at - began).total_seconds()) < 300
        caught_up(world, mirror)
        later = newest_heartbeat(mirror, services)
        assert later.written_at is not None
        assert later.written_at > seen.written_at
    # A consumer of the target finds it where MirrorMaker 2's would be, and in its form.
    beats = [Heartbeat.read(r[1], r[2]) for r in records(west, f"{source}.heartbeats")]
    assert [b.at for b in beats if b and (b.source, b.target) == (source, "kafka_west")][-1] == later.written_at
    assert topic not in west.admin.list_topics(timeout=30).topics  # nothing else was written


def test_mirror_maker_s_own_are_read_and_written_in_the_same_bytes(world: KafkaWorld, tmp_path: Path) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("h"))
    peer = MirrorMaker("beats", east.servers, west.servers, topic, exactly_once=False, heartbeats=True)

    def its_own() -> list[tuple[bytes, bytes, Heartbeat]]:
        wanted = {"east_beats", "west_beats"}
        return [
            (key, value, beat)
            for logs in (east, west)
            if "heartbeats" in logs.admin.list_topics(timeout=30).topics
            for _, key, value, *_ in records(logs, "heartbeats")
            if (beat := Heartbeat.read(key, value)) is not None and {beat.source, beat.target} == wanted
        ]

    with peer.running(tmp_path, ports_from(23_500)):
        east.until(lambda: len(its_own()) > 2, "heartbeats of MirrorMaker 2")
    for key, value, beat in its_own():
        assert (beat.key, beat.value) == (key, value)
        assert abs((datetime.now(UTC) - beat.at).total_seconds()) < 300


def test_a_mirror_writes_none_unless_asked(world: KafkaWorld) -> None:
    mirror = mirror_of(world, world.east.create(world.east.name("h")))
    with (
        open_services(mirror, world.connections, world.settings) as services,
        pytest.raises(ConfigError, match="writes no heartbeats"),
    ):
        newest_heartbeat(mirror, services)
