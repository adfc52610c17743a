"""Bounds of a mirror: bytes per second, and records that the target does not take."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest

from databus import Batching
from databus.binlog.segments.large_values import read_large_value
from databus.core.errors import RecordRejectedError
from databus.ops.quarantine.show import select
from databus.ops.services import open_services
from databus.records.quarantine.rows import Selection
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
    mirror = mirror_of(world, topic, slots=2, max_bytes_per_s=limit, batching=Batching(max_wait=timedelta(seconds=0.3)))
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


def test_a_value_over_the_targets_limit_is_claimed_by_choice(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("l"), 2)
    west.create(topic, 2, {"max.message.bytes": "100000"})
    large, headers = bytes(range(256)) * 1000, [("h", b"1"), ("h", None)]
    given = [
        {"value": b"small", "partition": 0},
        {"key": b"k", "value": large, "headers": headers, "partition": 0},
        {"value": b"small too", "partition": 0},
        {"key": b"x" * 200_000, "value": large, "headers": headers, "partition": 1},
        {"key": b"k", "value": large, "partition": 1},
        {"key": b"k", "value": None, "partition": 1},
    ]
    east.write(topic, given)
    mirror = mirror_of(world, topic, follow_settings=False, too_large="large_value")
    result = world.run(mirror)
    assert (result.rows, result.quarantined) == (6, 1)
    ours, theirs = records(east, topic), records(west, topic)
    # What is too large without its value is held back, whole; the rest stands in its place and in order.
    (held,) = ours[3:4]
    kept = [record for record in ours if record != held]
    assert [(r[0], r[1], r[4]) for r in theirs] == [(r[0], r[1], r[4]) for r in kept]
    resolved = []
    for partition, key, value, found, stamp in theirs:
        if marks := [of for name, of in found or () if name == "databus.claim"]:
            reference = json.loads(value)
            assert (reference["bytes"], reference["sha256"].encode()) == (len(large), marks[0])
            value = b"".join(read_large_value(value.decode()))  # noqa: PLW2901 - as a consumer does it
            found = found[:-1] or None  # noqa: PLW2901
        resolved.append((partition, key, value, found, stamp))
    assert resolved == kept
    assert [record != mirrored for record, mirrored in zip(kept, theirs, strict=True)] == [
        False, True, False, True, False,
    ]  # fmt: skip
    with open_services(mirror, world.connections, world.settings) as services:
        receipts = [r for entry in services.store.history(mirror.name, 100) for r in entry.receipts]
        claimed = [f["claimed"] for r in receipts for f in r["outputs"].values() if "claimed" in f]
        (row,) = select(mirror, services, Selection())
    assert claimed == [[1], [1]]
    payload = json.loads(row.payload)
    assert base64.b64decode(payload["value"]) == large
    assert payload["headers"] == [["h", base64.b64encode(b"1").decode()], ["h", None]]
