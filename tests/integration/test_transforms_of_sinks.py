"""Transforms of single sinks on real servers: a topic and an index of one flow, each with its own view of a table."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from databus import DropColumns, Elasticsearch, Filter, Kafka, Lookup, Mask, NotNull, Project
from databus.demo.consumers import index_documents, topic_records
from databus.demo.oracle import fold, mismatches, source_state
from databus.ops.ledger.verify import verify
from databus.ops.quarantine.replay import replay_rows
from databus.ops.runs.preview import preview
from databus.ops.services import open_services
from databus.records.quarantine.rows import Selection
from tests.integration.conftest import World
from tests.integration.kafka_target import consume
from tests.integration.shop_flow import KEYS
from tests.integration.test_kill import Run, finish, in_mid_batch, killable, writing
from tests.integration.test_routes_by_value import ADA, Regions

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

COUNTRIES = Lookup("region", {"de": "Deutschland", "fr": "France"}, into="country", missing="hold")
TO_TOPIC = (Filter("v >= 50"), DropColumns("email"))


class Views(Regions):
    """A table of orders, and a flow with a topic and an index that each have transforms of their own."""

    def __init__(self, world: World, database: str, lane: str = "auto"):
        super().__init__(world, database)
        self.name = f"views_{database}"
        self.topic_name, self.index_name = f"{self.name}.orders", f"{self.name}-orders"
        topic = Kafka(conn_id="kafka_east", topic=self.topic_name, partitions=3, slots=2, transforms=TO_TOPIC)
        source = self.flow.source.model_copy(update={"tables": (f"{database}.orders",)})
        updated = {"name": self.name, "source": source, "transforms": (Mask("email", keep_last=1),), "lane": lane}
        self.flow = self.flow.model_copy(
            update={**updated, "checks": (NotNull("region"),), "sinks": (topic, self.index(COUNTRIES))}
        )

    def index(self, countries: Lookup) -> Elasticsearch:
        own = (countries, Project("id", "region", "country", "email"))
        return Elasticsearch(conn_id="opensearch_default", index=self.index_name, transforms=own)

    def table_now(self) -> dict[str, dict[str, Any]]:
        with self.world.sql(self.database) as connection:
            return source_state(connection, f"{self.database}.orders", ("id",))

    def assert_views(self, names: dict[str, str], *without: str) -> None:
        """Compare both outputs with the table, the index without the rows of some keys."""
        rows = self.table_now()
        seen = fold(topic_records(self.world.sandbox.address("kafka"), self.topic_name))
        assert (seen.duplicates, seen.disordered) == (0, 0)
        chosen = (r for r in rows.values() if r["v"] >= 50 and r["region"] is not None)
        wanted = {f'{{"id":{r["id"]}}}': {n: r[n] for n in ("id", "region", "v")} for r in chosen}
        assert mismatches(wanted, seen.state.get(f"{self.database}.orders", {})) == []
        documents = {
            str(r["id"]): {"id": r["id"], "region": r["region"], "country": names.get(r["region"]), "email": "***b"}
            for r in rows.values()
            if str(r["id"]) not in without
        }
        assert mismatches(documents, index_documents(self.world.sandbox.address("opensearch"), self.index_name)) == []

    def verified(self) -> list[str]:
        with self.services() as services:
            return [str(problem) for problem in verify(self.flow, services, None).problems]


@pytest.mark.parametrize("lane", ["auto", "spark"])
def test_each_sink_has_a_view_of_its_own(world: World, database: str, lane: str) -> None:
    views = Views(world, database, lane)
    views.execute(*(f"INSERT INTO orders VALUES ({n}, 'de', {n * 10}, 'a@b')" for n in range(10)))
    with views.services() as services:
        lanes = preview(views.flow, services).lanes
    assert set(lanes.values()) == {"direct" if lane == "auto" else 'Spark, because lane="spark" says so'}
    views.run()
    names = {"de": "Deutschland", "fr": "France"}
    views.assert_views(names)

    views.execute(
        "UPDATE orders SET v = 99 WHERE id = 1",  # enters the topic
        "UPDATE orders SET v = 1 WHERE id = 7",  # leaves it
        "UPDATE orders SET region = 'fr' WHERE id = 8",
        "DELETE FROM orders WHERE id = 9",
        "INSERT INTO orders VALUES (20, 'us', 77, 'a@b')",  # no country: held for the index alone
        "INSERT INTO orders VALUES (21, NULL, 77, 'a@b')",  # held for both
    )
    result = views.run()
    assert result.quarantined == 2
    held = {(row.key, row.stage): row for row in views.held().values()}
    assert held['{"id":20}', "elasticsearch"].cause == "lookup(region)"
    assert {stage for key, stage in held if key == '{"id":21}'} == {"check"}
    views.assert_views(names, "20", "21")
    assert views.verified() == []

    records = len(consume(world.sandbox.address("kafka"), views.topic_name))
    (topic, _) = views.flow.sinks
    open_country = views.index(COUNTRIES.model_copy(update={"missing": "null"}))
    views.flow = views.flow.model_copy(update={"sinks": (topic, open_country)})
    with views.services() as services:
        run = world.spark(views.name), views.identity()
        (done,) = replay_rows(views.flow, services, run, Selection(cause="lookup(region)"), ADA)
    assert (done.replayed, done.held, done.discarded) == (1, 0, 0)
    views.assert_views(names, "21")
    assert len(consume(world.sandbox.address("kafka"), views.topic_name)) == records


@pytest.mark.parametrize("kills", [1, 5])
def test_kills_between_sinks_of_different_views(world: World, tmp_path: Path, kills: int) -> None:
    """A run dies while one sink has a batch and the other has not, or a part of it."""
    name = f"kill_views_{kills}"
    shop = killable(world, name, partitions=2, slots=2, chunk_rows=40)
    (sink,) = shop.flow.sinks
    index = Elasticsearch(
        conn_id="opensearch_default",
        index=name.replace("_", "-"),
        transforms=(Filter("status <> 'new'"), Project("order_id", "total")),
    )
    topic = sink.model_copy(update={"transforms": (Filter("total > 500000"), DropColumns("status"))})
    source = shop.flow.source.model_copy(update={"tables": ("shop.orders",)})
    shop.flow = shop.flow.model_copy(update={"source": source, "checks": (), "sinks": (topic, index)})
    chance = random.Random(5)
    with writing(shop):
        for epoch in range(1, kills + 1):
            run = Run(world, shop, tmp_path)
            in_mid_batch(world, shop, epoch, run)
            time.sleep(chance.uniform(0, 1.5))
            run.kill()
    finish(world, shop)

    rows = source_state(shop.connection, "shop.orders", KEYS["orders"])
    assert isinstance(topic, Kafka)
    seen = fold(topic_records(world.sandbox.address("kafka"), name))
    assert (seen.duplicates, seen.disordered) == (0, 0)
    hidden = {"status", "card_number"}
    wanted = {k: {n: v for n, v in row.items() if n not in hidden} for k, row in rows.items() if row["total"] > 500_000}
    assert mismatches(wanted, seen.state["shop.orders"]) == []
    documents = {
        str(row["order_id"]): {"order_id": row["order_id"], "total": row["total"]}
        for row in rows.values()
        if row["status"] != "new"
    }
    assert mismatches(documents, index_documents(world.sandbox.address("opensearch"), index.index)) == []
    with open_services(shop.flow, world.connections, world.settings) as services:
        verified = verify(shop.flow, services, None)
    assert [str(problem) for problem in verified.problems] == []
    shares = verified.state.ledger.sinks
    assert shares["kafka"].filtered
    assert shares["elasticsearch"].filtered
