"""Mirrors among three sites: each record once on each, and nothing goes round.

Two sites are clusters of their own; the third, "north", is another connection to the western one, with its own names.
"""

from __future__ import annotations

import uuid

import pytest

from databus import Flow
from databus.ops.mirror_loops import problems
from tests.integration import kafka_world as given
from tests.integration.kafka_world import KafkaWorld, caught_up, records
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


class Sites:
    """A topic on three sites."""

    def __init__(self, world: KafkaWorld):
        self.world = world
        self.topic = world.east.name("z")
        self.conn_ids = {"east": "kafka_east", "west": "kafka_west", "north": world.override("kafka_west")}
        self.logs = {"east": world.east, "west": world.west, "north": world.west}
        for site in self.logs:
            self.logs[site].create(self.at(site))

    def at(self, site: str) -> str:
        return f"{self.topic}.north" if site == "north" else self.topic

    def mirror(self, source: str, target: str, **options: bool) -> Flow:
        return mirror_of(
            self.world, self.at(source), name=f"mirror_{source}_{target}_{uuid.uuid4().hex[:6]}",
            source=self.conn_ids[source], target=self.conn_ids[target],
            renames={self.at(source): self.at(target)}, **options,
        )  # fmt: skip

    def moved(self, mirrors: list[Flow]) -> list[int]:
        """Write a record on each site, let all mirrors run until nothing moves, and count what each site holds."""
        for site, logs in self.logs.items():
            logs.write(self.at(site), [{"value": f"of {site}"}])
        for _ in range(2):
            for mirror in mirrors:
                caught_up(self.world, mirror)
        return [len(records(logs, self.at(site))) for site, logs in self.logs.items()]

    def require_one_of_each(self) -> None:
        for site, logs in self.logs.items():
            found = sorted(r[2] for r in records(logs, self.at(site)))
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
