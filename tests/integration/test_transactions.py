"""The source's transactions on real servers: a consumer regroups them from all partitions as the server logged them."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent, QueryEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from databus import NotNull
from databus.consumer import Changes
from databus.core.errors import SinkError
from databus.runtime.direct.spark_jobs import SparkJobs
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, forget_kept
from tests.integration.shop_flow import Shop
from tests.integration.statements import run_sql
from tests.integration.test_direct_lane import FailsAt, in_this_process, without_checks
from tests.integration.test_kill import KILLS, Run, finish, in_mid_batch, kill_runs, killable, writing
from tests.integration.test_live_lane import at_the_head, named, tasks_of
from tests.regrouped import Regrouper

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:'(db|passwd)' is deprecated:DeprecationWarning"),  # the other library's
]

BIG = 150
"""Rows of each statement of the large transaction, which chunks of 40 rows cut."""


def options(name: str, **more: Any) -> dict[str, Any]:
    return {"partitions": 4, "slots": 3, "chunk_rows": 40, "transaction_topic": f"{name}.transactions", **more}


def write_large(shop: Shop) -> None:
    """Write a transaction over two tables that chunks cut, with updates of keys, and one that is rolled back."""
    run_sql(
        shop.connection,
        "CREATE TABLE shop.big (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE shop.wide (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE shop.numbers (n INT PRIMARY KEY)",
        "SET SESSION cte_max_recursion_depth = 100000",
        "INSERT INTO shop.numbers WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c "
        f"WHERE n < {BIG}) SELECT n FROM c",
        "BEGIN",
        "INSERT INTO shop.big SELECT n, n FROM shop.numbers",
        "INSERT INTO shop.wide SELECT n, n FROM shop.numbers",
        "UPDATE shop.big SET v = v + 1",
        "UPDATE shop.wide SET id = id + 1000",
        "DELETE FROM shop.big WHERE id > 100",
        "COMMIT",
        "BEGIN",
        "INSERT INTO shop.big SELECT n + 500, n FROM shop.numbers",
        "ROLLBACK",
        "TRUNCATE shop.numbers",
    )


def logged(shop: Shop) -> dict[str, Counter[str]]:
    """Return GTID → table → events, as another library reads the log; an update of a key is two."""
    file, _, place = str(shop.flow.source.start).rpartition(":")  # type: ignore[attr-defined] # it reads a binlog
    host, port = shop.world.sandbox.address("mysql").split(":")
    stream = BinLogStreamReader(
        {"host": host, "port": int(port), "user": "root", "password": ""},
        server_id=4712, log_file=file, log_pos=int(place), resume_stream=True,
        only_events=[GtidEvent, QueryEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )  # fmt: skip
    keys = {"customers": ("customer_id",), "products": ("sku",), "orders": ("order_id",)}
    found: dict[str, Counter[str]] = {}
    gtid = ""
    with closing(stream):
        for event in stream:
            if isinstance(event, GtidEvent):
                gtid = event.gtid
            elif isinstance(event, QueryEvent):
                if event.query.upper().startswith("TRUNCATE"):
                    found.setdefault(gtid, Counter())[event.query.split()[-1]] += 1
            elif event.schema == "shop":
                of = found.setdefault(gtid, Counter())
                names = keys.get(event.table, ("order_id", "line") if event.table == "order_items" else ("id",))
                for row in event.rows:
                    images = (row["before_values"], row["after_values"]) if isinstance(event, UpdateRowsEvent) else ()
                    moved = len({tuple(image[name] for name in names) for image in images}) > 1
                    of[f"shop.{event.table}"] += 1 + moved
    return found


def regrouped(shop: Shop) -> Regrouper:
    servers = shop.world.sandbox.address("kafka")
    topics = (shop.name, f"{shop.name}.transactions")
    consumer = Regrouper(topics[1])
    for topic in topics:
        consumer.take_all(consume(servers, topic))
    return consumer


def assert_whole(shop: Shop) -> Regrouper:
    """Compare what a consumer regroups with the server's log: every transaction, all of its rows, nothing else."""
    consumer = regrouped(shop)
    assert consumer.incomplete() == []
    consumer.require_orders()
    ours = {
        name: Counter({each["data_collection"]: each["event_count"] for each in found.end["data_collections"]})
        for name, found in consumer.transactions.items()
    }
    assert ours == logged(shop)
    assert_read_alike(shop, consumer)
    return consumer


def assert_read_alike(shop: Shop, oracle: Regrouper) -> None:
    """Compare with what `databus.consumer` puts together, its larger transactions from disk."""
    servers = shop.world.sandbox.address("kafka")
    with Changes(servers, shop.name, transaction_topic=f"{shop.name}.transactions", until_end=True) as changes:
        found = [t for t in changes.transactions(patience_s=3600, memory_changes=100) if t.id]
    assert [t.why for t in found if not t.complete] == []
    assert {t.id: [(c.table, c.event_id) for c in t] for t in found} == {
        name: whole.changes for name, whole in oracle.transactions.items()
    }
    places = [tuple(map(int, t.changes[0].position.rpartition(".")[2].split(":"))) for t in found]
    assert places == sorted(places)


def test_whole_through_kills(world: World, tmp_path: Path) -> None:
    shop = without_checks(killable(world, "txn_kill", **options("txn_kill")))
    write_large(shop)
    kill_runs(world, shop, tmp_path, 31)
    consumer = assert_whole(shop)
    largest = max(len(found.events) for found in consumer.transactions.values())
    assert largest == 5 * BIG + 50


def test_whole_through_kills_of_the_live_lane(world: World, tmp_path: Path) -> None:
    name = named("txn_live")
    shop = at_the_head(without_checks(killable(world, name, **options(name))))
    chance = random.Random(32)
    with writing(shop):
        for epoch in range(1, KILLS + 1):
            run = Run(world, shop, tmp_path)
            tasks_of(run, epoch)
            in_mid_batch(world, shop, epoch, run)
            time.sleep(chance.uniform(0, 0.5))
            run.kill()
    finish(world, shop)
    assert_whole(shop)


@pytest.mark.parametrize("number", [2, 6])
def test_a_retry_goes_on_behind_the_chunk_that_was_cut(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What is there after the failure is incomplete to a consumer; what the retry adds completes it."""
    shop = without_checks(Shop(world, f"txn_cut_{number}", **options(f"txn_cut_{number}")))
    write_large(shop)
    shop.writer.run(10)
    monkeypatch.setattr(SparkJobs, "run", in_this_process)
    FailsAt(monkeypatch, number)
    with pytest.raises(SinkError, match="the broker is gone"):
        world.run(shop.flow)
    before = regrouped(shop)
    assert before.incomplete()
    world.run(shop.flow)
    forget_kept()
    assert_whole(shop)


def test_both_lanes_and_held_rows(world: World) -> None:
    """Spark's lane writes the same boundaries; rows that a check holds back are told in END."""
    shop = Shop(world, "txn_direct", **options("txn_direct"))
    checks = (NotNull("note", tables=("shop.orders",)),)
    shop.flow = shop.flow.model_copy(update={"checks": checks})
    (sink,) = shop.flow.sinks
    topics = {"topic": "txn_spark", "transaction_topic": "txn_spark.transactions"}
    other = shop.flow.model_copy(
        update={"name": "txn_spark", "lane": "spark", "sinks": (sink.model_copy(update=topics),)}
    )
    write_large(shop)
    shop.writer.run(60)
    results = [world.run(flow) for flow in (shop.flow, other)]
    direct = regrouped(shop)
    shop.name = "txn_spark"
    through_spark = regrouped(shop)

    assert direct.incomplete() == through_spark.incomplete() == []
    direct.require_orders()
    assert {name: (found.changes, found.end) for name, found in direct.transactions.items()} == {
        name: (found.changes, found.end) for name, found in through_spark.transactions.items()
    }
    held = sum(found.end.get("quarantined", 0) for found in direct.transactions.values())
    assert held == results[0].quarantined == results[1].quarantined > 0
