"""Failover by GTID and row filters through the whole path, to a consumer: nothing lost, twice or out of order.

The oracle: from the versions that SELECT gives on the new server follows every change of every row, hence what each
flow must have delivered, filtered or not; consumers get exactly that, whichever server and lane it came through.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, Flow, HashPartition, Kafka, ModuloPartition, MysqlBinlog, RangePartition
from databus.core.errors import DatabusError, SourceDivergedError, SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset
from databus.runtime.direct.lane import may_be_direct
from tests.integration.conftest import World
from tests.integration.failover_ledger import Keep, Writer, create, everything, expected, seen
from tests.integration.replicated_pair import Pair, Server

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]

PARTITIONS = 4
PATIENCE_S = 240.0
_NUMBERS = itertools.count(1)


class Flows:
    """Flows over one database of a pair of servers; where their connection leads can be changed."""

    def __init__(self, world: World, pair: Pair):
        self.world, self.pair = world, pair
        self.name = f"g{os.getpid()}_{next(_NUMBERS)}"
        self.conn_id = f"{self.name}_db"
        self.flows: list[Flow] = []
        self.kept: dict[str, Keep] = {}
        pair.reset()
        create(pair.source, self.name)
        self.point_at(pair.source)

    def point_at(self, server: Server) -> None:
        at = server.connection
        found = {"conn_type": "mysql", "host": at.host, "port": at.port, "login": at.login}
        self.world.environment[f"AIRFLOW_CONN_{self.conn_id.upper()}"] = json.dumps(found)

    def add(self, suffix: str, lane: str, keep: Keep = everything, *, max_rows: int = 1000, **source: Any) -> Flow:
        name = f"{self.name}_{suffix}"
        flow = Flow(
            name=name,
            source=MysqlBinlog(conn_id=self.conn_id, tables=(f"{self.name}.*",), start="earliest", **source),
            sinks=(Kafka(conn_id="kafka_east", topic=name, partitions=PARTITIONS, slots=2),),
            batching=Batching(max_rows=max_rows, max_wait=timedelta(seconds=0.2)),
            lane=lane,
        )
        assert may_be_direct(flow) is (lane == "auto")
        self.flows.append(flow)
        self.kept[name] = keep
        return flow

    def catch_up(self, flow: Flow) -> None:
        """Run windows until nothing is left; a window that a slow machine cuts short is not taken for a loss."""
        deadline = time.monotonic() + PATIENCE_S
        while self.world.run(flow).lag_bytes != 0:
            assert time.monotonic() < deadline, flow.name

    def offset(self, flow: Flow) -> BinlogOffset:
        offset = self.world.checkpoint(flow).offset
        assert isinstance(offset, BinlogOffset)
        return offset

    def seen(self, flow: Flow) -> Any:
        return seen(self.world.sandbox.address("kafka"), flow.name)

    def check(self, server: Server) -> None:
        """Compare what consumers see with what SELECT says."""
        for flow in self.flows:
            found = self.seen(flow)
            assert dict(found.changes) == expected(server, self.name, self.kept[flow.name]), flow.name
            assert len(found.event_ids) == len(set(found.event_ids))
            assert all(len(partitions) == 1 for partitions in found.partitions.values())


@pytest.fixture
def flows(flavor: str, world: World, pair_of: Callable[[str], Pair]) -> Flows:
    return Flows(world, pair_of(flavor))


def executed(server: Server) -> str:
    variable = {"mysql": "gtid_executed", "mariadb": "gtid_binlog_pos"}[server.flavor]
    return str(server.sql(f"SELECT @@GLOBAL.{variable}")[0][0])


def killed_in_mid_window(flows: Flows, flow: Flow) -> None:
    """Kill the source while a window has batches behind and before it; what it moves until then stays."""
    flavor, failure = flows.pair.source.flavor, []

    def run() -> None:
        try:
            flows.world.run(flow)
        except DatabusError as error:
            failure.append(error)

    window = threading.Thread(target=run)
    window.start()
    deadline = time.monotonic() + PATIENCE_S
    while (checkpoint := flows.world.checkpoint(flow)) is None or checkpoint.batch < 2:
        assert time.monotonic() < deadline, failure
        time.sleep(0.05)
    flows.pair.source.sandbox.kill(flavor)
    window.join(PATIENCE_S)
    assert [type(error) for error in failure] == [SourceUnavailableError], failure


def test_consumers_see_each_change_once_across_a_failover(flows: Flows) -> None:
    pair = flows.pair
    whole = flows.add("all", "auto", max_rows=100)
    by_range = flows.add(
        "range", "spark", lambda _, bucket: 1 <= bucket < 3,
        row_filters=(RangePartition(tables=(f"{flows.name}.t",), column="bucket", lower=1, upper=3),),
    )  # fmt: skip
    by_modulo = flows.add(
        "modulo", "auto", lambda number, _: number % 3 != 1,
        row_filters=(ModuloPartition(tables=f"{flows.name}.t", column="id", modulus=3, remainders=(0, 2)),),
    )  # fmt: skip
    by_hash = flows.add("hash", "spark", row_filters=(HashPartition(tables="*.t", partitions=PARTITIONS, keep=(1, 3)),))
    pair.link()
    writer = Writer(pair.source, flows.name, 1)
    writer.begin(40)
    for flow in (by_range, by_modulo, by_hash):
        flows.world.run(flow, max_batches=1)
        writer.begin(25)
    writer.end()
    pair.replica_has(executed(pair.source))
    try:
        killed_in_mid_window(flows, whole)
        pair.promote()
        former = {flow.name: flows.offset(flow) for flow in flows.flows}
        (last,) = pair.replica.sql(f"SELECT max(id) FROM {flows.name}.t")[0]
        more = Writer(pair.replica, flows.name, int(last) + 1)
        more.begin(30)
        flows.point_at(pair.replica)
        flows.world.run(whole, max_batches=1)
        more.begin(10)
        more.end()
        for flow in flows.flows:
            flows.catch_up(flow)
        # The partitions of a hash filter are those of a Kafka topic.
        partition = {number: next(iter(found)) for number, found in flows.seen(whole).partitions.items()}
        flows.kept[by_hash.name] = lambda number, _: partition[number] in (1, 3)
        flows.check(pair.replica)
        for flow in flows.flows:
            before, after = former[flow.name], flows.offset(flow)
            assert before.server != after.server
            assert (before.timeline + 1, after.file[:13]) == (after.timeline, "promoted-bin.")
    finally:
        pair.source.sandbox.up((pair.source.flavor,))


def test_an_errant_transaction_stops_the_flow_and_the_former_server_goes_on(flows: Flows) -> None:
    pair = flows.pair
    flow = flows.add("all", "auto")
    pair.link()
    try:
        writer = Writer(pair.source, flows.name, 1)
        writer.begin(20)
        pair.replica_has(executed(pair.source))
        if pair.replica.flavor == "mariadb":  # its replication refuses a number that was taken twice
            pair.replica.sql("SET SESSION gtid_domain_id = 77")
        pair.replica.sql(f"CREATE TABLE {flows.name}.errant (id INT PRIMARY KEY)")
        errant = _last_of_the_replica(pair)
        writer.begin(20)
        writer.end()
        flows.catch_up(flow)
        stood = flows.offset(flow)
        pair.replica_has(stood.gtids)
        flows.point_at(pair.replica)
        with pytest.raises(SourceDivergedError, match="errant transactions") as caught:
            flows.world.run(flow)
        assert errant in caught.value.message
        assert str(pair.replica.connection.port) in caught.value.message
        assert (caught.value.retryable, flows.offset(flow)) == (False, stood)
        flows.check(pair.source)

        flows.point_at(pair.source)
        more = Writer(pair.source, flows.name, 1_000_000)
        more.begin(20)
        more.end()
        flows.catch_up(flow)
        flows.check(pair.source)
        assert flows.offset(flow).server == stood.server
    finally:
        pair.promote()


def _last_of_the_replica(pair: Pair) -> str:
    """Return the GTID of what the replica's own session wrote last."""
    if pair.replica.flavor == "mariadb":
        return str(pair.replica.sql("SELECT @@SESSION.last_gtid")[0][0])
    return str(pair.replica.sql("SELECT @@server_uuid")[0][0])
