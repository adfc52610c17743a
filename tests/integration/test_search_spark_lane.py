"""MySQL tables to a real search cluster through Spark's DataFrames."""

from __future__ import annotations

from datetime import timedelta

import pytest

from databus import Batching, Elasticsearch, Flow, MysqlBinlog
from databus.demo.consumers import index_documents
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
