"""Columns named like a plain row's own members, on real servers: nothing is written before they have other names."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, DropColumns, Flow, Kafka, MysqlBinlog, RenameColumns
from databus.core.errors import ConfigError, SinkSettingError
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = pytest.mark.integration


def _members(value: bytes) -> list[str]:
    found: list[list[str]] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        found.append([name for name, _ in pairs])

    json.loads(value, object_pairs_hook=note)
    return found[-1]


def test_a_plain_row_has_no_member_twice(started: Started, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = OneProcessWorld(started("zookeeper", "mysql", "kafka"), tmp_path_factory.mktemp("reserved"))
    name = f"reserved_{os.getpid()}"
    connection = world.sql()
    run_sql(
        connection,
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
        f"INSERT INTO {name}.t VALUES (0)",
    )
    flow = Flow(
        name=name,
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{name}.*",), snapshot="never"),
        sinks=(Kafka(conn_id="kafka_east", topic=name + ".{table}", envelope="row"),),
        checks=(),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
    )
    run_sql(connection, f"CREATE TABLE {name}.mine (id INT PRIMARY KEY, __op VARCHAR(5), __deleted INT)")
    with pytest.raises(ConfigError, match=r"mine has the columns __deleted, __op, and sink kafka") as told:
        world.run(flow)  # before its first row
    assert told.value.code == "sink_reserved_column"
    run_sql(connection, f"DROP TABLE {name}.mine")
    world.run(flow)
    run_sql(
        connection,
        f"CREATE TABLE {name}.mine (id INT PRIMARY KEY, __op VARCHAR(5), __deleted INT)",
        f"INSERT INTO {name}.mine VALUES (1, 'own', 7)",
        f"INSERT INTO {name}.t VALUES (1)",
    )
    standing = world.checkpoint(flow)
    with pytest.raises(SinkSettingError, match=r"mine has the columns __deleted, __op, and sink kafka") as refused:
        world.run(flow)  # in its batch
    assert refused.value.code == "sink_reserved_column"
    assert world.checkpoint(flow) == standing
    ways = (
        RenameColumns({"__op": "op"}, tables=(f"{name}.mine",)),
        DropColumns("__deleted", tables=(f"{name}.mine",)),
    )
    world.run(flow.model_copy(update={"transforms": ways}))
    (message,) = consume(world.sandbox.address("kafka"), f"{name}.mine")
    assert _members(message.value()) == ["id", "op", "__op", "__deleted", "__ts_ms", "__event_id"]
    run_sql(connection, f"DROP DATABASE {name}")
    connection.close()
