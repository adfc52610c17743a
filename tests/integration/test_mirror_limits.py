"""Bounds of a mirror: bytes per second, and records that the target does not take."""

from __future__ import annotations

import pytest

from databus import Batching
from databus.core.errors import RecordRejectedError
from databus.ops.services import open_services
from tests.integration import kafka_world as given
from tests.integration.kafka_world import KafkaWorld, caught_up, records
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


def test_a_run_moves_no_more_than_its_bytes_per_second_over_all_slots(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("b"), 2)
    east.write(topic, [{"value": bytes([n]) * 10_000, "partition": n % 2} for n in range(25)])
    limit = 100_000
    mirror = mirror_of(world, topic, slots=2, max_bytes_per_s=limit, batching=Batching(max_seconds=0.3))
    caught_up(world, mirror)
    assert records(west, topic) == records(east, topic)
    with open_services(mirror, world.connections, world.settings) as services:
        batches = [e for e in reversed(services.store.history(mirror.name, 100)) if e.action == "commit"]
    assert all(0 < batch.bytes <= limit for batch in batches)
    assert sum(batch.bytes for batch in batches) >= 250_000
    span = (batches[-1].at - batches[0].at).total_seconds()
    first, last = batches[0].bytes, batches[-1].bytes
    assert sum(batch.bytes for batch in batches) - first - last <= span * limit


def test_a_record_over_the_targets_limit_is_held_back_or_stops_by_choice(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("l"))
    west.create(topic, 1, {"max.message.bytes": "100000"})
    east.write(topic, [{"value": b"small"}, {"key": b"k", "value": b"x" * 200_000}, {"value": b"small too"}])
    strict = mirror_of(world, topic, follow_settings=False, too_large="fail")
    with pytest.raises(
        RecordRejectedError, match=rf"{topic}\[0\]:1 has 200\d+ bytes, and topic {topic} .* 100000"
    ) as no:
        world.run(strict)
    assert no.value.code == "mirror_record_too_large"
    assert records(west, topic) == []
    result = world.run(mirror_of(world, topic, follow_settings=False))
    assert (result.rows, result.quarantined) == (3, 1)
    assert [r[2] for r in records(west, topic)] == [b"small", b"small too"]
