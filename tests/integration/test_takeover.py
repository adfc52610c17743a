"""Takeover: a holder that is killed, and one that is stopped, while the next run waits for the lease.

In the live lane, on Spark, the next run waits warm; that is the long form (`DATABUS_TEST_TAKEOVER=live`), since the
lease, the plan and the markers do not know who runs the writer. Every row arrives once. The successor has to commit
within a minute, twice the bar of 30 s (with ZooKeeper's session time-out as it is by default): a takeover that waits
for something else fails. The seconds themselves are a figure, printed and recorded.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from databus.checkpoints.connection.session import start_client
from databus.checkpoints.holder import LeaseHolder, read_holder
from databus.checkpoints.paths import FlowPaths
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.sandbox.connections import airflow_connections
from tests.integration.conftest import SERVERS, Started, World
from tests.integration.one_process import OneProcessWorld
from tests.integration.shop_flow import Shop
from tests.integration.test_direct_lane import without_checks
from tests.integration.test_kill import finish, writing
from tests.integration.window_run import REFUSED

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

LIVE = os.environ.get("DATABUS_TEST_TAKEOVER") == "live"
WINDOW_S = 1800.0
WITHIN_S = 600.0
"""Until a run has started and moved something, on a machine that is busy with other things."""
TAKEN_OVER_WITHIN_S = 60.0
"""Until a successor that waits for the lease has committed."""
TRIES = 8
"""A holder may have handed over in order, or begun to, in the moment before it is stopped; then the next one is."""


class Window:
    """A run in a process group of its own."""

    def __init__(self, world: World, shop: Shop, folder: Path, number: int):
        environment = {
            **os.environ,
            **airflow_connections(world.sandbox.status()),
            **world.environment,
            "DATABUS_INSTALLATION": world.settings.installation,
            "DATABUS_SEGMENT_STORE": world.settings.segment_store,
            "DATABUS_RECORDS_URL": world.settings.records_url,
        }
        command = [sys.executable, "-m", "tests.integration.window_run", json.dumps(shop.flow.to_json())]
        spark = f"sc://{world.sandbox.address('spark')}" if LIVE else ""
        command += [f"run-{number}", spark, world.session_of(shop.name)]
        self.log = folder / f"run-{number}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(WINDOW_S)], env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def ends(self, *codes: int) -> tuple[int, str]:
        """Wait for the end with one of these codes; return it, and what was written."""
        found = self.process.wait(WITHIN_S)
        said = self.log.read_text()
        assert found in codes, said[-4000:]
        return found, said

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()


class Lease:
    """A flow's lease as any other client of ZooKeeper sees it."""

    def __init__(self, world: World, flow: str):
        self._client = start_client(world.connections.get("zookeeper_default"))
        self._flow = flow
        self._paths = FlowPaths(f"/databus/flows/{flow}")

    def holder(self) -> LeaseHolder | None:
        try:
            return read_holder(self._client.get(self._paths.lease)[0], self._flow)
        except NoNodeError:
            return None

    def waited_for(self, within_s: float) -> bool:
        """Wait until somebody waits for it, no longer than so many seconds; told by ZooKeeper at once."""
        changed = threading.Event()

        def wake(_event: object) -> None:
            changed.set()

        deadline = time.monotonic() + within_s
        while True:
            changed.clear()
            try:
                if self._client.get_children(self._paths.waiters, watch=wake):
                    return True
            except NoNodeError:
                if self._client.exists(self._paths.waiters, watch=wake):
                    continue
            if not changed.wait(max(0.0, deadline - time.monotonic())):
                return False

    def close(self) -> None:
        self._client.stop()
        self._client.close()


class Runs:
    """Runs of one flow: one holds the lease, the next is started while it does."""

    def __init__(self, world: World, shop: Shop, folder: Path, store: ZooKeeperCheckpoints):
        self._world, self._shop, self._folder, self.store = world, shop, folder, store
        self._numbers = itertools.count(1)
        self.lease = Lease(world, shop.name)
        self.all: list[Window] = []

    def start(self) -> Window:
        self.all.append(Window(self._world, self._shop, self._folder, next(self._numbers)))
        return self.all[-1]

    def committed_by(self, holder: Window, within_s: float = WITHIN_S) -> int:
        """Wait until a run has the lease and has committed under it; return its epoch."""

        def look() -> int:
            held = self.lease.holder()
            if held is None or held.pid != holder.process.pid:
                return 0
            checkpoint = self.store.load(self._shop.name)
            moved = checkpoint is not None and checkpoint.epoch == held.epoch and checkpoint.batch > 0
            return int(held.epoch) if moved else 0

        return int(self._until(look, holder, within_s=within_s))

    def stopped_in_possession(self, holder: Window) -> tuple[Window, Window, float]:
        """Start a successor, and stop the holder as soon as that one waits for the lease.

        Returns:
            the stopped holder, its successor, and the time at which it was stopped.
        """
        for _ in range(TRIES):
            following = self.start()
            self._until(lambda: self.lease.waited_for(2.0), following, 0.0)
            holder.signal(signal.SIGSTOP)
            at = time.monotonic()
            time.sleep(0.3)  # what it had sent is answered
            held = self.lease.holder()
            if held is not None and held.pid == holder.process.pid:
                return holder, following, at
            holder.signal(signal.SIGCONT)
            holder.ends(0)
            self.committed_by(following)
            holder = following
        raise AssertionError("every holder had handed over before it was stopped")

    @staticmethod
    def _until(look: Callable[[], Any], run: Window, pause_s: float = 0.1, within_s: float = WITHIN_S) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := look()):
            assert run.process.poll() is None, run.log.read_text()[-4000:]
            assert time.monotonic() < deadline, f"in vain for {within_s} s\n{run.log.read_text()[-4000:]}"
            time.sleep(pause_s)
        return found


@contextmanager
def runs_of(world: World, shop: Shop, folder: Path) -> Iterator[Runs]:
    with ZooKeeperCheckpoints.open(world.connections.get("zookeeper_default")) as store:
        runs = Runs(world, shop, folder, store)
        try:
            yield runs
        finally:
            for window in runs.all:
                window.kill()
            runs.lease.close()


@pytest.fixture
def servers_of(started: Started) -> World:
    sandbox = started(*(SERVERS if LIVE else ("zookeeper", "kafka", "mysql")))
    return (World if LIVE else OneProcessWorld)(sandbox, sandbox.home)


def test_a_killed_holder_and_a_stopped_one_are_taken_over(
    servers_of: World, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    world = servers_of
    shop = without_checks(Shop(world, f"takeover_{os.getpid()}", partitions=4, slots=2))
    shop.flow = shop.flow.model_copy(update={"mode": "live" if LIVE else "standard"})
    with runs_of(world, shop, tmp_path) as runs, writing(shop):
        first = runs.start()
        runs.committed_by(first)
        killed, second, at = runs.stopped_in_possession(first)
        killed.signal(signal.SIGKILL)
        epoch = runs.committed_by(second, TAKEN_OVER_WITHIN_S)
        after_kill = time.monotonic() - at

        for _ in range(TRIES):
            zombie, third, at = runs.stopped_in_possession(second)
            last = runs.committed_by(third, TAKEN_OVER_WITHIN_S)
            after_stop = time.monotonic() - at
            assert last > epoch

            zombie.signal(signal.SIGCONT)
            code, said = zombie.ends(REFUSED, 0)
            assert runs.committed_by(third) == last  # the zombie took nothing from it
            if code == REFUSED:
                break
            epoch, second = last, third
        assert any(line.startswith("StaleEpochError: ") for line in said.splitlines()), said[-3000:]
        third.signal(signal.SIGTERM)
        third.ends(0)
    finish(world, shop)
    shop.assert_all_arrived_once()
    shop.assert_ledger_adds_up()
    for what, seconds in (("SIGKILL", after_kill), ("SIGSTOP", after_stop)):
        record_property(f"seconds_to_next_commit_after_{what}", round(seconds, 1))
        sys.stdout.write(f"{what} of the holder → the successor's first commit: {seconds:.1f} s (bar 30 s)\n")
