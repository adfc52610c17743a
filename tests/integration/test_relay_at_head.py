"""Flows that all stand at the head of a server's log: one dump per stretch serves them all, and none ever stalls."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from databus.binlog.segments.kept_segments import KeptSegments
from databus.checkpoints.nodes.dump_turns import ZooKeeperDumpTurns
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.positions.offsets import Offset
from tests.contract.source_contract import rows_of
from tests.integration.binlog_shop import Shop
from tests.integration.conftest import Started

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

log = logging.getLogger(__name__)

FLOWS = int(os.environ.get("DATABUS_RELAY_FLOWS", "8"))
STEPS = 6
PATIENT = Batching(max_wait=timedelta(seconds=60))


@pytest.fixture(scope="module")
def zookeeper(started: Started) -> Connection:
    host, port = started("zookeeper").address("zookeeper").split(":")
    return Connection(conn_id="zk", conn_type="zookeeper", host=host, port=int(port))


@pytest.fixture
def turns(zookeeper: Connection) -> Iterator[Callable[[], ZooKeeperDumpTurns]]:
    """Give turns in sessions of their own, as flows in different processes have them."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(ZooKeeperCheckpoints.open(zookeeper)).dump_turns()


@pytest.fixture
def shop(flavor: str, make_shop: Callable[[str, str], Shop]) -> Iterator[Shop]:
    shop = make_shop(flavor, "numba")
    shop.keep = "1h"
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    shop.sql("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log = ON")
    yield shop
    shop.sql("SET GLOBAL general_log = OFF")


def dumps(shop: Shop) -> int:
    """Return how many dumps the server was asked for."""
    rows = shop.sql("SELECT COUNT(*) FROM mysql.general_log WHERE command_type LIKE 'Binlog Dump%'")
    return int(rows[0][0])


class Reader:
    """A flow without Spark: plans, reads and goes on, until it has met the last row."""

    def __init__(self, shop: Shop, name: str, turns: Any):
        self.source = shop.open(flow=name, dump_turns=turns, start="latest")
        self.after: Offset = self.source.start_offset()
        self.ids: list[str] = []
        self.batches = 0

    def batch(self, limit: Batching = PATIENT) -> bool:
        plan = self.source.plan(self.after, limit)
        if plan is None:
            return False
        self.ids += [row["event_id"] for row in rows_of(self.source, plan) if row["op"] == "c"]
        self.after, self.batches = plan.range.end, self.batches + 1
        return True

    def run(self, count: int) -> None:
        with self.source_closed():
            while len(self.ids) < count:
                self.batch()

    def source_closed(self) -> ExitStack:
        stack = ExitStack()
        stack.callback(self.source.close)
        return stack


def test_one_dump_per_stretch_serves_all_flows(shop: Shop, turns: Callable[[], ZooKeeperDumpTurns]) -> None:
    readers = [Reader(shop, f"flow_{n}", turns()) for n in range(FLOWS)]
    before, count = dumps(shop), 3 * STEPS
    with ThreadPoolExecutor(FLOWS) as pool:
        running = [pool.submit(reader.run, count) for reader in readers]
        for step in range(STEPS):
            shop.wait_for(lambda step=step: all(len(r.ids) >= 3 * step for r in readers))  # type: ignore[misc]
            if step == STEPS // 2:
                shop.sql("FLUSH BINARY LOGS")
            for n in range(3):
                shop.sql(f"INSERT INTO {shop.name}.t VALUES ({3 * step + n})")
        for future in running:
            future.result()
    assert all(reader.ids == readers[0].ids for reader in readers)
    assert len(set(readers[0].ids)) == count
    stretches = len(KeptSegments(str(shop.folder / "segments"), shop.begin.server).list())
    asked = dumps(shop) - before
    log.info(
        "%d flows, %d batches: %d stretches kept, %d dumps", FLOWS, sum(r.batches for r in readers), stretches, asked
    )
    proofs = FLOWS if shop.flavor == "mariadb" else 0  # of definitions, in each flow's first range
    # Those that meet the rotation alone, without a transaction behind it, each ask the server, at most all of them;
    # and the first of them to wait in the new file looks once what is behind its header.
    assert stretches <= asked - proofs <= stretches + FLOWS + 1


def test_a_turn_that_is_not_given_back_stalls_nobody(shop: Shop, turns: Callable[[], ZooKeeperDumpTurns]) -> None:
    reader, others = Reader(shop, "flow", turns()), turns()
    address = f"{shop.connection.host}:{shop.connection.port}"
    stretch = f"{reader.after.file}.{reader.after.pos >> 25}"  # type: ignore[attr-defined]
    assert others.take(address, stretch)
    before = dumps(shop)
    assert not reader.batch(Batching(max_wait=timedelta(seconds=0.2)))  # nothing there, and nothing was asked
    assert dumps(shop) == before
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (1)")
    assert reader.batch(Batching(max_wait=timedelta(seconds=0.2)))
    proof = shop.flavor == "mariadb"  # of definitions, in a first range
    assert (len(reader.ids), dumps(shop)) == (1, before + 1 + proof)
    # Given back while it waits: the turn is its own, and what comes then is read at once.
    waiting = threading.Thread(target=reader.batch)
    waiting.start()
    time.sleep(0.2)
    others.release(address, stretch)
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (2)")
    waiting.join(50)
    assert (len(reader.ids), waiting.is_alive()) == (2, False)
    assert others.take(address, stretch)  # it was given back
    reader.source.close()


def test_without_zookeeper_each_flow_dumps_for_itself(shop: Shop) -> None:
    gone = ZooKeeperCheckpoints(Connection(conn_id="zk", conn_type="zookeeper", host="127.0.0.1", port=1))
    first, second = (Reader(shop, f"flow_{n}", gone.dump_turns()) for n in range(2))
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (1)")
    assert first.batch()
    assert second.batch()
    assert first.ids == second.ids
    assert len(first.ids) == 1
    first.source.close()
    second.source.close()
    gone.close()
