"""Tables whose names become one topic's only because Kafka takes few characters: refused, also batches apart."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.core.errors import ConfigError, SinkSettingError
from databus.ops.checkpoint import accept
from databus.ops.checkpoint.amend import Attribution
from databus.ops.services import open_services
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume, event_id
from tests.integration.one_process import OneProcessWorld

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), tmp_path_factory.mktemp("shared"))


def tables_of(world: OneProcessWorld, name: str) -> tuple[Flow, Any]:
    """A flow of a database of its own with a topic for each table, and a cursor."""
    cursor = world.sql().cursor()
    cursor.execute(f"CREATE DATABASE {name}")
    cursor.execute("SHOW MASTER STATUS")
    file, position = cursor.fetchone()[:2]
    source = MysqlBinlog(conn_id="mysql_shop", tables=(f"{name}.*",), start=f"{file}:{position}")
    sinks = (Kafka(conn_id="kafka_east", topic="{route}", tombstones=False),)
    return Flow(name=name, source=source, sinks=sinks, batching=Batching(max_wait=timedelta(seconds=0.2))), cursor


def insert(cursor: Any, table: str, number: int) -> None:
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY)")
    cursor.execute(f"INSERT INTO {table} VALUES ({number})")


@pytest.mark.parametrize(("first", "second"), [("or$ders", "or_ders"), ("or_ders", "or$ders")])
def test_the_second_is_refused_until_it_may_have_the_topic(
    world: OneProcessWorld, first: str, second: str, tmp_path: Path
) -> None:
    name = f"shared_{first.replace('$', 'd')}"
    topic = f"{name}.or_ders"
    flow, cursor = tables_of(world, name)
    insert(cursor, f"{name}.`{first}`", 1)
    world.run(flow)
    stood = world.checkpoint(flow)
    assert stood.output_names == ({"kafka": {topic: f"{name}.or$ders"}} if "$" in first else {})
    insert(cursor, f"{name}.`{second}`", 2)
    for _ in range(2):
        with pytest.raises(SinkSettingError, match="would share the topic") as refused:
            world.run(flow)
        assert refused.value.code == "sink_topic_shared"
        assert f"{name}.{first}" in refused.value.message
        assert f"{name}.{second}" in refused.value.message
    assert world.checkpoint(flow).offset == stood.offset
    servers = world.sandbox.address("kafka")
    assert len(consume(servers, topic)) == 1
    with open_services(flow, world.connections, world.settings) as services:
        with pytest.raises(ConfigError, match="knows no output other"):
            accept.preview(flow, services, ["other"])
        (found,) = accept.execute(flow, services, Attribution("ada", f"{first} was renamed"), [topic])
    assert [output.output for output in found.outputs] == [topic]
    world.run(flow)
    assert len({event_id(message) for message in consume(servers, topic)}) == 2
    insert(cursor, f"{name}.`{first}`", 3)
    with pytest.raises(SinkSettingError, match="would share the topic"):
        world.run(flow)
