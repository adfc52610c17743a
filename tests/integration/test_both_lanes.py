"""Batches in two lanes on real servers: readers see what one lane gives, through kills and changes of the lanes too."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from databus import Batching, DropColumns, Elasticsearch, Filter, Flow, InRange, Mask, MysqlBinlog, NotNull
from databus.core.errors import SinkError
from databus.demo.consumers import index_documents
from databus.records.reports import quarantined
from databus.runtime import batch as stages
from databus.runtime.direct import both_lanes
from databus.runtime.direct.both_lanes import shared_task
from databus.runtime.direct.spark_jobs import SparkJobs
from databus.runtime.direct.spark_tables import SparkTables, spark_tables
from databus.runtime.direct.task import DirectTask
from databus.sinks.kafka.session import Session
from tests.integration import test_kill as kills
from tests.integration.conftest import World
from tests.integration.kafka_target import forget_kept
from tests.integration.shop_flow import Shop
from tests.integration.test_direct_lane import canonical, in_this_process, seen
from tests.integration.test_kill import Run, finish, in_mid_batch, kill_runs, killable, writing

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

NEVER_COMPILED = "xpath_boolean('<a><b>1</b></a>', 'a/b')"
"""A condition that holds of every row, and that Spark alone evaluates."""
APART = frozenset({"shop.customers", "shop.order_items"})

Lanes = frozenset[str] | None


def shared_out(shop: Shop, **changes: Any) -> Shop:
    """Let two of the shop's four tables go through Spark, whose rows stand in the others' transactions."""
    whole = Filter(NEVER_COMPILED, tables=tuple(sorted(APART)))
    transforms = (DropColumns("card_number", tables=("shop.orders",)), whole)
    shop.flow = shop.flow.model_copy(update={"transforms": transforms, "checks": (), **changes})
    return shop


def copies(flow: Flow, *names: str) -> list[Flow]:
    """Return the same flow into topics of their own."""
    (sink,) = flow.sinks
    return [
        flow.model_copy(update={"name": name, "sinks": (sink.model_copy(update={"topic": name}),)}) for name in names
    ]


def test_a_consumer_sees_what_spark_alone_delivers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks in both lanes, partial images, key updates, statements, and transactions over tables of both."""
    shop = Shop(world, "both_lanes", partitions=4, slots=3)
    shop.flow = shop.flow.model_copy(
        update={
            "transforms": (
                Filter(f"{NEVER_COMPILED} AND (total > 300 OR status = 'paid')", tables=("shop.orders",)),
                Mask("email", "birthday", keep_last=4, tables=("shop.customers",)),
                DropColumns("card_number", tables=("shop.orders",)),
            ),
            "checks": (
                NotNull("email", tables=("shop.customers",)),
                InRange("quantity", maximum=2, tables=("shop.order_items",)),
                InRange("total", minimum=100, tables=("shop.orders",)),
            ),
        }
    )
    ours, theirs = copies(shop.flow, "both_lanes", "both_lanes_spark")
    theirs = theirs.model_copy(update={"lane": "spark"})
    shop.writer.run(150)
    with shop.connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = MINIMAL")
        shop.writer.run(60)
        cursor.execute("CREATE TABLE shop.moved (id INT PRIMARY KEY, v INT)")
        cursor.execute("INSERT INTO shop.moved VALUES (1, 10), (2, 20)")
        cursor.execute("UPDATE shop.moved SET id = 3 WHERE id = 1")
        cursor.execute("TRUNCATE shop.moved")
        cursor.execute("DROP TABLE shop.moved")
    taken: list[Lanes] = []

    def noted(flow: Flow, planned: Any, known: SparkTables) -> Lanes:
        taken.append(spark_tables(flow, planned, known))
        return taken[-1]

    monkeypatch.setattr(stages, "spark_tables", noted)
    results = [world.run(flow) for flow in (ours, theirs)]

    assert taken == [frozenset({"shop.orders"}), None]
    assert results[0].tables == results[1].tables
    ends = {(each.filtered, each.quarantined, each.dispatched) for each in results}
    assert len(ends) == 1
    assert all(ends.pop())
    assert seen(world, "both_lanes") == seen(world, "both_lanes_spark")
    held = [
        {(row.event_id, row.key, row.cause, row.position, canonical(row.payload)) for row in rows}
        for rows in (quarantined(world.settings.records_url, name) for name in ("both_lanes", "both_lanes_spark"))
    ]
    assert held[0] == held[1]
    tables = {row.table for row in quarantined(world.settings.records_url, "both_lanes")}
    assert tables == {"shop.orders", "shop.order_items"}


class FailsOnce:
    """Makes the n-th commit of a writer fail, before it is sent or when it was taken, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, *, taken: bool):
        self.left = number
        commit = Session.commit

        def failing(session: Session, marker: Any) -> None:
            self.left -= 1
            if self.left or taken:
                commit(session, marker)
            if self.left == 0:
                raise SinkError("the broker is gone", retryable=True)

        monkeypatch.setattr(Session, "commit", failing)


def here(placed: Any, task: DirectTask) -> list[Any]:
    """Run the tasks of a batch in two lanes in this process, slot by slot."""
    rows = pa.Table.from_batches(placed.toArrow().to_batches()).combine_chunks()
    heads = [number for number, log in enumerate(rows["log"].to_pylist()) if log is None]
    answers: list[pa.RecordBatch] = []
    for start, stop in zip(heads, [*heads[1:], rows.num_rows], strict=True):
        answers += shared_task(task)(rows.slice(start, stop - start).to_batches(max_chunksize=7))
    return [pickle.loads(answer["answer"][0].as_py()) for answer in answers]


LANES: dict[str, Lanes] = {"direct": frozenset(), "both": APART, "others": frozenset({"shop.orders"}), "spark": None}


@pytest.mark.parametrize("taken", [False, True], ids=["lost", "taken"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("both", "spark"),
        ("both", "both"),
        ("both", "direct"),
        ("both", "others"),
        ("direct", "both"),
        ("others", "both"),
    ],
)
def test_a_plan_goes_on_in_other_lanes(
    world: World, monkeypatch: pytest.MonkeyPatch, first: str, second: str, taken: bool
) -> None:
    """Some chunks are committed when a writer fails; whatever lanes the next attempt takes, no record is twice."""
    name = f"both_{first}_{second}_{'taken' if taken else 'lost'}"
    shop = Shop(world, name, partitions=2, slots=2, chunk_rows=25)
    shop.flow = shop.flow.model_copy(update={"checks": ()})
    ours, reference = copies(shop.flow, name, f"{name}_whole")
    shop.writer.run(60)
    with monkeypatch.context() as patched:
        patched.setattr(SparkJobs, "run", in_this_process)
        patched.setattr(both_lanes, "answers_of", here)
        patched.setattr(stages, "spark_tables", lambda *_: LANES[first])
        FailsOnce(patched, 3, taken=taken)
        with pytest.raises(SinkError, match="the broker is gone"):
            world.run(ours)
    begun = sum(map(len, seen(world, name).values()))
    with monkeypatch.context() as patched:
        patched.setattr(stages, "spark_tables", lambda *_: LANES[second])
        world.run(ours)
    forget_kept()
    world.run(reference)

    found = seen(world, name)
    assert 0 < begun < sum(map(len, found.values()))
    assert found == seen(world, f"{name}_whole")


def test_kill_of_the_run(world: World, tmp_path: Path) -> None:
    """The killed run's Spark task goes on, until the next attempt's writer keeps it out."""
    shop = shared_out(killable(world, "both_kill", partitions=4, slots=2, chunk_rows=40))
    kill_runs(world, shop, tmp_path, 17)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()
    assert world.checkpoint(shop.flow).epoch == kills.KILLS + 1


def test_kill_of_the_spark_server(world: World, tmp_path: Path) -> None:
    """The tasks of both lanes die with their transactions open."""
    shop = shared_out(killable(world, "both_spark", partitions=2, slots=2, chunk_rows=40))
    with writing(shop):
        run = Run(world, shop, tmp_path)
        in_mid_batch(world, shop, 1, run)
        world.sandbox.kill("spark")
        assert run.process.wait(120) == kills.UNREACHABLE, run.log.read_text()[-3000:]
        world.sandbox.up(["spark"])
    finish(world, shop)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()


def test_documents_of_both_lanes(world: World, database: str) -> None:
    """A cluster refuses a row of each lane; a TRUNCATE and updates stand in their place."""
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        start = "{}:{}".format(*cursor.fetchone()[:2])
        for table in "ab":
            cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))")
        for statement in (
            "INSERT INTO {} VALUES (1, '1'), (2, '2'), (3, '3')",
            "TRUNCATE TABLE {}",
            "INSERT INTO {} VALUES (2, '20'), (5, '50'), (6, '60'), (7, 'no')",
            "UPDATE {} SET v = '51' WHERE id = 5",
            "UPDATE {} SET id = 8 WHERE id = 6",
            "DELETE FROM {} WHERE id = 2",
        ):
            for table in "ab":
                cursor.execute(statement.format(table))
    mapping = {"properties": {"v": {"type": "integer"}}}
    found = []
    for lane in ("auto", "spark"):
        sink = Elasticsearch(
            conn_id="opensearch_default", index=f"{database}-{lane}-{{table}}", mapping=mapping, on_reject="quarantine",
            slots=2,
        )  # fmt: skip
        flow = Flow(
            name=f"documents_{lane}_{database}",
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.*",), start=start),
            transforms=(Filter(NEVER_COMPILED, tables=(f"{database}.a",)),),
            sinks=(sink,),
            lane=lane,
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )
        result = world.run(flow)
        address = world.sandbox.address("opensearch")
        rejected = quarantined(world.settings.records_url, flow.name)
        found.append(
            (
                [index_documents(address, f"{database}-{lane}-{table}") for table in "ab"],
                result.tables,
                sorted((row.event_id, row.table, row.key, row.position, canonical(row.payload)) for row in rejected),
            )
        )
    assert found[0] == found[1]
    assert found[0][0] == [{"5": {"id": 5, "v": "51"}, "8": {"id": 8, "v": "60"}}] * 2
    assert [row[1] for row in found[0][2]] == [f"{database}.a", f"{database}.b"]
