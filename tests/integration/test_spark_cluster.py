"""A Spark standalone cluster with two workers: one is killed in mid-batch, and the run goes on with the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.servers.spark_cluster import cluster_state
from tests.integration.conftest import World
from tests.integration.test_kill import Run, finish, in_mid_batch, killable, writing
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

NAME = "spark-cluster"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    options = SandboxOptions(spark_driver_memory="1g")
    sandbox = Sandbox(tmp_path_factory.mktemp("cluster"), ports_from=ports_from(23_400), options=options)
    try:
        sandbox.up([NAME])
        yield sandbox
    finally:
        sandbox.destroy()


def cores_in_use(cluster: Sandbox) -> list[int]:
    """Cores that executors hold on each living worker."""
    host, ports = "127.0.0.1", cluster.status_of(NAME).ports
    workers = cluster_state(host, ports["master-ui"])["workers"]
    return [worker["coresused"] for worker in workers if worker["state"] == "ALIVE"]


def test_a_worker_is_killed_in_mid_batch(world: World, cluster: Sandbox, tmp_path: Path) -> None:
    shop = killable(world, "cluster_worker", partitions=4, slots=2)
    with writing(shop), ZooKeeperCheckpoints.open(world.connections.get(shop.flow.zookeeper)) as store:
        run = Run(world, shop, tmp_path, f"sc://{cluster.address(NAME)}")
        in_mid_batch(world, shop, 1, run)
        assert cores_in_use(cluster) == [1, 1]
        in_mid_batch(world, shop, 1, run)
        cluster.kill(NAME, "worker-1")
        batch = store.load(shop.name).batch
        deadline = time.monotonic() + 120
        while store.load(shop.name).batch < batch + 3:
            assert run.process.poll() is None, run.log.read_text()[-3000:]
            assert time.monotonic() < deadline, run.log.read_text()[-3000:]
            time.sleep(0.05)
        assert cores_in_use(cluster) == [1]
        assert store.epoch(shop.name) == 1
        assert run.terminate() == 0, run.log.read_text()[-3000:]
    finish(world, shop)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()
