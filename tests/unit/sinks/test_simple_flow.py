"""Flows from a simple source into a simple sink, cut off around the commit, edited, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from databus import Batching, Flow, SimpleSource, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import PlanChangedError, SinkUnavailableError
from databus.core.positions.offsets import Offset, SequenceOffset
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.runtime import batch as batches
from databus.runtime.context import RunIdentity, Services, open_session
from databus.sources.simple import RowChange, Table
from databus.testing.memory_store import MemoryCheckpoints
from tests.contract.simple_sinks import LinesSink, SqliteSink
from tests.direct_engine import DirectEngine, Task

NUMBERS = 50
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


class Counted(SimpleSource):
    kind: ClassVar[str] = "counted"
    tables: ClassVar[tuple[Table, ...]] = (Table("demo.numbers", {"n": "bigint"}, ("n",)),)

    def head(self) -> SequenceOffset:
        return SequenceOffset(NUMBERS)

    def read(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        for n in range(self.place_of(start) + 1, self.place_of(end) + 1):
            yield RowChange(SequenceOffset(n), "demo.numbers", SINCE + timedelta(seconds=n), {"n": n})


class OneProcess(DirectEngine):
    def run(self, task: Task, numbers: range) -> list[dict[str, Any]]:
        given = ([pa.RecordBatch.from_pydict({"id": pa.array([n], pa.int64())})] for n in numbers)
        return [row for one in given for answer in task(one) for row in answer.to_pylist()]


class Recorder:
    """Keeps nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: 0


class Runs:
    """A flow, its checkpoints, and runs that are cut off."""

    def __init__(self, sink: LinesSink):
        self.sink = sink
        self.flow = Flow(
            name="f", source=Counted(), sinks=(sink,), batching=Batching(max_rows=12, max_wait=timedelta(seconds=0.1))
        )
        self.store = MemoryCheckpoints()

    def edited(self) -> Flow:
        return self.flow.model_copy(update={"sinks": (self.sink.model_copy(update={"routes": ("demo.*",)}),)})

    def run(self, flow: Flow | None = None, most: int = 100) -> None:
        flow = flow or self.flow
        services: Any = Services(
            Settings("test", "", ""), EnvironmentConnections({}), self.store, None, Recorder(), SystemClock()
        )
        lease = self.store.claim("f", "run", 0)
        try:
            with open_session(flow, services, OneProcess(), RunIdentity("run", "", __version__)) as session:
                at = self.store.load("f") or self.store.start("f", lease, session.source.start_offset(), "run")
                while most and batches.run_batch(session, lease, at) is not None:
                    at, most = self.store.load("f"), most - 1
        finally:
            lease.release()

    def numbers(self) -> list[int]:
        return [line["key"]["n"] for line in self.sink.lines()]


@pytest.fixture
def once(tmp_path: Path) -> Runs:
    return Runs(SqliteSink(path=str(tmp_path / "rows.db")))


@pytest.fixture
def again(tmp_path: Path) -> Runs:
    return Runs(LinesSink(path=str(tmp_path / "rows")))


class KilledError(Exception):
    """Stands for a kill."""


def cut_off_at_commit(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(batches, "commit", killed)
        with pytest.raises(KilledError):
            runs.run()


def cut_off_before_the_write(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise SinkUnavailableError("away")

    with monkeypatch.context() as patched:
        patched.setattr(type(runs.sink), "write", away)
        with pytest.raises(SinkUnavailableError):
            runs.run()


def test_exactly_once_over_kills_at_the_commit(once: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        cut_off_at_commit(once, monkeypatch)
        once.run(most=2)
    once.run()
    assert once.numbers() == list(range(1, NUMBERS + 1))


def test_at_least_once_writes_the_batch_in_hand_again(again: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off_at_commit(again, monkeypatch)
    again.run()
    assert again.numbers() == [*range(1, 13), *range(1, NUMBERS + 1)]
    lines = again.sink.lines()
    assert lines[:12] == lines[12:24]
    assert len({line["event_id"] for line in lines}) == NUMBERS


def test_a_flow_that_is_edited_while_its_sink_holds_the_batch_stops(
    once: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off_at_commit(once, monkeypatch)
    with pytest.raises(PlanChangedError, match="already in: sqlite"):
        once.run(once.edited())
    once.run(most=1)
    once.run(once.edited())
    assert once.numbers() == list(range(1, NUMBERS + 1))


def test_a_flow_that_is_edited_before_its_sink_holds_anything_goes_on(
    once: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    once.run(most=1)
    cut_off_before_the_write(once, monkeypatch)
    once.run(once.edited())
    assert once.numbers() == list(range(1, NUMBERS + 1))


def test_a_closed_batch_goes_on_once_the_edit_is_taken_back(once: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KilledError

    once.run(most=1)
    cut_off_before_the_write(once, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(Counted, "head", killed)
        with pytest.raises(KilledError):  # after the plan was closed, before another one is written
            once.run(once.edited())
    sink: Any = once.sink.open(EnvironmentConnections({}), _context())
    assert [mark.closed for mark in sink.marks(1)] == [True]
    once.run()
    assert once.numbers() == list(range(1, NUMBERS + 1))


def _context() -> Any:
    from databus.core.flow_specs import FlowContext

    return FlowContext("f", Settings("test", "", ""))
