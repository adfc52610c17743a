"""The live lane on real servers: kills, hand-over and the change of lanes lose nothing and repeat nothing."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, __version__
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.drain import Drain
from databus.runtime.live import lane as live
from databus.runtime.live.lane import LiveLane
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.window_result import WindowResult
from tests.integration.conftest import World
from tests.integration.shop_flow import Shop
from tests.integration.test_direct_lane import without_checks
from tests.integration.test_kill import Run, finish, in_mid_batch, killable, writing

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("DATABUS_TEST_KILLS", "1"))
_TASK = re.compile(rb"the live job's task runs as process (\d+)")


def named(name: str) -> str:
    """A flow of this session's own, also on servers that stay up between sessions."""
    return f"{name}_{os.getpid()}"


def tasks_of(run: Run, count: int) -> list[int]:
    """Wait until so many live tasks have called back in all runs of a flow; return their processes."""
    while len(found := _TASK.findall(run.log.read_bytes())) < count:
        assert run.process.poll() is None, run.log.read_text()[-3000:]
        time.sleep(0.1)
    return [int(number) for number in found]


def at_the_head(shop: Shop, **changes: Any) -> Shop:
    shop.flow = shop.flow.model_copy(update={"mode": "live", **changes})
    return shop


class Window:
    """An open-ended window of a flow in a thread."""

    def __init__(self, world: World, shop: Shop, run_id: str):
        self.drain = Drain()
        self.batches = 0
        self.result: WindowResult | None = None
        self._error: BaseException | None = None
        self._world, self._shop, self._run_id = world, shop, run_id
        self._thread = threading.Thread(target=self._run, name=run_id)
        self._thread.start()

    def _run(self) -> None:
        def moved(_report: Any) -> None:
            self.batches += 1

        control = WindowControl(WindowLimits(max_seconds=500, lease_wait_s=120), self.drain, moved)
        try:
            with open_services(self._shop.flow, self._world.connections, self._world.settings) as services:
                identity = RunIdentity(self._run_id, "", __version__)
                spark = self._world.spark(self._shop.name)
                self.result = run_flow(self._shop.flow, services, spark, identity, control)
        except BaseException as error:  # noqa: BLE001 - told by `end`
            self._error = error

    def wait_for_batches(self, count: int) -> None:
        while self.batches < count:
            assert self._thread.is_alive(), self._error
            time.sleep(0.02)

    def end(self) -> WindowResult:
        """Return the result of a window that ends by itself."""
        self._thread.join()
        assert self._error is None
        assert self.result is not None
        return self.result

    def join(self) -> None:
        self._thread.join()

    def stop(self) -> WindowResult:
        self.drain.request()
        return self.end()


@pytest.fixture(autouse=True)
def _slots_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a Spark task may take long to start; these tests are about what follows."""
    monkeypatch.setattr(live, "_READY_WITHIN_S", 500.0)


@pytest.fixture
def window(world: World) -> Iterator[Callable[[Shop, str], Window]]:
    """Begin windows, which end with the test at the latest."""
    begun: list[Window] = []

    def begin(shop: Shop, run_id: str) -> Window:
        begun.append(Window(world, shop, run_id))
        return begun[-1]

    yield begin
    for each in begun:
        each.drain.request()
        each.join()


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Collect the sizes of the batches that live jobs wrote."""
    sizes: list[int] = []
    write = LiveLane.write

    def counting(self: LiveLane, task: Any, slots: int) -> Any:
        found = write(self, task, slots)
        sizes.append(task.planned.rows)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(LiveLane, "write", counting)
        yield sizes


def test_windows_hand_over_at_the_head(
    world: World, window: Callable[[Shop, str], Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each successor waits with its job at hand; every batch of each goes through a live job."""
    shop = at_the_head(without_checks(Shop(world, named("live_handover"), partitions=2, slots=2)))
    windows: list[Window] = []
    with counted(monkeypatch) as sizes, writing(shop):
        for number in range(3):
            windows.append(window(shop, f"run-{number}"))
            windows[-1].wait_for_batches(3)
        results = [*(window.end() for window in windows[:-1]), windows[-1].stop()]
    assert len(sizes) == sum(result.batches for result in results)
    assert not any(result.drained for result in results[:-1])
    assert world.checkpoint(shop.flow).epoch == 3
    finish(world, shop)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()


def test_lanes_follow_the_lag(
    world: World, window: Callable[[Shop, str], Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog goes through jobs of its own, what comes at the head through the live job, and back."""
    monkeypatch.setattr(live, "LIVE_ROWS", 100)
    shop = at_the_head(
        without_checks(Shop(world, named("live_lanes"))),
        batching=Batching(max_rows=1000, max_wait=timedelta(seconds=1)),
    )
    shop.writer.run(250)
    with counted(monkeypatch) as sizes:
        run = window(shop, "run")
        run.wait_for_batches(1)
        for _ in range(2):
            before = len(sizes)
            while len(sizes) == before:
                shop.writer.run(3)
                time.sleep(0.2)
            shop.writer.run(150)
        result = run.stop()
    assert sizes
    assert max(sizes) <= 100
    assert len(sizes) < result.batches
    finish(world, shop)
    shop.assert_all_arrived_once()


def test_kill_of_the_run(world: World, tmp_path: Path) -> None:
    shop = at_the_head(without_checks(killable(world, named("live_kill_run"), partitions=4, slots=2, chunk_rows=40)))
    chance = random.Random(22)
    with writing(shop):
        for epoch in range(1, KILLS + 1):
            run = Run(world, shop, tmp_path)
            tasks_of(run, epoch)
            in_mid_batch(world, shop, epoch, run)
            time.sleep(chance.uniform(0, 0.5))
            run.kill()
    finish(world, shop)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()


def test_kill_of_the_task(world: World, tmp_path: Path) -> None:
    """The run goes on: a job of its own takes up the batch in hand, and the next small batch starts a live job."""
    shop = at_the_head(without_checks(killable(world, named("live_kill_task"), chunk_rows=40)))
    chance = random.Random(23)
    killed: set[int] = set()
    with writing(shop):
        run = Run(world, shop, tmp_path)
        for times in range(1, KILLS + 1):
            number = tasks_of(run, times)[-1]
            in_mid_batch(world, shop, 1, run)
            time.sleep(chance.uniform(0, 0.5))
            os.kill(number, signal.SIGKILL)
            killed.add(number)
        assert len(killed) == KILLS
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait() == 0, run.log.read_text()[-3000:]
    finish(world, shop)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()
