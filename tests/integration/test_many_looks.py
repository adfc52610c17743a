"""Hundreds of flows that wait cost their servers a handful of connections."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psutil
import pytest

from databus import Flow, Kafka, MysqlBinlog
from databus.core.errors import CheckpointError
from databus.ops.health.head import HeadLook
from databus.ops.health.status import FlowLook
from databus.sources.mysql.tables import changes as mysql_table_changes
from databus.testing.zookeeper_proxy import ZooKeeperProxy
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration]

FLOWS = 60


def flows(database: str, count: int, **options: str) -> list[Flow]:
    return [
        Flow(
            name=f"{database}_{number}",
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.t_{number}",)),
            sinks=(Kafka(conn_id="kafka_east", topic=f"{database}_{number}"),),
            **options,
        )
        for number in range(count)
    ]


class Opened:
    """The connections to a server that this process opened since: what earlier tests left may end at any time."""

    def __init__(self, world: World, server: str) -> None:
        self._port = int(world.sandbox.address(server).rpartition(":")[2])
        self._before = self._local_ports()

    def count(self) -> int:
        return len(self._local_ports() - self._before)

    def _local_ports(self) -> set[int]:
        held = psutil.Process(os.getpid()).net_connections("tcp")
        return {c.laddr.port for c in held if c.raddr and c.raddr.port == self._port}


def begun(world: World, made: list[Flow]) -> None:
    """Give each flow a first checkpoint at the head of the log."""
    with FlowLook(made[0], world.connections, world.settings) as look:
        head, store = look.source().latest_offset(), look.store
        for flow in made:
            lease = store.claim(flow.name, "test", 0)
            store.start(flow.name, lease, head, "test")
            lease.release()


def test_waiting_flows_share_their_connections(world: World, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_table_changes, "_READ_EVERY_S", 0.0)
    monkeypatch.setattr(mysql_table_changes, "_shared", {})
    made = flows(database, FLOWS)
    mysql, zookeeper = Opened(world, "mysql"), Opened(world, "zookeeper")
    begun(world, made)
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        looks = [HeadLook(flow, world.connections, world.settings) for flow in made]
        for look in looks:
            stack.callback(look.close)
        assert not any(place.has_changes for place in pool.map(HeadLook.change, looks))
        with world.sql() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {database}.t_7 (id INT PRIMARY KEY)")
            cursor.execute(f"INSERT INTO {database}.t_7 VALUES (1)")
        changed = [place.has_changes for place in pool.map(HeadLook.change, looks)]
        assert [number for number, has in enumerate(changed) if has] == [7]
        assert mysql.count() == 0
        assert zookeeper.count() == 1
    assert (mysql.count(), zookeeper.count()) == (0, 0)


def test_a_watchdog_of_many_flows_keeps_one_connection_to_zookeeper_and_none_to_mysql(
    world: World, database: str
) -> None:
    made = flows(database, FLOWS)
    mysql, zookeeper = Opened(world, "mysql"), Opened(world, "zookeeper")
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        looks = [stack.enter_context(FlowLook(flow, world.connections, world.settings)) for flow in made]
        for _ in range(2):
            assert [figures.unreachable for figures in pool.map(FlowLook.look, looks)] == [{}] * FLOWS
        assert mysql.count() == 0
        assert zookeeper.count() == 1
    assert (mysql.count(), zookeeper.count()) == (0, 0)


def test_looks_go_on_when_zookeeper_comes_back(world: World, database: str) -> None:
    host, _, port = world.sandbox.address("zookeeper").rpartition(":")
    with ZooKeeperProxy(host, int(port)) as proxy, ExitStack() as stack:
        extra = {"session_timeout_s": 4, "operation_timeout_s": 1, "connect_timeout_s": 2}
        conn_id = world.override("zookeeper_default", port=proxy.port, extra=extra)
        looks = [
            HeadLook(flow, world.connections, world.settings) for flow in flows(database, 3, zookeeper_conn_id=conn_id)
        ]
        for look in looks:
            stack.callback(look.close)
        assert [look.change().committed for look in looks] == [""] * 3
        proxy.go_down()
        for look in looks:
            with pytest.raises(CheckpointError):
                look.change()
        proxy.come_back()
        for _ in range(30):
            try:
                assert [look.change().committed for look in looks] == [""] * 3
            except CheckpointError:
                continue
            return
        pytest.fail("ZooKeeper is back, and the looks do not reach it")
