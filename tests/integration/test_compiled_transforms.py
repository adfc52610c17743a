"""Transforms on values through the direct lane on real servers: what a consumer sees is what Spark's lane delivers."""

from __future__ import annotations

from typing import Any

import pytest

from databus import DropColumns, Filter, Flow, Hash, Mask, RenameColumns
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import SinkError
from databus.expressions.errors import SparkNeededError
from databus.records.reports import quarantined
from databus.runtime import batch as stages
from databus.runtime.direct.spark_jobs import SparkJobs
from databus.runtime.direct.spark_tables import SparkTables, spark_tables
from databus.runtime.direct.task import DirectTask
from databus.sinks.kafka.session import Session
from tests.integration.conftest import World
from tests.integration.kafka_target import forget_kept
from tests.integration.shop_flow import Shop
from tests.integration.test_direct_lane import canonical, seen

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

TRANSFORMS = (
    Filter("total > 300 OR status = 'paid'", tables=("shop.orders",)),
    DropColumns("card_number", tables=("shop.orders",)),
    Mask("email", "birthday", keep_last=4, tables=("shop.customers",)),
    Mask("picture", value="?", tables=("shop.products",)),
    Hash("name", "preferences", "created_at", tables=("shop.customers",)),
    Hash("price", "tags", "opens", tables=("shop.products",)),
    RenameColumns({"email": "mail"}),
)


def flows(shop: Shop, *others: str) -> list[Flow]:
    """Return the shop's flow with transforms on values, and others of the same."""
    (sink,) = shop.flow.sinks
    flow = shop.flow.model_copy(update={"transforms": TRANSFORMS, "checks": ()})
    return [
        flow.model_copy(update={"name": name, "sinks": (sink.model_copy(update={"topic": name}),)})
        for name in (shop.name, *others)
    ]


def test_a_consumer_sees_the_same_changed_rows_from_both_lanes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole images and partial ones, and a batch that the direct lane finds to be for Spark."""
    shop = Shop(world, "changed_direct", partitions=4, slots=2)
    ours, theirs, sent_back = flows(shop, "changed_spark", "changed_back")
    theirs = theirs.model_copy(update={"lane": "spark"})
    shop.writer.run(150)
    with shop.connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = MINIMAL")
    shop.writer.run(100)
    lanes: list[frozenset[str] | None] = []

    def noted(flow: Flow, planned: Any, known: SparkTables) -> frozenset[str] | None:
        lanes.append(spark_tables(flow, planned, known))
        return lanes[-1]

    monkeypatch.setattr(stages, "spark_tables", noted)
    results = [world.run(flow) for flow in (ours, theirs)]
    assert lanes == [frozenset(), None]

    def refused(*_: Any) -> Any:
        raise SparkNeededError("a value")

    monkeypatch.setattr(stages, "dispatch_direct", refused)
    results.append(world.run(sent_back))

    assert results[0].tables == results[1].tables == results[2].tables
    ends = {(each.filtered, each.quarantined, each.dispatched) for each in results}
    assert len(ends) == 1
    assert all(ends.pop())
    assert seen(world, "changed_direct") == seen(world, "changed_spark") == seen(world, "changed_back")
    held = [
        {(row.event_id, row.key, row.cause, row.position, canonical(row.payload)) for row in rows}
        for rows in (quarantined(world.settings.records_url, name) for name in ("changed_direct", "changed_spark"))
    ]
    assert held[0] == held[1]


class FailsOnce:
    """Makes the n-th commit of a writer fail before it is sent, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int):
        self.left = number
        commit = Session.commit

        def failing(session: Session, marker: Any) -> None:
            self.left -= 1
            if self.left == 0:
                raise SinkError("the broker is gone", retryable=True)
            commit(session, marker)

        monkeypatch.setattr(Session, "commit", failing)


def test_a_plan_that_one_lane_began_is_finished_by_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The direct lane leaves some chunks committed; Spark's lane goes on from the marker, and no record is twice."""
    shop = Shop(world, "lanes_change", partitions=2, chunk_rows=25)
    ours, reference = flows(shop, "lanes_whole")
    shop.writer.run(60)
    with monkeypatch.context() as patched:
        patched.setattr(SparkJobs, "run", in_this_process)
        FailsOnce(patched, 3)
        with pytest.raises(SinkError, match="the broker is gone"):
            world.run(ours)
    first = sum(map(len, seen(world, "lanes_change").values()))
    with monkeypatch.context() as patched:
        patched.setattr(stages, "spark_tables", lambda *_: None)
        world.run(ours)
    forget_kept()
    world.run(reference)

    found = seen(world, "lanes_change")
    assert 0 < first < sum(map(len, found.values()))
    assert found == seen(world, "lanes_whole")


def in_this_process(_jobs: Any, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, Any]]:
    return [task.write(slot) for slot in range(slots)]
