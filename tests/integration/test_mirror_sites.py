"""Mirrors among three sites, a cluster each: each record once on each, and nothing goes round."""

from __future__ import annotations

import uuid

import pytest

from databus import Flow
from databus.ops.mirror.loops import problems
from tests.integration.conftest import Started
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_world import SERVERS, KafkaWorld, caught_up, records
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> KafkaWorld:
    return KafkaWorld(started(*SERVERS, "kafka-c"), tmp_path_factory.mktemp("three_sites"))


class Sites:
    """A topic on three sites, under one name."""

    def __init__(self, world: KafkaWorld):
        self.world = world
        self.topic = world.east.name("z")
        self.logs = {"east": world.east, "west": world.west, "north": Logs(world.sandbox.address("kafka-c"))}
        for logs in self.logs.values():
            logs.create(self.topic)

    def mirror(self, source: str, target: str, **options: bool) -> Flow:
        name = f"mirror_{source}_{target}_{uuid.uuid4().hex[:6]}"
        sites = {"source": f"kafka_{source}", "target": f"kafka_{target}"}
        return mirror_of(self.world, self.topic, name=name, **sites, **options)

    def moved(self, mirrors: list[Flow]) -> list[int]:
        """Write a record on each site, let all mirrors run until nothing moves, and count what each site holds."""
        for site, logs in self.logs.items():
            logs.write(self.topic, [{"value": f"of {site}"}])
        for _ in range(2):
            for mirror in mirrors:
                caught_up(self.world, mirror)
        return [len(records(logs, self.topic)) for site, logs in self.logs.items()]

    def require_one_of_each(self) -> None:
        for site, logs in self.logs.items():
            found = sorted(r[2] for r in records(logs, self.topic))
            assert found == [b"of east", b"of north", b"of west"], site


def test_a_ring_of_three_sites_ends(world: KafkaWorld) -> None:
    sites = Sites(world)
    ways = (("east", "west"), ("west", "north"), ("north", "east"))
    assert {p.code for p in problems(sites.mirror(*way) for way in ways)} == {"mirror_loop"}
    mirrors = [sites.mirror(*way, origin=True) for way in ways]
    assert problems(mirrors) == []
    assert sites.moved(mirrors) == [3, 3, 3]
    sites.require_one_of_each()


def test_in_a_mesh_of_three_sites_nothing_comes_twice(world: KafkaWorld) -> None:
    sites = Sites(world)
    ways = [(one, other) for one in sites.logs for other in sites.logs if one != other]
    assert {p.code for p in problems(sites.mirror(*way, origin=True) for way in ways)} == {"mirror_twice"}
    mirrors = [sites.mirror(*way, forward=False) for way in ways]
    assert problems(mirrors) == []
    assert sites.moved(mirrors) == [3, 3, 3]
    sites.require_one_of_each()
