"""A transaction that is logged by statement stops a flow in front of it, by name, and can be passed."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.core.errors import DecodeError
from databus.core.state.backfill import Aim, Mode
from databus.demo.consumers import topic_records
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.ledger.verify import verify
from databus.ops.services import open_services
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.backfills import run_range
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
    source = MysqlBinlog(conn_id="mysql_shop", tables=(f"{name}.t",), snapshot="never")
    flow = Flow(
        name=name,
        source=source,
        sinks=(Kafka(conn_id="kafka_east", topic=name),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
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
            mediation.execute(flow, services, "skip", place, Attribution("ada", "another database"))
        world.run(flow)
        assert ids() == list(range(n + 2))
    sql(f"DROP DATABASE {name}", f"DROP DATABASE {name}_other")
    forget_log_of(connection)
    connection.close()


def _here(connection: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        file, size = cursor.fetchall()[-1][:2]
    return f"{file}:{size}"


def test_one_that_was_passed_fails_neither_the_ledger_nor_a_backfill_and_one_that_was_not_is_asked_about(
    started: Started, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world: Any = OneProcessWorld(started("zookeeper", "mysql", "kafka"), tmp_path_factory.mktemp("passed"))
    name = f"passed_statement_{os.getpid()}"
    connection = world.sql()
    sql = partial(run_sql, connection)
    sql(f"CREATE DATABASE {name}", f"USE {name}", "CREATE TABLE t (id INT PRIMARY KEY)")

    def insert(row: int, how: str) -> None:
        sql(f"SET SESSION binlog_format = '{how}'", f"INSERT INTO t VALUES ({row})")

    before = _here(connection)
    insert(1, "ROW")
    insert(2, "STATEMENT")
    insert(3, "ROW")
    flow = Flow(
        name=name,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{name}.t",), start="latest"),
        sinks=(Kafka(conn_id="kafka_east", topic=name, topic_config={"cleanup.policy": "compact"}),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
    )
    world.run(flow)
    began = _here(connection)
    insert(4, "ROW")
    insert(5, "STATEMENT")
    insert(6, "ROW")
    with pytest.raises(DecodeError, match="changes rows by statement") as stopped:
        world.run(flow)
    behind = stopped.value.hint.partition("checkpoint skip ")[2].split()[1]

    def ids(topic: str = name) -> list[int]:
        records = topic_records(world.sandbox.address("kafka"), topic)
        return [json.loads(key)["id"] for key, _ in records if key]

    with open_services(flow, world.connections, world.settings) as services:
        assert verify(flow, services, None).problems == ()  # in front of it
        mediation.execute(flow, services, "skip", Target(place=behind), Attribution("ada", "set right by hand"))
        world.run(flow)
        insert(7, "ROW")
        mediation.execute(flow, services, "skip", Target(place="latest"), Attribution("ada", "in a hurry"))
        verified = verify(flow, services, None)
        assert verified.problems == ()
        rewind = mediation.preview(flow, services, "rewind", Target(place=began))
        assert (rewind.passed.rows[f"{name}.t"], rewind.passed.complete) == (2, True)
        assert f"{name} is compacted" in rewind.effects[0].refused
        assert any(what.endswith(f", {behind}] was passed over, not moved: skip") for _, what in verified.looked_at)
    assert ids() == [4, 6]
    now = _here(connection)
    missing = run_range(world, flow, began, now, Aim(Mode.MISSING), consents=True)
    assert (missing.done, ids()) == (True, [4, 6, 7])
    assert [str(gap.end) for piece in missing.pieces for gap in piece.passed] == [behind]
    replayed = run_range(world, flow, began, now, Aim(Mode.REPLAY, ".again"))
    assert (replayed.done, ids(f"{name}.again")) == (True, [4, 6, 7])
    with pytest.raises(DecodeError, match="changes rows by statement") as stopped:
        run_range(world, flow, before, now, Aim(Mode.MISSING), consents=True)
    assert "--past-statements" in stopped.value.hint
    assert run_range(world, flow, before, now, Aim(Mode.MISSING), consents=True, passes=True).done
    assert ids() == [4, 6, 7, 1, 3]
    sql(f"DROP DATABASE {name}")
    connection.close()
