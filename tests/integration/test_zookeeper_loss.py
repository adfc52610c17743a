"""ZooKeeper goes away in the middle of a run: what is moved is moved once, nothing advances unrecorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.core.errors import CheckpointUnavailableError
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import wait_until
from tests.integration.conftest import World
from tests.integration.zookeeper_away import Away

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(300)]

MakeAway = Callable[..., Away]


@pytest.fixture
def proxy(world: World) -> Iterator[ZooKeeperProxy]:
    host, _, port = world.sandbox.address("zookeeper").rpartition(":")
    with ZooKeeperProxy(host, int(port)) as proxy:
        yield proxy


@pytest.fixture
def away(world: World, proxy: ZooKeeperProxy, tmp_path: Path) -> MakeAway:
    return lambda **options: Away(world, proxy, tmp_path, **options)


def in_thread(act: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(act())
        except BaseException as error:  # noqa: BLE001 - handed to the test
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


class TestStop:
    @pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
    @pytest.mark.parametrize("where", ["plan", "checkpoint"])
    def test_the_batch_waits_at_its_write_and_the_run_goes_on(self, away: MakeAway, fault: Fault, where: str) -> None:
        """The lease's session ends meanwhile: it is claimed again, by the same run."""
        shop = away(batches=3)
        shop.proxy.fail_next(fault, f"/{shop.flow.name}/{where}", stay_down=True)
        # The first checkpoint is written by the multi that starts the flow.
        thread, results = in_thread(shop.run)
        wait_until(lambda: shop.proxy.armed == 0)
        with shop.store() as store:
            wait_until(lambda: store.holder(shop.flow.name) is None)
            before = (store.load(shop.flow.name), store.pending_plan(shop.flow.name))
            shop.proxy.come_back()
            thread.join(120)
            assert [getattr(r, "batches", r) for r in results] == [3]
            assert before[0] is None or before[0].batch == 0
            assert store.epoch(shop.flow.name) >= 2
        shop.assert_exact()
        shop.assert_counted()

    def test_a_run_that_waited_too_long_fails_and_the_next_finishes_its_batch(self, away: MakeAway) -> None:
        shop = away(batches=3)

        def cut(_report: Any) -> None:
            shop.proxy.go_down()

        with pytest.raises(CheckpointUnavailableError):
            shop.run(on_batch=cut, store_wait_s=1.0)
        assert shop.committed() == 1
        shop.run(shop.straight)
        shop.assert_exact()
        shop.assert_counted()
