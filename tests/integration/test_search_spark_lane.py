"""MySQL tables to a real search cluster through Spark's DataFrames."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from databus import Batching, Elasticsearch, Filter, Flow, Mask, MysqlBinlog
from databus.demo.consumers import index_documents
from databus.ops.services import open_services
from databus.ops.validation.result import Validation
from databus.ops.validation.validate import ValidationRequest, validate
from databus.runtime.context import RunIdentity
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(300)]


def test_emptied_tables_leave_the_index_in_their_place_in_the_log(world: World, database: str) -> None:
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        start = "{}:{}".format(*cursor.fetchone()[:2])
        for statement in (
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
            "TRUNCATE TABLE t",
            "INSERT INTO t VALUES (2, 20), (5, 50)",
            "CREATE TABLE a (id INT PRIMARY KEY)",
            "INSERT INTO a VALUES (1)",
            "CREATE TABLE b (id INT PRIMARY KEY)",
            "INSERT INTO b VALUES (1), (2)",
            "DROP TABLE a, b",
        ):
            cursor.execute(statement)
    flow = Flow(
        name=f"search_{database}",
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.*",), start=start),
        sinks=(Elasticsearch(conn_id="opensearch_default", slots=2),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
        lane="spark",
    )
    world.run(flow)
    documents = {t: index_documents(world.sandbox.address("opensearch"), f"{database}.{t}") for t in "tab"}
    assert documents == {"t": {"2": {"id": 2, "v": 20}, "5": {"id": 5, "v": 50}}, "a": {}, "b": {}}
    counts = world.checkpoint(flow).counts["(statements)"]
    assert counts.read == counts.dispatched


def test_masked_documents_are_compared_as_they_are(world: World, database: str) -> None:
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, card VARCHAR(20), price DECIMAL(12,2))")
        cursor.execute("INSERT INTO t VALUES (1, '4111222233334444', 1.50), (2, NULL, 2), (3, '4111222233335555', 3)")
    flow = Flow(
        name=f"masked_{database}",
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.*",), snapshot="initial"),
        transforms=(Filter("id < 3"), Mask("card", keep_last=4)),
        sinks=(Elasticsearch(conn_id="opensearch_default"),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
    )
    world.run(flow)

    def compared() -> Validation:
        with open_services(flow, world.connections, world.settings) as services:
            identity = RunIdentity("validation", "", "")
            return validate(flow, services, identity, ValidationRequest(), lambda: world.spark(flow.name))

    assert compared().equal
    index = f"http://{world.sandbox.address('opensearch')}/{database}.t/_doc/1"
    httpx.put(index, json={"id": 1, "card": "***9999", "price": 1.5}).raise_for_status()
    ((found,),) = (sink.differences for sink in compared().sinks)
    assert found.to_json() == {
        "kind": "different", "table": f"{database}.t", "output": f"{database}.t", "key": "1", "columns": ["card"],
        "source": {"id": 1, "card": "***4444", "price": "1.5"}, "sink": {"id": 1, "card": "***9999", "price": "1.5"},
    }  # fmt: skip
