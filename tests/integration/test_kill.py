"""Kill -9 of the run and of the Spark server in mid-batch: nothing lost, nothing twice, in order.

`DATABUS_TEST_KILLS` is the number of kills in each test, here and for the other lanes (2 by default, of the Spark
server one); `make faults` and `make faults-spark` are the long form.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.cli.terminal.exits import UNREACHABLE
from databus.sandbox.connections import airflow_connections
from tests.integration import shop_flow
from tests.integration.conftest import World
from tests.integration.shop_flow import Shop

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("DATABUS_TEST_KILLS", "2"))


class Run:
    """`databus run` in a process group of its own."""

    def __init__(self, world: World, shop: Shop, folder: Path, spark: str = ""):
        shop.dag_file(folder)
        environment = {
            **os.environ,
            **airflow_connections(world.sandbox.status()),
            **world.environment,
            "DATABUS_INSTALLATION": world.settings.installation,
            "DATABUS_SEGMENT_STORE": world.settings.segment_store,
            "DATABUS_RECORDS_URL": world.settings.records_url,
        }
        command = [sys.executable, "-m", "databus.cli.main", "-v", "run", shop.name, "--dags", str(folder)]
        self.log = folder / "run.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--spark", spark or f"sc://{world.sandbox.address('spark')}"],
                env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def writing(shop: Shop) -> AbstractContextManager[None]:
    """Write until the block ends."""
    return shop_flow.writing(shop.writer, 10, 0.4)


def finish(world: World, shop: Shop) -> None:
    """Run until caught up, in large batches; a killed holder's session needs a moment to expire."""
    shop.flow = shop.flow.model_copy(update={"batching": Batching(max_wait=timedelta(seconds=0.2))})
    deadline = time.monotonic() + 120
    while True:
        try:
            world.run(shop.flow)
        except Exception as error:
            if time.monotonic() > deadline or not getattr(error, "retryable", False):
                raise
            time.sleep(0.5)
        else:
            return


def in_mid_batch(world: World, shop: Shop, epoch: int, run: Run) -> None:
    """Wait until the run of an epoch has a plan in flight."""
    deadline = time.monotonic() + 90
    with ZooKeeperCheckpoints.open(world.connections.get(shop.flow.zookeeper)) as store:
        while not (begun := store.epoch(shop.name) >= epoch) or store.pending_plan(shop.name) is None:
            assert time.monotonic() < deadline, run.log.read_text()[-3000:]
            time.sleep(0.01 if begun else 0.1)  # a run takes seconds to begin, a plan of its a moment to end


def killable(world: World, name: str, **sink: Any) -> Shop:
    """A shop whose flow takes small batches, and whose killed holder is given up after three seconds."""
    shop = Shop(world, name, **sink)
    quick = world.override("zookeeper_default", extra={"session_timeout_s": 3})
    small = Batching(max_rows=150, max_wait=timedelta(seconds=0.2))
    shop.flow = shop.flow.model_copy(update={"batching": small, "zookeeper_conn_id": quick})
    return shop


def kill_runs(world: World, shop: Shop, folder: Path, seed: int) -> None:
    """Kill some runs, each in mid-batch, while the shop is written to; then run until caught up."""
    chance = random.Random(seed)
    with writing(shop):
        for epoch in range(1, KILLS + 1):
            run = Run(world, shop, folder)
            in_mid_batch(world, shop, epoch, run)
            time.sleep(chance.uniform(0, 1.5))
            run.kill()
    finish(world, shop)


def test_kill_of_the_run(world: World, tmp_path: Path) -> None:
    shop = killable(world, "kill_run", partitions=4, slots=2)
    kill_runs(world, shop, tmp_path, 11)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()
    assert world.checkpoint(shop.flow).epoch == KILLS + 1


def test_kill_of_the_spark_server(world: World, tmp_path: Path) -> None:
    shop = killable(world, "kill_spark")
    chance = random.Random(12)
    with writing(shop):
        for epoch in range(1, (KILLS + 1) // 2 + 1):
            run = Run(world, shop, tmp_path)
            in_mid_batch(world, shop, epoch, run)
            time.sleep(chance.uniform(0, 1.0))
            world.sandbox.kill("spark")
            assert run.process.wait(120) == UNREACHABLE, run.log.read_text()[-3000:]
            world.sandbox.up(["spark"])
    finish(world, shop)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()


def test_sigterm_drains(world: World, tmp_path: Path) -> None:
    """The batch in hand is finished, the lease given back at once, and no dump thread left on the server."""
    shop = killable(world, "drain")
    with writing(shop):
        run = Run(world, shop, tmp_path)
        in_mid_batch(world, shop, 1, run)
        assert run.terminate() == 0, run.log.read_text()[-3000:]
    with ZooKeeperCheckpoints.open(world.connections.get(shop.flow.zookeeper)) as store:
        assert store.pending_plan(shop.name) is None
        store.claim(shop.name, "next", 0).release()
    deadline = time.monotonic() + 20
    while dump_threads(world):
        assert time.monotonic() < deadline, dump_threads(world)
        time.sleep(0.2)
    finish(world, shop)
    shop.assert_all_arrived_once()


def dump_threads(world: World) -> list[str]:
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT command FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        return [row[0] for row in cursor.fetchall()]
