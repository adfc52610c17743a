"""Rows routed by value from MySQL: readers of each route's topic and index hold the rows that are of it, once each."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, KeyBy, MysqlBinlog, NotNull, Route, Split, __version__
from databus.core.batches.receipts import CHECK
from databus.demo.consumers import index_documents, topic_records
from databus.demo.oracle import ConsumedTopic, fold, mismatches, source_state
from databus.ops.checkpoint.amend import Attribution
from databus.ops.ledger.verify import verify
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.replay import replay_rows
from databus.ops.runs.dry_run import dry_run
from databus.ops.runs.preview import preview
from databus.ops.services import open_services
from databus.ops.trace.follow import trace
from databus.ops.trace.query import recognise
from databus.ops.validation.validate import ValidationRequest, validate
from databus.records.quarantine.held_row import HeldRow
from databus.records.quarantine.rows import Selection
from databus.rows.murmur2 import murmur2
from databus.runtime.context import RunIdentity, Services
from databus.runtime.live import lane as live_lane
from databus.runtime.window_result import WindowResult
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id
from tests.integration.shop_flow import KEYS
from tests.integration.statements import run_sql
from tests.integration.test_kill import KILLS, Run, finish, in_mid_batch, killable, writing
from tests.integration.test_live_lane import Window, counted

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

BY = "CASE WHEN region IN ('de', 'fr') THEN 'eu' WHEN region = 'jp' THEN 'apac' ELSE region END"
REGIONS = {"de": "eu", "fr": "eu", "us": "us"}
ADA = Attribution("ada", "a route was added", consents=True)


def place_of(value: bytes | None) -> tuple[Any, ...]:
    """Place of a record's change in the log."""
    source = json.loads(value or b"")["source"]
    return len(source["file"]), source["file"], source["pos"], source["row"]


class Regions:
    """A table whose rows move between regions, and a flow with a topic and an index for each route."""

    def __init__(self, world: World, database: str):
        self.world, self.database, self.name = world, database, f"routes_{database}"
        self.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, region VARCHAR(10), v INT, email VARCHAR(20))",
            "CREATE TABLE other (id INT PRIMARY KEY, note VARCHAR(10))",
        )
        ((file, position, *_),) = self.execute("SHOW MASTER STATUS")
        self.flow = Flow(
            name=self.name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.*",), start=f"{file}:{position}"),
            transforms=(Route(by=BY, routes=("eu", "us"), tables=("*.orders",)),),
            checks=(NotNull("email", tables=("*.orders",)),),
            sinks=(
                Kafka(conn_id="kafka_east", topic=f"{self.name}.{{route}}", partitions=3, slots=2),
                Elasticsearch(
                    conn_id="opensearch_default", index=f"{self.name}-{{route}}", routes=("eu", "us", "apac")
                ),
            ),
            batching=Batching(max_rows=100, max_wait=timedelta(seconds=0.2)),
        )

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.world.sql(self.database) as connection:
            return run_sql(connection, *statements)

    def write(self, seed: int, changes: int) -> None:
        """Insert, move, renumber and delete rows."""
        choose = random.Random(seed)
        for _ in range(changes):
            number, other, region = choose.randrange(12), choose.randrange(12), choose.choice(sorted(REGIONS))
            self.execute(
                choose.choice(
                    (
                        f"REPLACE INTO orders VALUES ({number}, '{region}', {choose.randrange(100)}, 'a@b')",
                        f"UPDATE orders SET region = '{region}', v = v + 1 WHERE id = {number}",
                        f"UPDATE orders SET region = '{region}', v = v + 1 WHERE id = {number}",
                        f"UPDATE IGNORE orders SET id = {other}, region = '{region}' WHERE id = {number}",
                        f"DELETE FROM orders WHERE id = {number}",
                    )
                )
            )

    def topic(self, route: str) -> ConsumedTopic:
        """Read a topic as one that orders its partitions by the log; a TRUNCATE, which has no key, empties it."""
        records = [r for r in topic_records(self.world.sandbox.address("kafka"), f"{self.name}.{route}") if r[1]]
        seen = fold(record for record in records if json.loads(record[1] or b"")["op"] != "t")
        emptied = [place_of(value) for _, value in records if json.loads(value or b"")["op"] == "t"]
        since = [(key, value) for key, value in records if place_of(value) > max(emptied, default=())]
        return replace(seen, state=fold(since).state)

    def ids(self, route: str) -> list[str]:
        messages = consume(self.world.sandbox.address("kafka"), f"{self.name}.{route}")
        return [event_id(message) for message in messages if message.value()]

    def documents(self, route: str) -> dict[str, Any]:
        return index_documents(self.world.sandbox.address("opensearch"), f"{self.name}-{route}")

    @contextmanager
    def services(self) -> Iterator[Services]:
        with open_services(self.flow, self.world.connections, self.world.settings) as services:
            yield services

    def identity(self) -> RunIdentity:
        return RunIdentity("look", "", __version__)

    def held(self) -> dict[str, HeldRow]:
        """Held rows by key."""
        with self.services() as services:
            return {str(row.key): row for row in quarantine.select(self.flow, services, Selection())}

    def run(self) -> WindowResult:
        return self.world.run(self.flow)

    def assert_each_route_holds_its_rows(self, *left: dict[str, Any]) -> None:
        """Compare topics and indices with the table, but for rows left as they were: their last change is held back."""
        with self.world.sql(self.database) as connection:
            rows = source_state(connection, f"{self.database}.orders", ("id",))
        rows |= {f'{{"id":{row["id"]}}}': row for row in left}
        for route in ("eu", "us"):
            mine = {k: r for k, r in rows.items() if REGIONS.get(r["region"]) == route}
            seen = self.topic(route)
            assert (seen.duplicates, seen.disordered) == (0, 0)
            assert mismatches(mine, seen.state.get(f"{self.database}.orders", {})) == []
            assert mismatches({str(r["id"]): r for r in mine.values()}, self.documents(route)) == []


def test_each_route_holds_the_rows_that_are_of_it(world: World, database: str) -> None:
    regions = Regions(world, database)
    regions.write(1, 60)
    regions.execute("INSERT INTO other VALUES (1, 'a')")
    with regions.services() as services:
        told = preview(regions.flow, services)
        counted = dry_run(regions.flow, services, world.spark(regions.name), regions.identity())
    assert told.outputs["kafka"] == ("eu", "us", f"{database}.other")
    assert told.lanes == {f"{database}.orders": "direct", f"{database}.other": "direct"}
    assert sum(counted.sinks["elasticsearch"].values()) >= counted.tables[f"{database}.orders"].read
    regions.run()
    regions.assert_each_route_holds_its_rows()

    regions.execute("TRUNCATE orders")
    regions.write(2, 40)
    regions.execute(
        "REPLACE INTO orders VALUES (20, 'jp', 1, 'a@b'), (21, 'de', 1, 'a@b'), (22, 'de', 1, 'a@b')",
        "UPDATE orders SET region = 'us', email = NULL WHERE id = 21",  # moves, and violates the check
        "UPDATE orders SET region = 'us' WHERE id = 22",
    )
    result = regions.run()
    assert result.quarantined == 2
    held = regions.held()
    assert (held['{"id":20}'].cause, held['{"id":20}'].stage) == ("route(apac)", CHECK)
    assert (held['{"id":21}'].cause, held['{"id":21}'].stage) == ("not_null(email)@*.orders", CHECK)
    # A row that is held back stays where it was.
    regions.assert_each_route_holds_its_rows({"id": 21, "region": "de", "v": 1, "email": "a@b"})
    with regions.services() as services:
        assert [str(problem) for problem in verify(regions.flow, services, None).problems] == []

    moved = [each for each in regions.ids("us") if each.endswith(":0.1")][-1]
    settings = (world.connections, world.settings)
    (journey,) = trace(recognise(moved), [regions.flow], settings, "")
    assert [s.place.partition(":")[0] for s in journey.sightings if s.sink == "kafka"] == [f"{regions.name}.us"]
    (left,) = trace(recognise(moved.removesuffix(".1") + ".0"), [regions.flow], settings, "")
    assert {s.place.partition(":")[0] for s in left.sightings if s.sink == "kafka"} == {f"{regions.name}.eu"}

    before = {route: regions.ids(route) for route in ("eu", "us")}
    mended = Route(by=BY, routes=("eu", "us", "apac"), tables=("*.orders",))
    regions.flow = regions.flow.model_copy(update={"transforms": (mended,), "checks": ()})
    with regions.services() as services:
        run = world.spark(regions.name), regions.identity()
        done = replay_rows(regions.flow, services, run, Selection(), ADA)
        assert [(each.replayed, each.held, each.discarded) for each in done] in ([(2, 0, 0)], [(1, 0, 0), (1, 0, 0)])
        assert replay_rows(regions.flow, services, run, Selection(), ADA) == []
    assert regions.ids("apac") == [held['{"id":20}'].event_id]
    event = held['{"id":21}'].event_id
    assert sorted(regions.ids("eu")) == sorted([*before["eu"], f"{event}.0"])
    assert sorted(regions.ids("us")) == sorted([*before["us"], f"{event}.1"])
    regions.assert_each_route_holds_its_rows()
    assert set(regions.documents("apac")) == {"20"}

    with regions.services() as services:
        request = ValidationRequest(sink="elasticsearch")
        found = validate(regions.flow, services, regions.identity(), request, lambda: world.spark(regions.name))
    (sink,) = found.sinks
    assert sink.differences == ()


def test_splits_and_chosen_keys_keep_order_per_key(world: World, database: str) -> None:
    """A reader of each route holds, under each customer's key, the customer's rows of that route."""
    regions = Regions(world, database)
    (kafka, _) = regions.flow.sinks
    split = Split({"many": "v >= 50", "all": "true"}, tables=("*.orders",))
    regions.flow = regions.flow.model_copy(
        update={
            "transforms": (KeyBy("region", tables=("*.orders",)), split),
            "checks": (),
            "sinks": (kafka.model_copy(update={"tombstones": False}),),
        }
    )
    regions.write(3, 100)
    regions.execute("INSERT INTO orders VALUES (30, NULL, 60, 'a@b')")
    assert regions.run().quarantined == 1
    assert [(row.cause, row.key) for row in regions.held().values()] == [("key_by_null(region)", '{"id":30}')]

    rows = {row[0]: row for row in regions.execute("SELECT id, region, v, email FROM orders WHERE id <> 30")}
    ids: list[str] = []
    for route, least in (("many", 50), ("all", 0)):
        held: dict[tuple[str, int], Any] = {}
        partitions: dict[bytes, int] = {}
        for message in consume(world.sandbox.address("kafka"), f"{regions.name}.{route}"):
            record, key = json.loads(message.value()), message.key()
            ids.append(event_id(message))
            assert partitions.setdefault(key, message.partition()) == (murmur2(key) & 0x7FFFFFFF) % 3
            image = record["after"] or record["before"]
            assert key == f'{{"region":"{image["region"]}"}}'.encode()
            place = image["region"], image["id"]
            assert held.get(place) == record["before"], (place, record)
            held[place] = record["after"]
        expected = {(r[1], r[0]): dict(zip(("id", "region", "v", "email"), r, strict=True)) for r in rows.values()}
        found = {place: image for place, image in held.items() if image is not None}
        assert found == {place: image for place, image in expected.items() if image["v"] >= least}
    assert len(ids) == len(set(ids))
    with regions.services() as services:
        assert [str(problem) for problem in verify(regions.flow, services, None).problems] == []


def test_a_live_window_places_rows_as_sparks_lane_does(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, keys, partitions and ids of each route, and what is held back."""
    monkeypatch.setattr(live_lane, "_READY_WITHIN_S", 500.0)
    regions = Regions(world, database)
    sink = Kafka(conn_id="kafka_east", topic="{flow}.{route}", partitions=3, slots=2, tombstones=False)
    route = Route(by="coalesce(region, 'none')", routes=("de", "us", "none"), tables=("*.orders",))
    live = regions.flow.model_copy(
        update={"mode": "live", "sinks": (sink,), "transforms": (KeyBy("v", tables=("*.orders",)), route), "checks": ()}
    )
    with counted(monkeypatch) as sizes:
        window = Window(world, SimpleNamespace(flow=live, name=live.name), "live")  # type: ignore[arg-type] # all of it
        try:
            for number in range(1, 6):
                regions.execute(f"REPLACE INTO orders VALUES ({90 + number}, 'us', NULLIF({number}, 3), 'a@b')")
                regions.write(number, 12)
                while sum(sizes) < number and window.batches < number:
                    time.sleep(0.05)
        finally:
            window.stop()
    world.run(live)
    reference = live.model_copy(update={"name": f"{live.name}_spark", "lane": "spark", "mode": "standard"})
    world.run(reference)

    assert sizes
    delivered = [
        {name: placed(world, f"{flow.name}.{name}") for name in route.routes[:2]} for flow in (live, reference)
    ]
    assert delivered[0] == delivered[1]
    assert any(event.endswith(".1") for records in delivered[0].values() for _, _, event, _ in records)
    held = []
    for flow in (live, reference):
        regions.flow = flow
        held.append({row.event_id: row.cause for row in regions.held().values()})
    assert held[0] == held[1]
    assert {"key_by_null(v)", "route(fr)"} <= set(held[0].values())


def placed(world: World, topic: str) -> list[tuple[int, bytes, str, Any]]:
    """Return partition, key, event id and value of each record, without what differs between two flows."""
    found = []
    for message in consume(world.sandbox.address("kafka"), topic):
        value = json.loads(message.value())
        del value["ts_ms"], value["source"]["name"]
        found.append((message.partition(), message.key(), event_id(message), value))
    return sorted(found, key=lambda each: each[0])


def test_kills_between_the_copies_of_moved_rows(world: World, tmp_path: Path) -> None:
    """Each record is a transaction, so that a kill comes between the copies of a row as between any others."""
    shop = killable(world, "kill_routes", partitions=2, slots=2, chunk_rows=1)
    by = "CASE WHEN status IN ('new', 'paid') THEN 'open' ELSE 'closed' END"
    (sink,) = shop.flow.sinks
    shop.flow = shop.flow.model_copy(
        update={
            "source": shop.flow.source.model_copy(update={"tables": ("shop.orders",)}),
            "transforms": (*shop.flow.transforms, Route(by=by, routes=("open", "closed"))),
            "checks": (),
            "sinks": (sink.model_copy(update={"topic": "kill_routes.{route}"}),),
        }
    )
    chance = random.Random(3)
    with writing(shop):
        for epoch in range(1, KILLS + 1):
            run = Run(world, shop, tmp_path)
            in_mid_batch(world, shop, epoch, run)
            time.sleep(chance.uniform(0, 1.5))
            run.kill()
    finish(world, shop)

    rows = source_state(shop.connection, "shop.orders", KEYS["orders"])
    moves, held = 0, dict[str, Any]()
    for route in ("open", "closed"):
        seen = fold(topic_records(world.sandbox.address("kafka"), f"kill_routes.{route}"))
        assert (seen.duplicates, seen.disordered) == (0, 0)
        for key, found in seen.state["shop.orders"].items():
            assert key not in held
            assert (found["status"] in ("new", "paid")) == (route == "open")
            held[key] = found
        moves += sum(
            json.loads(value)["source"]["event_id"].endswith(".1")
            for _, value in topic_records(world.sandbox.address("kafka"), f"kill_routes.{route}")
            if value
        )
    assert moves > 0
    for row in rows.values():
        del row["card_number"]
    assert mismatches(rows, held) == []
    shop_orders = shop.writer.written.rows("orders")
    with open_services(shop.flow, world.connections, world.settings) as services:
        verified = verify(shop.flow, services, None)
    assert [str(problem) for problem in verified.problems] == []
    assert verified.state.ledger.tables["shop.orders"].read == shop_orders
