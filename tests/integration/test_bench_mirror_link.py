"""The benchmarks of a link that is cut, and of a plan over many partitions, at their smallest sizes."""

from __future__ import annotations

import pytest

from databus.bench import plan
from databus.bench.mirror import link as mirror_link
from databus.bench.options import MirrorLinkOptions, PlanOptions
from tests.integration import kafka_world as given
from tests.integration.kafka_world import KafkaWorld
from tests.integration.one_process import OneProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


def test_what_came_while_the_link_was_down_is_there_once_and_in_order(world: KafkaWorld) -> None:
    options = MirrorLinkOptions(200, 100, 3, before_s=0.5, down_s=3.0, slots=2, behind_s=30.0)
    result = mirror_link.measure(world.sandbox, OneProcess(), options, lambda _line: None)
    assert result.figures["records"] >= 600
    assert result.figures["backlog_records"] >= 300
    assert {key: result.figures[key] for key in ("lost", "duplicated", "partitions_out_of_order")} == {
        "lost": 0, "duplicated": 0, "partitions_out_of_order": 0,
    }  # fmt: skip
    assert {bar.key for bar in mirror_link.BARS} <= set(result.figures)


def test_a_plan_is_timed_and_its_requests_are_counted(world: KafkaWorld) -> None:
    result = plan.measure(world.sandbox, PlanOptions(50, 1), lambda _line: None)
    assert result.figures["positions"] == 50
    assert result.figures["plan_cpu_seconds"] > 0
    assert result.figures["list_offsets_requests"] == 2
    assert 0 < result.figures["metadata_requests"] <= 6
