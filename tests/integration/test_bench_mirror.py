"""The mirror's benchmark at its smallest size, MirrorMaker 2 beside it: every record is where it belongs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

import pytest

from databus import Flow
from databus.bench.mirror.throughput import BARS, measure
from databus.bench.options import MirrorOptions
from tests.integration import kafka_world as given
from tests.integration.kafka_world import KafkaWorld

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world

SMALL = MirrorOptions(1_500, 500, 200, 3, 2, 700, 2)


@dataclass(frozen=True)
class Timed:
    cpu_seconds: float


def test_both_sides_are_measured_and_hold_the_sources_records(world: KafkaWorld) -> None:
    """DATABUS_TEST_MIRROR_MAKER=1 starts MirrorMaker 2 without exactly once too."""
    long = "DATABUS_TEST_MIRROR_MAKER" in os.environ
    options = SMALL if long else replace(SMALL, peers=("exactly_once",))

    def timed(flow: Flow) -> Timed:
        began = time.process_time()
        assert world.run(flow).rows == 2_000
        return Timed(time.process_time() - began)

    said: list[str] = []
    result = measure(world.sandbox, timed, options, said.append)
    without = set() if long else {"ratio_to_mm2_at_least_once"}
    assert {bar.key for bar in BARS} - without <= set(result.figures)
    assert all(value > 0 for value in result.figures.values())
    assert sum("all equal" in line for line in said) == 1 + len(options.peers)
