"""A flow goes on from what commit 021bfd3 left in ZooKeeper and Kafka when it was killed: its plan is taken up."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from databus import Batching, Flow, InRange, Kafka, Mock, __version__
from databus.core.settings import Settings
from databus.core.state.plan import Plan
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.sinks.kafka.markers import MARKER_TOPIC
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, forget_kept

pytestmark = pytest.mark.integration

STATE = Path(__file__).parents[1] / "fixtures" / "state_021bfd3"
ROWS = 60


def _flow(name: str) -> Flow:
    return Flow(
        name=name,
        source=Mock(tables=("shop.orders",), rows=ROWS, rows_per_transaction=5),
        checks=(InRange("customer_id", minimum=0),),
        sinks=(Kafka(conn_id="kafka_east", topic=name, name="kafka", slots=2, partitions=2),),
        batching=Batching(max_rows=20, max_wait=timedelta(seconds=0.2)),
    )


def _restore(world: World, name: str) -> Plan:
    """Put the flow's znodes and markers back; return the plan in flight."""
    znodes = json.loads((STATE / "znodes.json").read_text())
    mine = {path: text for path, text in znodes.items() if path.startswith(f"/databus/flows/{name}/")}
    client = KazooClient(world.sandbox.address("zookeeper"))
    client.start()
    try:
        for path, text in mine.items():
            client.create(path, text.encode(), makepath=True)
    finally:
        client.stop()
        client.close()
    servers = world.sandbox.address("kafka")
    admin = AdminClient({"bootstrap.servers": servers})
    if MARKER_TOPIC not in admin.list_topics(timeout=20).topics:
        admin.create_topics([NewTopic(MARKER_TOPIC, 64)])[MARKER_TOPIC].result(20)
    admin.create_topics([NewTopic(name, 2)])[name].result(20)
    groups: dict[str, list[list[Any]]] = json.loads((STATE / "markers.json").read_text())["groups"]
    for group, slots in groups.items():
        if group.startswith(f"databus.kept.{name}."):
            consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
            marks = [TopicPartition(MARKER_TOPIC, slot, offset, metadata=text) for slot, offset, text in slots]
            consumer.commit(offsets=marks, asynchronous=False)
            consumer.close()
    return Plan.from_json(json.loads(mine[f"/databus/flows/{name}/plan"]))


@pytest.mark.parametrize(
    ("name", "written"),
    [("kept_written", 40), ("kept_planned", 20)],
    ids=["rows of its plan are written", "only its plan is written"],
)
def test_the_unfinished_plan_is_taken_up(world: World, tmp_path: Path, name: str, written: int) -> None:
    plan, flow = _restore(world, name), _flow(name)
    settings = Settings("kept", str(tmp_path / "segments"), f"sqlite:///{tmp_path / 'records.db'}")
    control = WindowControl(WindowLimits(max_seconds=120, until_caught_up=True, lease_wait_s=0))
    with open_services(flow, world.connections, settings) as services:
        run_flow(flow, services, world.spark(name), RunIdentity("next", "http://airflow/next", __version__), control)
        checkpoint = services.store.load(name)
        assert checkpoint is not None
        history = services.store.history(name, 100)
    forget_kept()
    (taken,) = [entry for entry in history if entry.batch == plan.batch]
    assert (taken.plan_hash, taken.offset) == (plan.hash, plan.range.end)
    assert str(checkpoint.offset) == str(ROWS // 5)
    # Rows that the markers show as written are not written again; the topic is a new one.
    held = sum(
        counts.quarantined for e in history if e.batch > (2 if written == 40 else 1) for counts in e.counts.values()
    )
    values = [m for m in consume(world.sandbox.address("kafka"), name) if m.value() is not None]
    first = plan.range.end if written == 40 else plan.range.start
    assert len(values) == ROWS - 5 * int(str(first)) - held
