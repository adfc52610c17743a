"""Looks at a flow's log beside the flow: a plan, a dry run, a peek, an audit leave it what it keeps of XA."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog, __version__
from databus.demo.consumers import index_documents
from databus.ops.runs.changed_rows import changed_rows
from databus.ops.runs.dry_run import dry_run
from databus.ops.runs.preview import peek, preview
from databus.ops.services import open_services
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.runtime.context import RunIdentity, Services
from tests.integration.conftest import World
from tests.integration.kafka_target import consume
from tests.integration.one_process import run_locally

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@dataclass
class Orders:
    """A table, a flow over it, and one XA transaction on it."""

    world: World
    database: str
    flow: Flow

    def sql(self, *statements: str) -> Any:
        """Run statements in a session of their own; a prepared transaction outlives it."""
        with self.world.sql(self.database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def prepare(self) -> None:
        """Prepare two rows, move what was prepared, and let the server forget the log that holds them."""
        self.sql("XA START 'one'", "INSERT INTO orders VALUES (3), (4)", "XA END 'one'", "XA PREPARE 'one'")
        run_locally(self.world, self.flow)
        assert len(self.copies()) == 1
        self.sql("FLUSH BINARY LOGS")
        run_locally(self.world, self.flow)
        newest = self.sql("SHOW BINARY LOGS")[-1][0]
        self.sql(f"PURGE BINARY LOGS TO '{newest}'")

    def copies(self) -> list[str]:
        """Return what the flow keeps of prepared transactions."""
        folder = Path(self.world.settings.segment_store, self.flow.name)
        return [path.name for path in folder.glob("*/prepared/*.prepared")]

    def services(self) -> Any:
        return open_services(self.flow, self.world.connections, self.world.settings)

    def delivered(self) -> list[int]:
        """Return the ids of the rows that a consumer of the topic has, in order."""
        messages = consume(self.world.sandbox.address("kafka"), self.flow.name)
        return [json.loads(m.value())["after"]["id"] for m in messages if m.value() is not None]

    def beside(self) -> list[str]:
        """Return what stands beside the flow's folder."""
        return [path.name for path in Path(self.world.settings.segment_store).glob(f"{self.flow.name}.*")]


@pytest.fixture
def orders(world: World, database: str) -> Iterator[Orders]:
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO orders VALUES (1), (2)")
    flow = Flow(
        name=f"{database}_looks",
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.*",), start=f"{file}:{position}"),
        sinks=(Kafka(conn_id="kafka_east", topic=f"{database}_looks", partitions=1),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
    )
    made = Orders(world, database, flow)
    yield made
    for _, _, _, xid in made.sql("XA RECOVER"):
        made.sql(f"XA ROLLBACK '{xid}'")


def looked(orders: Orders, services: Services) -> None:
    """Look ahead in each way there is; each finds the rows that were prepared."""
    flow, world = orders.flow, orders.world
    found = preview(flow, services)
    assert found.next is not None
    assert found.next.rows == 2
    assert [row["after"]["id"] for row in peek(flow, services, None, 10)] == [3, 4]
    counted = dry_run(flow, services, world.spark(flow.name), RunIdentity("look", "", __version__))
    assert {name: counts.read for name, counts in counted.tables.items()} == {f"{orders.database}.orders": 2}


def test_the_flow_delivers_what_was_prepared_whoever_looked_ahead(orders: Orders) -> None:
    run_locally(orders.world, orders.flow)
    orders.prepare()
    orders.sql("XA COMMIT 'one'")
    with orders.services() as services:
        looked(orders, services)
    assert len(orders.copies()) == 1
    assert orders.beside() == []
    run_locally(orders.world, orders.flow)
    assert orders.delivered() == [1, 2, 3, 4]
    assert orders.copies() == []


def test_a_dry_run_of_a_range_without_rows_counts_none(orders: Orders) -> None:
    run_locally(orders.world, orders.flow)
    orders.sql(f"CREATE DATABASE {orders.database}_b", f"DROP DATABASE {orders.database}_b")
    with orders.services() as services:
        found = preview(orders.flow, services)
        assert found.next is not None
        assert found.next.rows == 0
        spark = orders.world.spark(orders.flow.name)
        counted = dry_run(orders.flow, services, spark, RunIdentity("look", "", __version__))
    assert counted.tables == {}


def test_a_sink_that_is_behind_finds_the_copy_that_the_others_have_passed(orders: Orders) -> None:
    world, flow = orders.world, orders.flow
    search = world.override("opensearch_default")
    there = world.environment[f"AIRFLOW_CONN_{search.upper()}"]
    index = f"{flow.name}-{{table}}".replace("_", "-")
    sinks = (*flow.sinks, Elasticsearch(conn_id=search, index=index, max_retries=0))
    orders.flow = flow = flow.model_copy(update={"sinks": sinks, "sink_outage": timedelta(seconds=0.5)})
    run_locally(world, flow)
    orders.prepare()
    world.environment[f"AIRFLOW_CONN_{search.upper()}"] = json.dumps(
        {**json.loads(there), "host": "127.0.0.1", "port": 1}
    )
    orders.sql("XA COMMIT 'one'")
    assert list(run_locally(world, flow).behind) == ["elasticsearch"]
    assert orders.delivered() == [1, 2, 3, 4]
    with orders.services() as services:
        with RecordStore(world.settings.records_url) as records:
            (batch,) = [b for b in Reports(records).newest(flow.name, 100) if sum(c.read for c in b.tables.values())][
                :1
            ]
        audited = changed_rows(flow, services, [batch], (f"{orders.database}.orders",), 10)
    assert audited is not None
    assert list(audited.frame["id"]) == [3, 4]
    assert len(orders.copies()) == 1
    world.environment[f"AIRFLOW_CONN_{search.upper()}"] = there
    assert run_locally(world, flow).behind == {}
    found = index_documents(world.sandbox.address("opensearch"), index.replace("{table}", "orders"))
    assert sorted(document["id"] for document in found.values()) == [1, 2, 3, 4]
