"""ZooKeeper goes away in the middle of a run: what is moved is moved once, nothing advances unrecorded."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Noop
from databus.checkpoints.spool import PlanSpool
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.errors import (
    CheckpointUnavailableError,
    ConfigError,
    MarkerDivergedError,
    MarkersAheadError,
    StaleEpochError,
)
from databus.sinks.kafka.claim_register import KafkaClaimRegister
from databus.sinks.kafka.writer import KafkaSlotWriter
from databus.testing.zookeeper_proxy import Fault, ZooKeeperProxy
from tests.contract.checkpoint_store import wait_until
from tests.integration.conftest import World
from tests.integration.zookeeper_away import Away, Killed

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(300)]

PATIENCE_S = 200.0
"""How long a test waits for what must come, on a busy machine."""

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
    @pytest.mark.parametrize(
        ("where", "fault", "engine"),
        [
            ("plan", Fault.BEFORE, "process"),
            ("plan", Fault.AFTER, "process"),
            ("checkpoint", Fault.BEFORE, "process"),
            ("checkpoint", Fault.AFTER, "spark"),
        ],
    )
    def test_the_batch_waits_at_its_write_and_the_run_goes_on(
        self, away: MakeAway, world: World, fault: Fault, where: str, engine: str
    ) -> None:
        """The lease's session ends meanwhile: it is claimed again, by the same run."""
        shop = away(batches=3)
        shop.start()
        shop.proxy.fail_next(fault, f"/{shop.flow.name}/{where}", stay_down=True)
        thread, results = in_thread(lambda: shop.run(spark=world.spark("away") if engine == "spark" else None))
        wait_until(lambda: shop.proxy.armed == 0, PATIENCE_S)
        with shop.store() as store:
            wait_until(lambda: store.holder(shop.flow.name) is None, PATIENCE_S)
            found, applied = store.load(shop.flow.name), fault is Fault.AFTER
            assert found.batch == (1 if applied and where == "checkpoint" else 0)
            assert (store.pending_plan(shop.flow.name) is not None) == (applied == (where == "plan"))
            shop.proxy.come_back()
            thread.join(PATIENCE_S)
            assert [getattr(r, "batches", r) for r in results] == [3]
            assert store.epoch(shop.flow.name) == 3
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


class Cut:
    """Cuts ZooKeeper off after one committed batch and brings it back after another."""

    def __init__(self, shop: Away, down: int = 1, back: int = 10**9):
        self.shop, self.down, self.back = shop, down, back
        self.seen = 0

    def __call__(self, _report: Any) -> None:
        self.seen += 1
        if self.seen == self.down:
            self.shop.proxy.go_down()
        if self.seen == self.back:
            self.shop.come_back()


def dies(monkeypatch: pytest.MonkeyPatch, shop: Away, target: Any, when: str, nth: int) -> None:
    """Kill the run before or after the nth call of a method while ZooKeeper is away or just back."""
    owner, name = target
    real, calls = getattr(owner, name), itertools.count(1)

    def call(*args: Any, **values: Any) -> Any:
        fatal = next(calls) == nth
        if fatal and when == "before":
            raise Killed
        found = real(*args, **values)
        if fatal:
            raise Killed
        return found

    monkeypatch.setattr(owner, name, call)


SPOOLED, ANNOUNCED, DONE = (PlanSpool, "put_plan"), (KafkaClaimRegister, "announce"), (PlanSpool, "put_outcome")
WRITTEN, RECONCILED, TAKEN = (
    (KafkaSlotWriter, "write"),
    (ZooKeeperCheckpoints, "reconcile"),
    (KafkaClaimRegister, "take"),
)


class TestContinue:
    @pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
    @pytest.mark.parametrize("where", ["plan", "checkpoint"])
    def test_the_holder_goes_on_and_is_reconciled_on_return(self, away: MakeAway, fault: Fault, where: str) -> None:
        shop = away(batches=6, on_zookeeper_loss="continue")
        shop.start()
        shop.proxy.fail_next(fault, f"/{shop.flow.name}/{where}", stay_down=True)
        behind: list[int] = []

        def watch(report: Any) -> None:
            if report.plan.batch == 4:
                behind.append(shop.committed())
                shop.come_back()

        result = shop.run(on_batch=watch)
        assert (result.batches, behind) == (6, [1 if (where, fault) == ("checkpoint", Fault.AFTER) else 0])
        shop.assert_exact()
        shop.assert_counted()
        assert [e.batch for e in shop.history()] == list(range(7))

    @pytest.mark.parametrize(
        ("target", "when", "nth", "back"),
        [
            (SPOOLED, "before", 2, 99),
            (SPOOLED, "after", 2, 99),
            (ANNOUNCED, "after", 2, 99),
            (WRITTEN, "before", 6, 99),
            (WRITTEN, "after", 6, 99),
            (DONE, "before", 2, 99),
            (DONE, "after", 2, 99),
            (RECONCILED, "before", 1, 4),
            (RECONCILED, "after", 1, 4),
        ],
    )
    def test_a_killed_holder_is_caught_up_with(
        self, away: MakeAway, monkeypatch: pytest.MonkeyPatch, target: Any, when: str, nth: int, back: int
    ) -> None:
        shop = away(batches=6, on_zookeeper_loss="continue")
        with monkeypatch.context() as patch:
            dies(patch, shop, target, when, nth)
            with pytest.raises(Killed):
                shop.run(on_batch=Cut(shop, 1, back))
        shop.run(shop.straight)
        shop.assert_exact()
        shop.assert_counted()

    def test_a_claimer_killed_while_it_catches_up(self, away: MakeAway, monkeypatch: pytest.MonkeyPatch) -> None:
        shop = away(batches=6, on_zookeeper_loss="continue")
        with monkeypatch.context() as patch:
            dies(patch, shop, WRITTEN, "before", 8)
            with pytest.raises(Killed):
                shop.run(on_batch=Cut(shop))
        # The last one has put the plan in flight into ZooKeeper, cleared the spool, and dies in its dispatch.
        for target, when in ((TAKEN, "after"), (RECONCILED, "before"), (RECONCILED, "after"), (WRITTEN, "before")):
            with monkeypatch.context() as patch:
                dies(patch, shop, target, when, 1)
                with pytest.raises(Killed):
                    shop.run(shop.straight)
        shop.run(shop.straight)
        shop.assert_exact()
        shop.assert_counted()

    @pytest.mark.parametrize(
        ("target", "when", "stopped_by"),
        [
            (SPOOLED, "before", StaleEpochError),
            (ANNOUNCED, "after", MarkerDivergedError),
            (DONE, "before", StaleEpochError),
        ],
    )
    def test_a_holder_that_was_only_cut_off_is_fenced(
        self, away: MakeAway, monkeypatch: pytest.MonkeyPatch, target: Any, when: str, stopped_by: type[Exception]
    ) -> None:
        """It stands still in the middle of a batch, another run takes over and finishes; then it moves again."""
        shop = away(batches=6, on_zookeeper_loss="continue")
        reached, go = threading.Event(), threading.Event()
        owner, name = target
        real, calls = getattr(owner, name), itertools.count(1)

        def pause() -> None:
            reached.set()
            assert go.wait(120)

        def call(*args: Any) -> Any:
            mine = next(calls) == 2
            if mine and when == "before":
                pause()
            found = real(*args)
            if mine and when == "after":
                pause()
            return found

        monkeypatch.setattr(owner, name, call)
        thread, results = in_thread(lambda: shop.run(on_batch=Cut(shop)))
        assert reached.wait(60)
        shop.run(shop.straight)
        history = shop.history()
        go.set()
        thread.join(60)
        assert [type(r) for r in results] == [stopped_by]
        assert shop.history() == history
        shop.spool.clear()  # what the old holder still put there; the next claim does the same
        shop.assert_exact()
        shop.assert_counted()

    @pytest.mark.parametrize("bound", [{"zookeeper_loss_batches": 2}, {"zookeeper_loss": timedelta(microseconds=1)}])
    def test_it_goes_on_within_bounds_only(self, away: MakeAway, bound: Any) -> None:
        shop = away(batches=6, on_zookeeper_loss="continue", **bound)
        with pytest.raises(CheckpointUnavailableError, match="its limit"):
            shop.run(on_batch=Cut(shop))
        assert shop.committed() == 1
        shop.run(shop.straight)
        shop.assert_exact()
        shop.assert_counted()

    def test_a_lost_spool_is_named_before_anything_is_read(self, away: MakeAway) -> None:
        shop = away(batches=6, on_zookeeper_loss="continue", zookeeper_loss_batches=2)
        with pytest.raises(CheckpointUnavailableError, match="its limit"):
            shop.run(on_batch=Cut(shop))
        shop.spool.clear()
        with pytest.raises(MarkersAheadError, match="batch 3") as caught:
            shop.run(shop.straight)
        assert (caught.value.code, shop.committed()) == ("checkpoint_behind_sinks", 1)
        assert "checkpoint adopt" in caught.value.hint

    def test_a_flow_without_markers_is_refused(self, away: MakeAway) -> None:
        shop = away(on_zookeeper_loss="continue")
        shop.flow = shop.flow.model_copy(update={"sinks": (Noop(),)})
        with pytest.raises(ConfigError, match="sink with markers"):
            shop.run()
