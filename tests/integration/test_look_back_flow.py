"""State topic of a real flow: who begins with it has what all changes from the beginning give."""

from __future__ import annotations

from typing import Any

import pytest

from databus import Kafka
from databus.consumer import Changes, StateTopic
from tests.integration.conftest import World
from tests.integration.shop_flow import Shop

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

Rows = dict[tuple[str, str], Any]


def folded(changes: Changes) -> tuple[Rows, list[str]]:
    """Return table and key → row, and the operations that came."""
    rows: Rows = {}
    ops = []
    with changes:
        for change in changes:
            ops.append(change.op)
            if change.op == "e":
                continue
            place = (change.table, str(sorted(change.key.items())) if change.key else "")
            if change.deleted:
                rows.pop(place, None)
            else:
                rows[place] = change.after
    return rows, ops


@pytest.mark.parametrize("slots", [1, 3])
def test_the_state_of_a_flow_and_what_came_since(world: World, slots: int) -> None:
    name = f"looked_back_{slots}"
    shop = Shop(world, name, partitions=3, slots=slots)
    (sink,) = shop.flow.sinks
    state = Kafka(
        name="state", conn_id="kafka_east", topic=f"{name}-state.{{route}}", envelope="row", partitions=3, slots=slots,
        headers=("event_id", "ts_ms", "table"), topic_config={"cleanup.policy": "compact"},
    )  # fmt: skip
    changes = sink.model_copy(update={"topic": f"{name}.{{route}}"})
    shop.flow = shop.flow.model_copy(update={"sinks": (changes, state), "checks": ()})
    servers, topics = world.sandbox.address("kafka"), rf"^{name}\.shop\..*"
    told = StateTopic(
        name, topic=f"{name}-state.{{route}}", changes=f"{name}.{{route}}", installation="test", patience_s=20
    )
    shop.writer.run(150)
    world.run(shop.flow)
    expected, _ = folded(Changes(servers, topics, until_end=True))
    rows, ops = folded(Changes(servers, topics, group=name, start="state", state=told, until_end=True))
    assert rows == expected
    assert len(expected) > 50
    assert ops.count("e") >= 3
    assert set(ops) <= {"r", "d", "e"}

    shop.writer.run(100)
    world.run(shop.flow)
    expected, _ = folded(Changes(servers, topics, until_end=True))
    rows, ops = folded(Changes(servers, topics, start="state", state=told, until_end=True))
    assert rows == expected
    _, since = folded(Changes(servers, topics, group=name, start="state", state=told, until_end=True))
    assert "r" not in since
    assert len(since) < len(ops)
