"""Sinks with markers in this process, a store and sinks that end it, and a flow over them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from databus import Batching, Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.errors import (
    RecordingError,
    SinkSettingError,
    SinkUnavailableError,
)
from databus.core.findings import Finding
from databus.core.flow_specs import SinkSpec
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan
from databus.core.times import SystemClock
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.direct import task as direct_task
from databus.runtime.sink_outage import lagging_sinks as sinks_behind
from databus.runtime.sink_outage import outage, probe
from databus.runtime.window import run_window
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.window_result import WindowResult
from databus.sinks.kafka.markers import Marker, compare
from databus.sources.mock.source import MockSplit
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints, MemoryServer
from tests.unit.runtime.test_direct import InProcess

ROWS = 240

SLOTS = 2


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Broker:
    """What a sink holds, and how it is at the moment."""

    held: list[str] = field(default_factory=list)
    markers: dict[int, Marker] = field(default_factory=dict)
    down: bool = False
    refuses: bool = False
    fails_after: int | None = None
    chance: random.Random | None = None

    def touch(self) -> None:
        """Kill the process now and then; end here where the sink is away."""
        if self.chance is not None and self.chance.random() < 0.03:
            raise Killed
        if self.fails_after is not None:
            self.fails_after -= 1
            self.down = self.fails_after < 0
        if self.down:
            raise SinkUnavailableError("nobody answers")
        if self.refuses:
            raise SinkSettingError("read only")


BROKERS: dict[str, Broker] = {}


class Marked(SinkSpec):
    """A sink that keeps rows and marker together, in this process."""

    kind: ClassVar[str] = "marked"
    direct: ClassVar[bool] = True

    def open(self, *_: Any) -> Any:
        return MarkedSink(self.sink_name)


@dataclass
class MarkedSink:
    name: str

    def preflight(self) -> Sequence[Finding]:
        down = BROKERS[self.name].down
        return [Finding.of(self.name, SinkUnavailableError("away"))] if down else []

    def accepts(self) -> frozenset[str]:
        return frozenset("cudr")

    def prepare(self, *_: Any) -> SinkPlan:
        BROKERS[self.name].touch()
        return SinkPlan(SLOTS)

    def wrote_any_of(self, plan: Plan) -> bool:
        return any((m.batch, m.hash) == (plan.batch, plan.hash) for m in BROKERS[self.name].markers.values())

    def abandon(self, _plan: Plan) -> Mapping[int, str]:
        raise AssertionError("the flow does not change here")

    def fence(self, plan: Plan) -> Any:
        return HalfWritten(self.name, plan)

    def encoder(self, _plan: Plan) -> Any:
        return BySlot()

    def writer(self, plan: Plan) -> Any:
        return MarkedWriter(self.name, plan)

    def close(self) -> None:
        pass


@dataclass
class HalfWritten:
    """A plan that a sink holds a part of."""

    name: str
    plan: Plan

    def held(self) -> Sequence[int]:
        mine = self.plan.batch, self.plan.hash
        return [slot for slot, m in BROKERS[self.name].markers.items() if (m.batch, m.hash) == mine]

    def abandon(self) -> Mapping[int, str]:
        raise AssertionError("only plans that are half written are closed here")

    def put_back(self) -> None:
        pass

    def discard(self) -> None:
        pass


class BySlot:
    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        return rows.filter(pa.array(np.asarray(rows["place"]) % SLOTS == slot))


@dataclass
class MarkedWriter:
    name: str
    plan: Plan

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        broker = BROKERS[self.name]
        broker.touch()
        resume = compare(broker.markers.get(slot), self.plan, self.name, slot)
        ids: list[str] = []
        tables: Counter[str] = Counter()
        for batch in rows:
            ids += batch["event_id"].to_pylist()
            tables.update(
                f"{d}.{t}" for d, t in zip(batch["database"].to_pylist(), batch["table"].to_pylist(), strict=True)
            )
        if not resume.finished:
            broker.touch()
            broker.held += ids
            broker.markers[slot] = Marker(self.plan.batch, self.plan.hash)
            broker.touch()
        return WriteReceipt(self.name, slot, self.plan.batch, len(ids), dict(tables), duplicate=resume.finished)


class Killing:
    """A store that ends the process now and then, before or after a write was applied."""

    def __init__(self, store: Any, chance: random.Random):
        self._store, self._chance = store, chance

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in {"write_plan", "commit", "detach", "join", "start"}:
            return found

        def call(*args: Any) -> Any:
            if self._chance.random() < 0.08:
                raise Killed
            done = found(*args)
            if self._chance.random() < 0.08:
                raise Killed
            return done

        return call

    def of_sink(self, sink: str) -> Any:
        return Killing(self._store.of_sink(sink), self._chance)


class Reports:
    """Keeps the reports of batches."""

    def __init__(self) -> None:
        self.all: list[BatchReport] = []
        self.away = False

    def record(self, *reports: BatchReport) -> None:
        self.all += reports

    def paged(self, flow: str) -> int:
        return 0

    def page(self, flow: str, entries: Any) -> int:
        return 0

    def quarantine(self, *_: Any, **__: Any) -> None:
        raise AssertionError("nothing is held back here")

    def checked_batches(self, _flow: str, _after: int) -> list[Any]:
        if self.away:
            raise RecordingError("the records store does not answer")
        return []


MADE = MockSplit.read_text


@cache
def all_rows(options: str) -> pa.Table:
    """Return all rows of the source, made once: making them for each slot anew would be most of the tests' time."""
    split = MockSplit(json.loads(options), 1, ROWS // 2)
    return pa.Table.from_batches(list(MADE(split, {}))).combine_chunks()


def rows_of(split: MockSplit) -> list[pa.RecordBatch]:
    rows = all_rows(json.dumps(split.options))
    return rows.slice(2 * (split.first - 1), 2 * (split.last - split.first + 1)).to_batches()


@pytest.fixture(autouse=True)
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Broker]]:
    for module, name in ((probe, "PAUSE_S"), (sinks_behind, "_FIRST_PAUSE_S"), (outage, "FIRST_PAUSE_S")):
        monkeypatch.setattr(module, name, 0.001)
    monkeypatch.setattr(direct_task, "overlapped", lambda items, _ahead: (item for item in items))
    monkeypatch.setattr(MockSplit, "read_text", lambda split, *_: iter(rows_of(split)))
    BROKERS.update({name: Broker() for name in ("a", "b", "c")})
    yield BROKERS
    BROKERS.clear()


class Engine(InProcess):
    def interruptTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        pass

    addTag = interruptTag  # noqa: N815 - Spark's name


class Installation:
    """A flow, its store, and runs of it."""

    def __init__(self, *sinks: str, outage_s: float = 0.0):
        self.server = MemoryServer()
        self.reports = Reports()
        self.flow = Flow(
            name="shop",
            source=Mock(rows=ROWS, rows_per_transaction=2),
            sinks=tuple(Marked(name=name) for name in sinks),
            batching=Batching(max_rows=20, max_wait=timedelta(seconds=0.01), dispatch_time=timedelta(seconds=1e9)),
            sink_outage=timedelta(seconds=outage_s),
        )

    def run(self, chance: random.Random | None = None, **limits: Any) -> WindowResult:
        """Run a window; a process that is killed loses its lease, as its session ends."""
        kept = MemoryCheckpoints(self.server)
        store = Killing(kept, chance) if chance else kept
        settings = Settings("test", "", "")
        services = Services(settings, EnvironmentConnections({}), store, None, self.reports, SystemClock())  # type: ignore[arg-type]
        try:
            with open_session(self.flow, services, Engine(), RunIdentity("run", "", __version__)) as session:
                return run_window(session, WindowControl(WindowLimits(**{"until_caught_up": True, **limits})))
        finally:
            kept.close()

    @property
    def store(self) -> MemoryCheckpoints:
        return MemoryCheckpoints(self.server)

    def assert_each_holds_all_once(self) -> None:
        for spec in self.flow.sinks:
            held = BROKERS[spec.sink_name].held
            assert len(held) == len(set(held)) == ROWS, spec.sink_name
            for slot in range(SLOTS):
                mine = [int(e.split(":")[-3]) for e in held if int(e.split(":")[-3]) % SLOTS == slot]
                assert mine == sorted(mine), spec.sink_name
