"""Sinks behind, of a holder that goes on without its store: they stand still, and nothing is lost or twice."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from databus import __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import CheckpointUnavailableError, SinkUnavailableError, StaleEpochError
from databus.core.settings import Settings
from databus.core.state.sink_markers import SlotMark
from databus.core.times import SystemClock
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.window import run_window
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.window_result import WindowResult
from databus.sinks.kafka.claim_register import mark_of
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.marked_sinks import (
    BROKERS,
    ROWS,
    Broker,
    Engine,
    Installation,
    Killed,
    Killing,
    Marked,
    MarkedSink,
    brokers,
)
from tests.unit.runtime.spool_holder import Line, Register

assert brokers  # a fixture that is used by all tests here

REGISTER: list[Register] = []


class Keeping(Marked):
    """The same sink, which shows its markers."""

    kind = "keeping"

    def open(self, *_: Any) -> Any:
        return KeepingSink(self.sink_name)


@dataclass
class KeepingSink(MarkedSink):
    marked: bool = True

    def marks(self, slots: int, *, settled: bool = True) -> Sequence[SlotMark | None]:
        broker = BROKERS[self.name]
        if broker.down:
            raise SinkUnavailableError("nobody answers")
        return [mark_of(broker.markers[n]) if n in broker.markers else None for n in range(slots)]

    def register(self) -> Register:
        return REGISTER[0]


class Detachable(Installation):
    """A flow that goes on without its store."""

    def __init__(self, folder: Path, *sinks: str):
        super().__init__(*sinks)
        REGISTER[:] = [Register()]
        self.folder = folder
        self.flow = self.flow.model_copy(
            update={"sinks": tuple(Keeping(name=name) for name in sinks), "on_zookeeper_loss": "continue"}
        )
        self.line: Any = None

    def go(
        self, on_batch: Callable[[int], None] = lambda _: None, line: Callable[[Any], Any] = Line, **limits: Any
    ) -> WindowResult:
        """Run a window; `on_batch` gets the number of batches so far, and may cut `line`."""
        kept, seen = MemoryCheckpoints(self.server), [0]
        self.line = line(kept)
        settings = Settings("test", str(self.folder), "")
        services = Services(settings, EnvironmentConnections({}), self.line, None, self.reports, SystemClock())  # type: ignore[arg-type]

        def count(_report: Any) -> None:
            seen[0] += 1
            on_batch(seen[0])

        try:
            with open_session(self.flow, services, Engine(), RunIdentity("run", "", __version__)) as session:
                bounds = WindowLimits(until_caught_up=True, store_wait_s=0.0, **limits)
                return run_window(session, WindowControl(bounds, on_batch=count))
        finally:
            kept.close()


@pytest.fixture
def flow(tmp_path: Path) -> Iterator[Detachable]:
    yield Detachable(tmp_path, "a", "b")
    REGISTER.clear()


def standing(flow: Detachable, sink: str) -> str:
    return str(flow.store.of_sink(sink).load("shop").offset)  # type: ignore[union-attr]


def test_a_sink_behind_stands_still_until_the_store_is_back(flow: Detachable) -> None:
    flow.go(max_batches=2)
    broker: Broker = BROKERS["b"]
    broker.down = True
    flow.go(max_batches=1)
    assert flow.store.sinks_behind("shop") == ("b",)

    def cut(batches: int) -> None:
        if batches == 2:
            flow.line.cut, broker.down = True, False

    result = flow.go(cut)
    assert len(BROKERS["a"].held) == ROWS
    assert (len(broker.held), list(result.behind)) == (40, ["b"])
    assert (standing(flow, "b"), flow.store.load("shop").batch) == ("20", 5)  # type: ignore[union-attr]
    result = flow.go()
    assert (result.behind, flow.store.sinks_behind("shop")) == ({}, ())
    flow.assert_each_holds_all_once()
    numbers = [report.plan.batch for report in flow.reports.all]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("back_at", [4, 7])
def test_the_store_comes_back_in_the_same_window(flow: Detachable, back_at: int) -> None:
    flow.go(max_batches=2)
    BROKERS["b"].down = True

    def cut(batches: int) -> None:
        if batches == 2:
            flow.line.cut, BROKERS["b"].down = True, False
        if batches == back_at:
            flow.line.cut = False

    flow.go(cut)
    flow.go()
    assert flow.store.sinks_behind("shop") == ()
    flow.assert_each_holds_all_once()


def test_without_the_store_an_outage_stops_the_flow(flow: Detachable) -> None:
    def cut(batches: int) -> None:
        flow.line.cut = BROKERS["b"].down = batches >= 2

    with pytest.raises(SinkUnavailableError) as caught:
        flow.go(cut)
    assert isinstance(caught.value.__cause__, CheckpointUnavailableError)
    assert flow.store.sinks_behind("shop") == ()
    BROKERS["b"].down = False
    flow.go()
    flow.assert_each_holds_all_once()
    actions = [entry.action for entry in flow.store.history("shop", 99)]
    assert set(actions) == {"start", "commit"}


def test_a_run_begins_although_a_sink_is_away(flow: Detachable) -> None:
    """Its markers cannot be compared; it falls behind as in a run that had begun before."""
    flow.go(max_batches=2)
    BROKERS["b"].down = True
    flow.go()
    assert flow.store.sinks_behind("shop") == ("b",)
    BROKERS["b"].down = False
    flow.go()
    flow.assert_each_holds_all_once()


class Shaky(Line):
    """A line that is cut and mended at random, before or after a call was applied."""

    def __init__(self, store: Any, chance: random.Random, line: Line | None = None):
        super().__init__(store, line)
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        found, line, chance = getattr(self._store, name), self._line, self._chance

        def call(*args: Any) -> Any:
            before = line.cut = chance.random() < (0.8 if line.cut else 0.03)
            if before:
                raise CheckpointUnavailableError("not sent")
            done = found(*args)
            line.cut = chance.random() < 0.03
            if line.cut:
                raise CheckpointUnavailableError("no answer")
            return done

        return call

    def of_sink(self, sink: str) -> Shaky:
        return Shaky(self._store.of_sink(sink), self._chance, self._line)

    def connected(self) -> bool:
        return not self._line.cut or self._chance.random() < 0.3


@pytest.mark.parametrize("option", ["stop", "continue"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("DATABUS_TEST_SEEDS", "10"))))
def test_kills_outages_and_lost_stores_at_random(tmp_path: Path, seed: int, option: str) -> None:
    chance = random.Random(seed)
    flow = Detachable(tmp_path, "a", "b", "c")
    flow.flow = flow.flow.model_copy(update={"on_zookeeper_loss": option})
    for name in "abc":
        BROKERS[name].chance = chance
    for _ in range(40):
        for name in "abc":
            BROKERS[name].down = chance.random() < 0.25
        try:
            flow.go(line=lambda kept: Killing(Shaky(kept, chance), chance), max_batches=chance.randrange(1, 5))
        except (Killed, SinkUnavailableError, CheckpointUnavailableError):
            continue
    for name in "abc":
        BROKERS[name].down, BROKERS[name].chance = False, None
    flow.go()
    flow.assert_each_holds_all_once()
    assert flow.store.sinks_behind("shop") == ()
    entries = flow.store.history("shop", 999)[::-1]
    numbers = [entry.batch for entry in entries if entry.action == "commit"]
    assert numbers == sorted(set(numbers))
    for before, after in itertools.pairwise(entries):
        assert after.previous == before.offset


@pytest.mark.parametrize("option", ["stop", "continue"])
def test_a_lost_lease_is_claimed_again_with_its_sinks_behind(flow: Detachable, option: str) -> None:
    flow.flow = flow.flow.model_copy(update={"on_zookeeper_loss": option})
    flow.go(max_batches=2)
    BROKERS["b"].down = True

    def expire(batches: int) -> None:
        if batches == 3:
            flow.server.flow("shop").holder, BROKERS["b"].down = None, False

    result = flow.go(expire)
    assert (flow.store.history("shop", 1)[0].epoch, result.behind) == (3, {})
    flow.assert_each_holds_all_once()


def test_a_lost_lease_that_another_has_ends_the_run(flow: Detachable) -> None:
    def expire(batches: int) -> None:
        if batches == 2:
            flow.server.flow("shop").holder = None
            MemoryCheckpoints(flow.server).claim("shop", "another", 0)

    with pytest.raises(StaleEpochError, match="another"):
        flow.go(expire)
    assert flow.store.load("shop").batch == 2  # type: ignore[union-attr]
