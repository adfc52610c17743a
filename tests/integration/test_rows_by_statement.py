"""A transaction that is logged by statement stops a flow in front of it, by name, and can be passed."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.core.errors import DecodeError
from databus.demo.consumers import topic_records
from databus.ops import mediation
from databus.ops.mediation import Said
from databus.ops.services import open_services
from databus.ops.targets import Target
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.binlog_shop import Shop
from tests.integration.conftest import Started
from tests.integration.followed_hints import advised, forget_log, forget_log_of
from tests.integration.one_process import OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = pytest.mark.integration


def test_a_range_ends_before_it_and_the_place_behind_it_is_one_to_start_at(shop: Shop) -> None:
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)",
        f"CREATE TABLE {shop.name}.z (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        f"INSERT INTO {shop.name}.t VALUES (1)",
        "SET SESSION binlog_format = 'STATEMENT'",
        f"INSERT INTO {shop.name}.z (v) VALUES (1)",
        "SET SESSION binlog_format = 'ROW'",
        f"INSERT INTO {shop.name}.t VALUES (2)",
    )
    source = shop.open((f"{shop.name}.t",))
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    assert [json.loads(row["key"])["id"] for row in rows_of(source, plan) if row["op"] == "c"] == [1]
    with pytest.raises(DecodeError, match=r"INSERT INTO .*: changes rows by statement \(transaction ") as stopped:
        source.plan(plan.range.end, EVERYTHING)
    assert str(plan.range.end) in stopped.value.message
    assert source.lag(plan.range.end).bytes
    behind = advised(stopped.value)
    source.close()
    source = shop.open((f"{shop.name}.t",), start=behind)
    rest = source.plan(source.start_offset(), EVERYTHING)
    assert rest is not None
    assert [json.loads(row["key"])["id"] for row in rows_of(source, rest)] == [2]
    source.close()
    forget_log(shop)


def test_a_run_delivers_what_came_before_it_and_goes_on_behind_a_skip(
    started: Started, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = OneProcessWorld(started("zookeeper", "mysql", "kafka"), tmp_path_factory.mktemp("by_statement"))
    name = f"by_statement_{os.getpid()}"
    connection = world.sql()
    sql = partial(run_sql, connection)
    sql(f"CREATE DATABASE {name}", f"CREATE DATABASE {name}_other", f"USE {name}")
    sql("CREATE TABLE t (id INT PRIMARY KEY)", f"CREATE TABLE {name}_other.z (v INT)")
    source = MysqlBinlog(conn_id="mysql_shop", tables=(f"{name}.t",))
    flow = Flow(
        name=name,
        source=source,
        sinks=(Kafka(conn_id="kafka_east", topic=name),),
        batching=Batching(max_seconds=0.2),
    )

    def ids() -> list[int]:
        return [json.loads(key or b"{}")["id"] for key, _ in topic_records(world.sandbox.address("kafka"), name)]

    world.run(flow)
    sql("SET @a = 1", "INSERT INTO t VALUES (0)")
    for n, statement in enumerate(
        ("INSERT INTO {0}.z VALUES (@a)", "CREATE TABLE {0}.y AS SELECT @a", "DELETE FROM {0}.y")
    ):
        sql("SET SESSION binlog_format = 'STATEMENT'", statement.format(f"{name}_other"))
        sql("SET SESSION binlog_format = 'ROW'", f"INSERT INTO t VALUES ({n + 1})")
        with pytest.raises(DecodeError, match="changes rows by statement") as stopped:
            world.run(flow)
        assert ids() == list(range(n + 1))
        with open_services(flow, world.connections, world.settings) as services:
            place = Target(place=advised(stopped.value))
            mediation.execute(flow, services, "skip", place, Said("ada", "another database"))
        world.run(flow)
        assert ids() == list(range(n + 2))
    sql(f"DROP DATABASE {name}", f"DROP DATABASE {name}_other")
    forget_log_of(connection)
    connection.close()
