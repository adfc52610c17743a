"""Statements on tables without a row in their batch, on real servers: topics are made and pinned as for rows."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pymysql
import pytest
from confluent_kafka.admin import AdminClient

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.core.errors import SinkOutputChangedError, SinkSettingError
from databus.runtime import plan as plan_module
from databus.sandbox.accounts import ROOT
from databus.sinks.kafka.topics import standing as standing_module
from tests.integration.conftest import Started, World
from tests.integration.kafka_target import consume, forget_kept, wait_until
from tests.integration.one_process import OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = pytest.mark.integration

HASTY = {"topic.metadata.propagation.max.ms": 1_000}
"""librdkafka gives an unknown topic 30 seconds."""


class Tables:
    """A database of the test's own, a flow over it, and its topics `<name>.<table>`."""

    def __init__(self, world: World, name: str, server: str = "mysql", **sink: Any):
        self.world, self.name = world, name
        host, port = world.sandbox.address(server).split(":")
        self.connection = pymysql.connect(host=host, port=int(port), user=ROOT.user, autocommit=True)
        self.sql = partial(run_sql, self.connection)
        self.sql(f"DROP DATABASE IF EXISTS {name}")
        status = "SHOW BINLOG STATUS" if server == "mariadb" else "SHOW MASTER STATUS"
        file, position, *_ = self.sql(status)[0]
        self.flow = Flow(
            name=name,
            source=MysqlBinlog(
                conn_id="mariadb_shop" if server == "mariadb" else "mysql_shop",
                flavor=server,  # type: ignore[arg-type] # one of its two
                tables=(f"{name}.*",),
                start=f"{file}:{position}",
            ),
            sinks=(Kafka(conn_id="kafka_east", topic=name + ".{table}", producer=HASTY, **sink),),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )
        self.servers = world.sandbox.address("kafka")
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def run(self) -> None:
        forget_kept()
        self.world.run(self.flow)

    def topics(self) -> list[str]:
        there = self.admin.list_topics(timeout=20).topics
        return sorted(name.removeprefix(f"{self.name}.") for name in there if name.startswith(f"{self.name}."))

    def ops(self, table: str) -> Counter[str]:
        values = [message.value() for message in consume(self.servers, f"{self.name}.{table}")]
        return Counter(json.loads(value)["op"] for value in values if value is not None)

    def known(self) -> list[str]:
        """Return the tables whose topics the checkpoint knows by their ids."""
        known = self.world.checkpoint(self.flow).output_ids["kafka"]
        assert all(known.values())
        return sorted(name.removeprefix(f"{self.name}.") for name in known)


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), tmp_path_factory.mktemp("named"))


def change(tables: Tables) -> None:
    name = tables.name
    tables.sql(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
        f"CREATE TABLE {name}.empty (id INT PRIMARY KEY)",
        f"INSERT INTO {name}.t VALUES (1)",
        f"TRUNCATE TABLE {name}.empty",
        f"INSERT INTO {name}.t VALUES (2)",
    )


def test_a_truncate_of_a_table_that_never_had_a_row(world: OneProcessWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables(world, "named_truncate")
    change(tables)
    tables.run()
    assert tables.topics() == tables.known() == ["empty", "t"]
    assert (tables.ops("empty"), tables.ops("t")) == ({"t": 1}, {"c": 2})
    # Alone in its batch, and known by now.
    tables.sql(f"TRUNCATE TABLE {tables.name}.empty")
    tables.run()
    assert tables.ops("empty") == {"t": 2}
    # It was written to, so it is not made again without a person.
    monkeypatch.setattr(standing_module, "_PAUSES_S", (0.5, 0.5))
    for deleted in tables.admin.delete_topics([f"{tables.name}.empty"]).values():
        deleted.result(20)
    wait_until(lambda: tables.topics() == ["t"], "the topic is gone")
    tables.sql(f"TRUNCATE TABLE {tables.name}.empty")
    with pytest.raises(SinkOutputChangedError, match=r"topic named_truncate\.empty .* was deleted, none is there now"):
        tables.run()
    assert tables.topics() == ["t"]


def _definitions(tables: Tables) -> None:
    change(tables)
    name = tables.name
    tables.run()
    assert tables.topics() == tables.known() == ["_ddl", "empty", "t"]
    assert (tables.ops("empty"), tables.ops("t"), tables.ops("_ddl")) == ({"m": 1, "t": 1}, {"m": 1, "c": 2}, {"m": 1})
    tables.sql(
        f"CREATE TABLE {name}.made (id INT PRIMARY KEY)",
        f"ALTER TABLE {name}.made ADD v INT",
        f"RENAME TABLE {name}.made TO {name}.renamed",
        f"CREATE TABLE {name}.short (id INT PRIMARY KEY)",
        f"DROP TABLE {name}.short, {name}.renamed",
    )
    tables.run()
    assert tables.topics() == tables.known() == ["_ddl", "empty", "made", "renamed", "short", "t"]
    counted = {table: tables.ops(table)["m"] for table in ("made", "renamed", "short")}
    assert counted == {"made": 3, "renamed": 1, "short": 2}


def test_definitions_of_tables_without_rows(world: OneProcessWorld) -> None:
    _definitions(Tables(world, "named_ddl", ddl=True, partitions=3, slots=2))


@pytest.mark.timeout(300)
def test_definitions_of_tables_without_rows_from_mariadb(world: OneProcessWorld, started: Started) -> None:
    started("mariadb")
    _definitions(Tables(world, "named_mariadb", "mariadb", ddl=True))


@pytest.mark.parametrize("profile", ["exactly_once", "at_least_once"])
def test_a_batch_that_an_older_databus_planned_names_the_topic_and_goes_on(
    world: OneProcessWorld, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    tables = Tables(world, f"named_{profile}", profile=profile)
    change(tables)
    with monkeypatch.context() as older:
        older.setattr(plan_module, "outputs_named", lambda *_: ())
        with pytest.raises(SinkSettingError, match=rf"cannot produce to {tables.name}\.empty"):
            tables.run()
        with pytest.raises(SinkSettingError, match=rf"cannot produce to {tables.name}\.empty"):
            tables.run()
    assert tables.topics() == ["t"]
    tables.run()
    assert tables.topics() == ["empty", "t"]
    assert tables.ops("empty") == {"t": 1}
    assert set(tables.ops("t")) == {"c"}
