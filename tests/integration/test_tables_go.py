"""Tables that are dropped or renamed while a flow runs, and patterns that match nothing any more, on a real server."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.demo.consumers import topic_records
from databus.sources.mysql.source import MysqlBinlogSource
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_a_window_tells_tables_that_go_while_it_runs_and_moves_what_they_had(
    started: Started, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    world = OneProcessWorld(started("zookeeper", "mysql", "kafka"), tmp_path_factory.mktemp("tables_go"))
    name = f"tables_go_{os.getpid()}"
    connection = world.sql()
    sql = partial(run_sql, connection)
    tables = ("orders", "kept", "part_1")
    sql(f"CREATE DATABASE {name}", f"USE {name}", *(f"CREATE TABLE {table} (id INT PRIMARY KEY)" for table in tables))
    flow = Flow(
        name=name,
        source=MysqlBinlog(
            conn_id="mysql_shop", tables=(f"{name}.orders", f"{name}.kept", f"{name}.part_*"), snapshot="never"
        ),
        sinks=(Kafka(conn_id="kafka_east", topic=name),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
    )
    assert world.run(flow).summary()["missing_tables"] == []

    def go() -> None:
        sql("INSERT INTO orders VALUES (1)", "INSERT INTO part_1 VALUES (2)", "RENAME TABLE orders TO archive")
        sql("DROP TABLE part_1", "INSERT INTO kept VALUES (3)")

    later = threading.Timer(3.0, go)
    later.start()
    summary: dict[str, Any] = world.run(flow, until_caught_up=False, max_seconds=15).summary()
    later.join()
    assert summary["missing_tables"] == [f"{name}.orders", f"{name}.part_*"]
    assert f"table {name}.orders is gone (dropped, renamed" in caplog.text
    assert f"no table matches {name}.part_*" in caplog.text
    keys = {key for key, _ in topic_records(world.sandbox.address("kafka"), name)}
    assert keys == {b'{"id":1}', b'{"id":2}', b'{"id":3}'}
    # The next run tells it as well: it asks once as it begins.
    caplog.clear()
    assert world.run(flow).summary()["missing_tables"] == [f"{name}.orders", f"{name}.part_*"]
    assert f"no table matches {name}.part_*" in caplog.text
    sql(f"DROP DATABASE {name}")
    connection.close()


def test_statements_by_which_no_table_goes_are_no_reason_to_ask(
    started: Started, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OneProcessWorld(started("zookeeper", "mysql", "kafka"), tmp_path_factory.mktemp("tables_stay"))
    name = f"tables_stay_{os.getpid()}"
    connection, stop, asked = world.sql(), threading.Event(), list[float]()

    def sql(*statements: str) -> None:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    sql(f"CREATE DATABASE {name}", f"USE {name}", "CREATE TABLE kept (id INT PRIMARY KEY)")
    flow = Flow(
        name=name,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{name}.kept",), snapshot="never"),
        sinks=(Kafka(conn_id="kafka_east", topic=name),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
    )
    world.run(flow)
    real = MysqlBinlogSource.tables_gone

    def counted(source: MysqlBinlogSource, *given: Any) -> Any:
        asked.append(time.monotonic())
        return real(source, *given)

    monkeypatch.setattr(MysqlBinlogSource, "tables_gone", counted)

    def on_and_on() -> None:
        while not stop.wait(0.4):
            sql("INSERT INTO kept VALUES (1)", "TRUNCATE kept", "ALTER TABLE kept COMMENT 'x'")
            sql("CREATE TABLE other (id INT)", "DROP TABLE other")

    other = threading.Thread(target=on_and_on)
    other.start()
    try:
        world.run(flow, until_caught_up=False, max_seconds=12)
    finally:
        stop.set()
        other.join()
    assert 1 <= len(asked) <= 3  # as the window begins, in its middle, and as it ends
    sql(f"DROP DATABASE {name}")
    connection.close()
