"""A plan over hundreds of partitions asks each broker a handful of times; `databus bench plan` does it with 5,000."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from databus import Batching
from databus.core.positions.offsets import KafkaOffsets
from databus.core.protocols import PartitionedSource
from databus.sources.kafka import record_sampling as kafka_sample
from databus.testing.request_counter import RequestCounter
from tests.integration import kafka_world as given
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_world import KafkaWorld

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world

PARTITIONS = int(os.environ.get("DATABUS_TEST_PARTITIONS", "500"))
LIMIT = Batching(max_rows=10 * PARTITIONS, max_wait=timedelta(seconds=0.001))


@pytest.fixture(scope="module")
def topics(world: KafkaWorld) -> Iterator[list[str]]:
    names = [world.east.name("many") for _ in range(2)]
    for name in names:
        world.east.create(name, PARTITIONS // 2, {"segment.index.bytes": "4096"})
        world.east.write(name, [{"value": b"%d" % p, "partition": p} for p in range(PARTITIONS // 2) for _ in "ab"])
    yield names
    for name in names:
        world.east.delete(name)


def test_a_plan_asks_for_all_partitions_in_one_request(world: KafkaWorld, topics: list[str]) -> None:
    with RequestCounter(world.east.servers) as counter:
        source = Logs(f"127.0.0.1:{counter.port}").open(topics=topics, raw=True, identity="offset")
        try:
            start = source.earliest_offset()
            assert source.plan(start, LIMIT) is not None  # clients are connected now
            before, cpu = counter.requests.copy(), time.process_time()
            planned = source.plan(start, LIMIT)
            cpu = time.process_time() - cpu
        finally:
            source.close()
    assert planned is not None
    assert planned.rows == 2 * PARTITIONS
    asked: Counter[str] = counter.requests - before
    sys.stdout.write(f"{PARTITIONS} partitions: {cpu:.3f} s of CPU, {dict(asked)}\n")
    assert asked.pop("ListOffsets") == 2  # the first and the last offsets
    # All topics, those that are read, the leaders before each ListOffsets; twice more for the sample's consumer.
    assert asked.pop("Metadata") <= 6
    # Eight partitions are sampled: one request waits while another is answered.
    assert asked.pop("Fetch") <= 24
    assert sum(asked.values()) <= 4, asked


def test_what_is_gone_is_found_among_all_partitions(world: KafkaWorld, topics: list[str]) -> None:
    source = Logs(world.east.servers).open(topics=topics, raw=True, identity="offset", on_gap="earliest")
    try:
        start = source.earliest_offset()
        world.east.cut(topics[1], PARTITIONS // 2 - 1, 1)
        passed = source.plan(start, LIMIT)
        assert passed is not None
        assert f"{topics[1]}[{PARTITIONS // 2 - 1}]: records 0 to 0 were deleted" in passed.passed
        planned = source.plan(passed.range.end, LIMIT)
        assert planned is not None
        assert planned.rows == 2 * PARTITIONS - 1
        end = planned.range.end
        assert isinstance(end, KafkaOffsets)
        assert {place for place, (_, offset) in end.places().items() if offset == 2} == {
            (topic, partition) for topic in topics for partition in range(PARTITIONS // 2)
        }
        assert source.plan(end, LIMIT) is None
    finally:
        source.close()


def test_each_partition_tells_its_lag_every_time_it_is_asked(
    world: KafkaWorld, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_sample, "_PATIENCE_S", 60.0)  # on a busy machine a record may come late
    source = Logs(world.east.servers).open(topics=topics, raw=True, identity="offset", on_gap="earliest")
    try:
        assert isinstance(source, PartitionedSource)
        start = source.earliest_offset()
        for _ in range(2):
            assert source.lag(start).seconds is not None
            lags = source.partition_lags(start)
            assert len(lags) == PARTITIONS
            assert {lag.records for lag in lags} <= {1, 2}
            assert all(lag.seconds is not None and lag.seconds > 0 for lag in lags)
    finally:
        source.close()
