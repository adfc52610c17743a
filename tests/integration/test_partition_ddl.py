"""Statements on partitions take rows away that no row event tells: a run says so, or stops in front of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.core.errors import UnloggedChangeError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.demo.consumers import topic_records
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.runs.view import run_view
from databus.ops.services import open_services
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.binlog_shop import Shop
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = pytest.mark.integration

PARTITIONS = "PARTITION BY RANGE (id) (" + ", ".join(f"PARTITION p{n} VALUES LESS THAN ({n}0)" for n in (1, 2, 3)) + ")"
STATEMENTS = (
    "ALTER TABLE {db}.t DROP PARTITION p1",
    "alter table `{db}`.`t` /* old */ TRUNCATE PARTITION p2",
    "ALTER TABLE {db}.t EXCHANGE PARTITION p3 WITH TABLE {db}.other",
)


def filled(shop: Shop) -> list[str]:
    """Make a table of three partitions with a row each, then change them; return the statements that tell no rows."""
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v INT) {PARTITIONS}",
        f"CREATE TABLE {shop.name}.other (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE {shop.name}.marks (id INT PRIMARY KEY)",
        f"INSERT INTO {shop.name}.t VALUES (1, 1), (11, 1), (21, 1)",
    )
    statements = [text.format(db=shop.name) for text in STATEMENTS]
    if shop.flavor == "mariadb":
        statements.append(f"ALTER TABLE {shop.name}.t CONVERT PARTITION p3 TO TABLE {shop.name}.converted")
        statements.append(f"ALTER IGNORE TABLE {shop.name}.other ADD UNIQUE KEY (v)")
    for number, statement in enumerate(statements):
        shop.sql(statement, f"INSERT INTO {shop.name}.marks VALUES ({100 + number})")
    assert shop.sql(f"SELECT COUNT(*) FROM {shop.name}.t") == [(0,)]
    return [" ".join(text.split()) for text in statements]


def heads(plan: SourcePlan) -> list[str]:
    return [change.statement for change in plan.unlogged]


@pytest.mark.parametrize("decoder", ["numba", "library"])
def test_they_are_events_and_are_told_with_their_range(
    make_shop: Callable[[str, str], Shop], flavor: str, decoder: str
) -> None:
    shop = make_shop(flavor, decoder)
    statements = filled(shop)
    tables = tuple(f"{shop.name}.{name}" for name in ("t", "other", "marks"))
    source = shop.open(tables)
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    assert heads(plan) == statements
    assert plan.unlogged[0].tables == (tables[0],)
    assert plan.unlogged[2].tables == tables[:2]
    rows = rows_of(source, plan)
    told = [" ".join(str(row["statement"]).split()) for row in rows if row["op"] == "m"]
    assert [text for text in told if text in statements] == statements
    deleted = [row for row in rows if row["op"] == "d"]
    assert deleted == []
    assert heads(source.reopen(plan.range)) == heads(plan)
    source.close()
    # Tables that they do not touch are not told of.
    source = shop.open((f"{shop.name}.elsewhere",))
    other = source.plan(shop.begin, EVERYTHING)
    assert other is not None
    assert other.unlogged == ()
    source.close()


def test_a_flow_that_is_to_stops_before_each_of_them(shop: Shop) -> None:
    statements = filled(shop)
    tables = tuple(f"{shop.name}.{name}" for name in ("t", "other", "marks"))
    at: BinlogOffset = shop.begin
    delivered: list[int] = []
    for statement in statements:
        source = shop.open(tables, on_partition_ddl="fail")
        plan = source.plan(at, EVERYTHING)
        assert plan is not None
        assert plan.unlogged == ()
        delivered += [json.loads(row["key"])["id"] for row in rows_of(source, plan) if row["op"] == "c"]
        with pytest.raises(UnloggedChangeError) as stopped:
            source.plan(plan.range.end, EVERYTHING)
        assert statement in " ".join(stopped.value.message.split())
        assert stopped.value.code == "source_partition_ddl"
        behind = stopped.value.hint.partition("checkpoint skip ")[2].split()[1]
        at = shop.open(tables, start=behind).start_offset()
        source.close()
    source = shop.open(tables, on_partition_ddl="fail")
    last = source.plan(at, EVERYTHING)
    assert last is not None
    delivered += [json.loads(row["key"])["id"] for row in rows_of(source, last) if row["op"] == "c"]
    assert delivered == [1, 11, 21, *range(100, 100 + len(statements))]
    # A range that is given, as a backfill's is, is moved whole.
    whole = source.plan_exactly(OffsetRange(shop.begin, last.range.end))
    assert len(whole.unlogged) == len(statements)
    source.close()


def test_a_run_stops_and_goes_on_behind_it_and_another_is_warned(
    started: Started, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    world = OneProcessWorld(started("zookeeper", "mysql", "kafka"), tmp_path_factory.mktemp("partitions"))
    database = f"partitions_{os.getpid()}"
    connection = world.sql()
    sql = partial(run_sql, connection)
    sql(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}")
    file, position = sql("SHOW MASTER STATUS")[0][:2]
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT) {PARTITIONS}")

    def flow(name: str, **source: Any) -> Flow:
        binlog = MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.t",), start=f"{file}:{position}", **source)
        sinks = (Kafka(conn_id="kafka_east", topic=name),)
        return Flow(name=name, source=binlog, sinks=sinks, batching=Batching(max_wait=timedelta(seconds=0.2)))

    def ids(name: str) -> list[int]:
        return [json.loads(key or b"{}")["id"] for key, _ in topic_records(world.sandbox.address("kafka"), name)]

    stops, goes_on = flow(f"{database}_stops", on_partition_ddl="fail"), flow(f"{database}_goes_on")
    sql("INSERT INTO t VALUES (1, 1), (11, 1)", "ALTER TABLE t DROP PARTITION p1", "INSERT INTO t VALUES (21, 1)")
    with pytest.raises(UnloggedChangeError, match="ALTER TABLE t DROP PARTITION p1"):
        world.run(stops)
    assert ids(stops.name) == [1, 11]
    stands = world.checkpoint(stops)
    with pytest.raises(UnloggedChangeError) as stopped:
        world.run(stops)
    assert world.checkpoint(stops).offset == stands.offset
    behind = stopped.value.hint.partition("checkpoint skip ")[2].split()[1]
    with open_services(stops, world.connections, world.settings) as services:
        mediation.execute(
            stops, services, "skip", Target(place=behind), Attribution("ada", "rows of p1 are out of the sinks")
        )
    world.run(stops)
    assert ids(stops.name) == [1, 11, 21]
    result = world.run(goes_on)
    assert ids(goes_on.name) == [1, 11, 21]
    assert f"check partition_ddl({database}.t) (warn)" in caplog.text
    (told,) = result.summary()["changed_without_row_events"][f"{database}.t"]
    assert told.startswith("ALTER TABLE t DROP PARTITION p1 (")
    viewed = run_view(goes_on.name, result.checkpoint.run_id, world.settings)
    assert viewed is not None
    (shown,) = [check for check in viewed["checks"] if check["check"] == f"partition_ddl({database}.t)"]
    assert (shown["severity"], shown["violations"]) == ("warn", 1)
    assert "ALTER TABLE t DROP PARTITION p1 (" in shown["observed"]
    sql(f"DROP DATABASE {database}")
    connection.close()


def test_a_sink_that_fell_behind_catches_up_over_one_that_the_flow_has_passed(
    started: Started, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = OneProcessWorld(started("zookeeper", "mysql", "kafka"), tmp_path_factory.mktemp("behind"))
    database = f"partitions_behind_{os.getpid()}"
    away = world.override("kafka_east", extra={"bootstrap.servers": "127.0.0.1:1"})
    with world.sql() as connection:
        sql = partial(run_sql, connection)
        sql(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}")
        file, position = sql("SHOW MASTER STATUS")[0][:2]
        sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT) {PARTITIONS}")

        def flow(on_partition_ddl: Any, second: str = "kafka_east") -> Flow:
            sinks = (
                Kafka(name="first", conn_id="kafka_east", topic=f"{database}.first"),
                Kafka(name="second", conn_id=second, topic=f"{database}.second", timeout=timedelta(seconds=2)),
            )
            tables, start = (f"{database}.t",), f"{file}:{position}"
            source = MysqlBinlog(conn_id="mysql_shop", tables=tables, start=start, on_partition_ddl=on_partition_ddl)
            batching = Batching(max_wait=timedelta(seconds=0.2))
            return Flow(name=database, source=source, sinks=sinks, batching=batching, sink_outage=timedelta(seconds=0))

        def ids(sink: str) -> list[int]:
            records = topic_records(world.sandbox.address("kafka"), f"{database}.{sink}")
            return [json.loads(key or b"{}")["id"] for key, _ in records]

        sql("INSERT INTO t VALUES (1, 1), (11, 1)", "ALTER TABLE t DROP PARTITION p1", "INSERT INTO t VALUES (21, 1)")
        with pytest.raises(UnloggedChangeError):
            world.run(flow("fail"))
        passed = world.run(flow("event", second=away))
        assert list(passed.behind) == ["second"]
        assert (ids("first"), ids("second")) == ([1, 11, 21], [1, 11])

        result = world.run(flow("fail"))
        assert (result.behind, list(result.caught_up)) == ({}, ["second"])
        assert (ids("first"), ids("second")) == ([1, 11, 21], [1, 11, 21])
        sql("ALTER TABLE t DROP PARTITION p2")
        with pytest.raises(UnloggedChangeError, match="DROP PARTITION p2"):  # the next is the flow's again
            world.run(flow("fail"))
        sql(f"DROP DATABASE {database}")
