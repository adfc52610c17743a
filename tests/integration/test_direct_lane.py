"""The direct lane on real servers: what a consumer sees is what the lane through Spark delivers, through kills too."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from databus import AcceptedValues, Batching, Flow, InRange, NotNull
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import SinkError
from databus.records.reports import Reports, quarantined
from databus.records.store import RecordStore
from databus.runtime.direct.lane import may_be_direct
from databus.runtime.direct.spark_jobs import SparkJobs
from databus.runtime.direct.task import DirectTask
from databus.sinks.kafka.session import Session
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, forget_kept
from tests.integration.shop_flow import KEYS, Shop
from tests.integration.test_kill import kill_runs, killable

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]


def without_checks(shop: Shop, **changes: Any) -> Shop:
    """Let the shop's flow take the direct lane: it drops a column and looks at no value."""
    shop.flow = shop.flow.model_copy(update={"checks": (), **changes})
    assert may_be_direct(shop.flow)
    return shop


def seen(world: World, topic: str) -> dict[int, list[Any]]:
    """Return partition → records as a read_committed consumer gets them, without what differs between two flows."""
    found: dict[int, list[Any]] = defaultdict(list)
    for message in consume(world.sandbox.address("kafka"), topic):
        value = None
        if message.value() is not None:
            value = json.loads(message.value(), parse_float=Decimal)
            assert value["source"].pop("name") == topic
            del value["ts_ms"]
        found[message.partition()].append((message.key(), message.headers(), value))
    return found


def test_a_consumer_sees_the_same_from_both_lanes(world: World) -> None:
    shop = without_checks(Shop(world, "lane_direct", partitions=4, slots=2))
    (sink,) = shop.flow.sinks
    other = shop.flow.model_copy(
        update={"name": "lane_spark", "lane": "spark", "sinks": (sink.model_copy(update={"topic": "lane_spark"}),)}
    )
    shop.writer.run(250)
    with shop.connection.cursor() as cursor:
        cursor.execute("CREATE TABLE shop.plain (v DECIMAL(30,12), f DOUBLE, b VARBINARY(9), note TEXT)")
        cursor.execute(r"INSERT INTO shop.plain VALUES (10.5, 1.0, x'00ff', 'a\"b\\\\c\n é'), (NULL, 1e300, '', '')")
        cursor.execute("CREATE TABLE shop.moved (id INT PRIMARY KEY, v INT)")
        cursor.execute("INSERT INTO shop.moved VALUES (1, 10), (2, 20)")
        cursor.execute("UPDATE shop.moved SET id = 3 WHERE id = 1")
        cursor.execute("TRUNCATE shop.moved")
        cursor.execute("DROP TABLE shop.plain, shop.moved")
    results = [world.run(flow) for flow in (shop.flow, other)]

    assert results[0].tables == results[1].tables
    direct_lane, spark_lane = seen(world, "lane_direct"), seen(world, "lane_spark")
    assert direct_lane == spark_lane
    assert sum(map(len, direct_lane.values())) > sum(shop.writer.written.rows(table) for table in KEYS)
    operations = {value["op"] for records in direct_lane.values() for _, _, value in records if value}
    assert operations == {"c", "u", "d", "t"}


def test_both_lanes_judge_and_hold_back_the_same(world: World) -> None:
    """Row checks over the shop: the same records, counts and check results, and the same rows in quarantine."""
    checks = (
        NotNull("email", tables=("shop.customers",)),
        InRange("quantity", maximum=2, tables=("shop.order_items",)),
        InRange("placed_at", minimum="2024-01-01", severity="warn", tables=("shop.orders",)),
        AcceptedValues("status", ("new", "paid"), severity="warn", tables=("shop.orders",)),
    )
    shop = Shop(world, "checks_direct", partitions=4, slots=2)
    (sink,) = shop.flow.sinks
    flow = shop.flow.model_copy(update={"checks": checks})
    other = flow.model_copy(
        update={"name": "checks_spark", "lane": "spark", "sinks": (sink.model_copy(update={"topic": "checks_spark"}),)}
    )
    shop.writer.run(250)
    results = [world.run(each) for each in (flow, other)]

    assert results[0].tables == results[1].tables
    assert results[0].quarantined == results[1].quarantined > 0
    assert seen(world, "checks_direct") == seen(world, "checks_spark")
    held = [
        {(row.event_id, row.key, row.cause, row.position, canonical(row.payload)) for row in rows}
        for rows in (quarantined(world.settings.records_url, name) for name in ("checks_direct", "checks_spark"))
    ]
    assert held[0] == held[1]
    with RecordStore(world.settings.records_url) as store:
        judged = [
            {(c.check, c.table): (c.evaluated, c.violations) for b in Reports(store).newest(name, 50) for c in b.checks}
            for name in ("checks_direct", "checks_spark")
        ]
    assert judged[0] == judged[1]
    assert {check for check, _ in judged[0]} == {check.check_name for check in checks}


def canonical(payload: str) -> str:
    return json.dumps(json.loads(payload, parse_float=Decimal), sort_keys=True, default=lambda d: str(d.normalize()))


def test_many_small_batches_chunks_and_slots_over_rotations(world: World) -> None:
    shop = without_checks(
        Shop(world, "lane_slots", partitions=6, slots=3, chunk_rows=30),
        batching=Batching(max_rows=120, max_wait=timedelta(seconds=0.2)),
    )
    for _ in range(3):
        shop.writer.run(60)
        with shop.connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
    result = world.run(shop.flow)

    assert result.batches >= 3
    shop.assert_all_arrived_once()


def test_kill_in_mid_batch(world: World, tmp_path: Path) -> None:
    shop = without_checks(killable(world, "lane_kill", partitions=4, slots=2, chunk_rows=40))
    kill_runs(world, shop, tmp_path, 13)
    shop.assert_all_arrived_once()


class FailsAt:
    """Makes the n-th commit of a writer fail before it is sent, as a broker that goes away does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int):
        self.left = number
        self.commit = Session.commit

        def commit(session: Session, marker: Any) -> None:
            self.left -= 1
            if self.left == 0:
                raise SinkError("the broker is gone", retryable=True)
            self.commit(session, marker)

        monkeypatch.setattr(Session, "commit", commit)


@pytest.mark.parametrize("number", [1, 3])
def test_a_retry_goes_on_from_the_marker(world: World, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The tasks run in this process; some chunks are committed when the writer fails, and are not written again."""
    shop = without_checks(Shop(world, f"lane_resume_{number}", chunk_rows=25))
    shop.writer.run(60)
    monkeypatch.setattr(SparkJobs, "run", in_this_process)
    FailsAt(monkeypatch, number)
    with pytest.raises(SinkError, match="the broker is gone"):
        world.run(shop.flow)
    first = len(shop_records(world, shop.flow))
    assert (first > 0) is (number > 1)
    world.run(shop.flow)
    forget_kept()

    assert len(shop_records(world, shop.flow)) > first
    shop.assert_all_arrived_once()


def shop_records(world: World, flow: Flow) -> list[Any]:
    return consume(world.sandbox.address("kafka"), flow.name)


def in_this_process(_jobs: Any, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, Any]]:
    return [task.write(slot) for slot in range(slots)]
