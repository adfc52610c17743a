"""A client that logs less than the whole row, before a flow for each partition: right where it is, or held by name."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from databus import Batching, Flow, HashPartition, Kafka, MysqlBinlog
from databus.ops.quarantine import show as quarantine
from databus.ops.services import open_services
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import Selection
from databus.rows.murmur2 import murmur2
from tests.integration.conftest import World
from tests.integration.kafka_target import consume
from tests.integration.one_process import run_locally

pytestmark = pytest.mark.integration

PARTITIONS = 2


def _partition(value: str) -> int:
    return (murmur2(json.dumps({"v": value}, separators=(",", ":")).encode()) & 0x7FFFFFFF) % PARTITIONS


def test_a_row_that_may_have_left_its_partition_is_held_there(world: World, database: str) -> None:
    here, there = (next(v for v in "abcdefgh" if _partition(v) == n) for n in range(PARTITIONS))
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(10) DEFAULT 'x', n INT DEFAULT 0)")
        for number in range(1, 6):
            cursor.execute("INSERT INTO orders VALUES (%s, %s, 0)", (number, here))
        cursor.execute("UPDATE orders SET v = %s WHERE id = 1", (there,))
        cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
        cursor.execute("UPDATE orders SET v = %s WHERE id = 2", (there,))
        cursor.execute("UPDATE orders SET n = 1 WHERE id = 3")
        cursor.execute("DELETE FROM orders WHERE id = 4")
        cursor.execute("INSERT INTO orders (id) VALUES (6)")
    told = []
    for number in range(PARTITIONS):
        name = f"{database}_{number}"
        by_hash = HashPartition(tables=f"{database}.*", columns=("v",), partitions=PARTITIONS, keep=(number,))
        flow = Flow(
            name=name,
            source=MysqlBinlog(
                conn_id="mysql_shop", tables=(f"{database}.*",), start=f"{file}:{position}", row_filters=(by_hash,)
            ),
            sinks=(Kafka(conn_id="kafka_east", topic=name),),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )
        run_locally(world, flow)
        with open_services(flow, world.connections, world.settings) as services:
            held = quarantine.select(flow, services, Selection(HeldState.HELD))
        messages = [m for m in consume(world.sandbox.address("kafka"), name) if m.value()]
        seen = sorted((json.loads(m.value())["op"], json.loads(m.key())["id"]) for m in messages)
        assert {row.cause for row in held} == {"row_filter_lacks(v)"}
        told.append((seen, sorted(json.loads(row.key or "")["id"] for row in held)))
    created = [("c", number) for number in range(1, 6)]
    assert told[0] == ([*created, ("d", 1)], [2, 3, 4, 6])
    assert told[1] == ([("c", 1), ("u", 2)], [3, 4, 6])
