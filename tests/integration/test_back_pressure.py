"""A search server that turns requests away makes the next batches smaller; when it keeps up they grow again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from databus import Batching, Elasticsearch
from databus.demo.consumers import index_documents
from databus.demo.oracle import mismatches, source_state
from tests.integration.conftest import World
from tests.integration.one_process import OneProcessWorld
from tests.integration.search_proxy import proxy
from tests.integration.shop_flow import KEYS, Shop

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]


def test_batches_follow_the_pace_of_the_sink(world: World) -> None:
    world = OneProcessWorld(world.sandbox, world.home, world.environment)
    shop = Shop(world, "back_pressure")
    busy = [True]

    def on_bulk(items, forward):  # type: ignore[no-untyped-def]
        if busy.pop() if busy else False:
            error = {"type": "es_rejected_execution_exception", "reason": "queue full"}
            return 429, {"error": error, "status": 429}
        return forward(items)

    with proxy(world.connections.get("opensearch_default"), on_bulk) as through:
        conn_id = world.override("opensearch_default", host=through.host, port=through.port)
        sink = Elasticsearch(
            conn_id=conn_id,
            index="back-pressure-{table}",
            mapping={"properties": {"customer_id": {"type": "unsigned_long"}}},
        )
        batching = Batching(max_rows=160, max_wait=timedelta(seconds=1), dispatch_time=timedelta(seconds=600))
        shop.flow = shop.flow.model_copy(update={"sinks": (sink,), "batching": batching})
        shop.writer.run(80)
        turned_away = world.run(shop.flow, max_batches=1)
        assert (
            turned_away.summary()["pace"] == dict(world.checkpoint(shop.flow).pace) == {"rows": 80, "bytes": 128 << 20}
        )
        first = turned_away.rows
        slower = world.run(shop.flow, max_batches=1)
        # A batch ends at the first transaction after its bound; the shop's are far smaller than the difference.
        assert slower.rows < first
        assert slower.summary()["pace"] == {"rows": 120, "bytes": 192 << 20}
        while (result := world.run(shop.flow)).lag_bytes:
            pass
        assert result.summary()["pace"] == {}
    expected = source_state(shop.connection, "shop.customers", KEYS["customers"])
    by_id = {str(row["customer_id"]): row for row in expected.values()}
    assert mismatches(by_id, index_documents(world.sandbox.address("opensearch"), "back-pressure-customers")) == []
