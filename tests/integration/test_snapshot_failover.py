"""A failover in the middle of a snapshot: it goes on at the server that took over, each row once, none missing."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog, SnapshotOptions
from databus.core.positions.offsets import BinlogOffset
from databus.demo.consumers import topic_records
from databus.ops.services import open_services
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.replicated_pair import Pair, Server

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROWS = 600
CHUNK = 100


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka"), tmp_path_factory.mktemp("snapshot_failover"))


def executed(server: Server) -> str:
    variable = {"mysql": "gtid_executed", "mariadb": "gtid_binlog_pos"}[server.flavor]
    return str(server.sql(f"SELECT @@GLOBAL.{variable}")[0][0])


def state_of(world: OneProcessWorld, topic: str) -> tuple[dict[int, int], Counter[int], Counter[str]]:
    """Return what the records add up to, how often each row came as it stood, and each event id."""
    state: dict[int, int] = {}
    read, ids = Counter[int](), Counter[str]()
    for key, value in topic_records(world.sandbox.address("kafka"), topic):
        if value is None:
            continue
        record, number = json.loads(value), json.loads(key or b"")["id"]
        ids[record["source"]["event_id"]] += 1
        if record["op"] == "d":
            state.pop(number, None)  # a row that was not read yet is known by its change alone
            continue
        read[number] += record["op"] == "r"
        state[number] = record["after"]["v"]
    return state, read, ids


def test_a_snapshot_goes_on_at_the_server_that_took_over(
    flavor: str, world: OneProcessWorld, pair_of: Callable[[str], Pair]
) -> None:
    pair = pair_of(flavor)
    pair.reset()
    name = f"sf{os.getpid()}_{flavor}"
    conn_id = f"{name}_db"

    def point_at(server: Server) -> None:
        at = server.connection
        found = {"conn_type": "mysql", "host": at.host, "port": at.port, "login": at.login}
        world.environment[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(found)

    values = ", ".join(f"({number}, 0)" for number in range(ROWS))
    pair.source.sql(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT NOT NULL)",
        f"INSERT INTO {name}.t VALUES {values}",
    )
    flow = Flow(
        name=name,
        source=MysqlBinlog(
            conn_id=conn_id,
            tables=(f"{name}.*",),
            snapshot="initial",
            snapshot_options=SnapshotOptions(chunk_rows=CHUNK),
        ),
        sinks=(Kafka(conn_id="kafka_east", topic=name, partitions=2, slots=2),),
        batching=Batching(max_rows=CHUNK, max_wait=timedelta(seconds=0.2)),
    )
    pair.link()
    point_at(pair.source)
    world.run(flow, max_batches=3)
    first, _, _ = state_of(world, name)
    assert 0 < len(first) < ROWS
    # Rows before the cursor and behind it change, and keys move over it; the flow has not seen it when the source goes.
    for statement in (
        f"UPDATE {name}.t SET v = 1 WHERE id IN (3, {ROWS - 3})",
        f"UPDATE {name}.t SET id = {ROWS + 5}, v = 1 WHERE id = 5",
        f"UPDATE {name}.t SET id = -7, v = 1 WHERE id = {ROWS - 7}",
        f"DELETE FROM {name}.t WHERE id IN (9, {ROWS - 9})",
    ):
        pair.source.sql(statement)
    pair.replica_has(executed(pair.source))
    pair.promote()
    pair.replica.sql(
        f"UPDATE {name}.t SET v = v + 2 WHERE id IN (3, 11, {ROWS - 11})",
        f"INSERT INTO {name}.t VALUES ({ROWS + 1}, 2)",
    )
    point_at(pair.replica)
    world.run(flow)

    state, read, ids = state_of(world, name)
    assert state == dict(pair.replica.sql(f"SELECT id, v FROM {name}.t"))
    assert max(ids.values()) == 1
    assert max(read.values()) == 1
    with open_services(flow, world.connections, world.settings) as services:
        snapshot, checkpoint = services.store.snapshot(flow.name), services.store.load(flow.name)
    assert snapshot is not None
    assert [(table.state, table.rows) for table in snapshot.tables] == [("done", sum(read.values()))]
    assert checkpoint is not None
    assert isinstance(checkpoint.offset, BinlogOffset)
    assert checkpoint.offset.file.startswith("promoted-bin.")
