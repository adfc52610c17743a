"""A flow of two sinks whose rows a check may hold, with replays in Spark; sinks that keep a file for each plan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pytest

from databus import Batching, Flow, InRange, Mock, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import SinkUnavailableError
from databus.core.findings import Finding
from databus.core.flow_specs import SinkSpec
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.plan import Plan
from databus.core.times import SystemClock
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay import replay_rows
from databus.records.quarantine.held_row import HeldRow, HeldState
from databus.records.quarantine.rows import Selection
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from databus.runtime import batch
from databus.runtime.beside import replay
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.read import read
from databus.runtime.sink_outage import lagging_sinks as sinks_behind
from databus.runtime.sink_outage import outage, probe
from databus.runtime.window import run_window
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.window_result import WindowResult
from databus.sinks.markerless import UnmarkedSink
from databus.testing.memory_store import MemoryCheckpoints, MemoryServer
from tests.unit.runtime.marked_sinks import Engine, Killing

ROWS = 20

LOOSE, STRICT = -1e9, 1e9
"""What `weight` is checked for: no row violates the first, all that have a weight the second."""

ADA = Attribution("ada", "the check was mended", consents=True)


class Folder(SinkSpec):
    """A sink that keeps what a plan wrote in a file of its own, so that tasks in other processes may write it once."""

    kind: ClassVar[str] = "folder"
    direct: ClassVar[bool] = True
    path: str

    def open(self, *_: Any) -> Any:
        return FolderSink(self.sink_name, Path(self.path))


class FolderSink(UnmarkedSink):
    def __init__(self, name: str, path: Path):
        super().__init__(name)
        self._path = path

    @property
    def down(self) -> bool:
        return (self._path / f"{self._name}.down").exists()

    def preflight(self) -> Sequence[Finding]:
        return [Finding.of(self._name, SinkUnavailableError("away"))] if self.down else []

    def prepare(self, *arguments: Any) -> Any:
        if self.down:
            raise SinkUnavailableError("away")
        return super().prepare(*arguments)

    def encode(self, rows: Any, _plan: Plan) -> Any:
        from pyspark.sql import functions as f

        return rows.select("event_id", "database", "table", *PLACE, f.lit(0).alias("slot"))

    def encoder(self, _plan: Plan) -> Any:
        return Whole()

    def writer(self, plan: Plan) -> Any:
        return FolderWriter(self._name, self._path, plan.batch, self._file(plan), down=self.down)

    def fence(self, plan: Plan) -> Any:
        return FencedFile(self._file(plan))

    def abandon(self, plan: Plan) -> Mapping[int, str]:
        file = self._file(plan)
        if not file.exists():
            file.touch()
        return {0: "written" if file.read_text() else "abandoned"}

    def _file(self, plan: Plan) -> Path:
        return self._path / f"{self._name}-{plan.flow}-{plan.batch}-{plan.hash}"


PLACE = ("log", "place", "ordinal", "part")


class Whole:
    def encode(self, rows: pa.RecordBatch, _slot: int) -> pa.RecordBatch:
        return rows


@dataclass
class FencedFile:
    file: Path

    def held(self) -> Sequence[int]:
        return [0] if self.file.exists() and self.file.read_text() else []

    def abandon(self) -> Mapping[int, str]:
        self.file.touch()
        return {0: "abandoned"}

    def put_back(self) -> None:
        if not self.held():
            self.file.unlink(missing_ok=True)

    def discard(self) -> None:
        pass


@dataclass(frozen=True)
class FolderWriter:
    sink: str
    path: Path
    batch: int
    file: Path
    down: bool

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        if self.down:
            raise SinkUnavailableError("away")
        ids: list[str] = []
        tables: Counter[str] = Counter()
        for rows_of in rows:
            ids += rows_of["event_id"].to_pylist()
            names = zip(rows_of["database"].to_pylist(), rows_of["table"].to_pylist(), strict=True)
            tables.update(f"{database}.{table}" for database, table in names)
        duplicate = self.file.exists()
        if not duplicate:
            self.file.write_text("\n".join(["written", *ids]))
        return WriteReceipt(self.sink, slot, self.batch, len(ids), dict(tables), duplicate=duplicate)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((probe, "PAUSE_S"), (sinks_behind, "_FIRST_PAUSE_S"), (outage, "FIRST_PAUSE_S")):
        monkeypatch.setattr(module, name, 0.001)


@pytest.fixture
def _read_once(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Read all rows of the source once: how replays read is not the subject, and takes them half a minute."""
    frames: list[Any] = []

    def read_part(session: Any, source: Any) -> tuple[Any, int]:
        if not frames:
            whole = session.source.reopen(OffsetRange(SequenceOffset(0), SequenceOffset(ROWS // 2)))
            frames.append(read(session, whole)[0].persist())
        first, last = (int(str(place)) for place in (source.range.start, source.range.end))
        return frames[0].where(frames[0]["place"].between(first + 1, last)), 1

    monkeypatch.setattr(replay, "read", read_part)
    monkeypatch.setattr(batch, "read", read_part)
    yield
    for frame in frames:
        frame.unpersist()


class Desk:
    """A flow of two sinks whose rows a check may hold: windows in this process, replays in Spark."""

    def __init__(self, path: Path, spark: Any, batch_rows: int = 100):
        self.path, self.spark, self.server, self.batch_rows = path, spark, MemoryServer(), batch_rows
        self.minimum = LOOSE
        self.lane: Literal["auto", "spark"] = "auto"
        self.chance: random.Random | None = None

    @property
    def flow(self) -> Flow:
        return Flow(
            name="shop",
            source=Mock(rows=ROWS, rows_per_transaction=2, null_ratio=0),
            checks=(InRange("weight", self.minimum, severity="quarantine"),),
            sinks=tuple(Folder(name=name, path=str(self.path)) for name in ("a", "b")),
            batching=Batching(
                max_rows=self.batch_rows, max_wait=timedelta(seconds=0.01), dispatch_time=timedelta(seconds=1e9)
            ),
            sink_outage=timedelta(seconds=0.0),
            lane=self.lane,
        )

    def down(self, *, away: bool) -> None:
        mark = self.path / "b.down"
        mark.touch() if away else mark.unlink(missing_ok=True)

    @contextmanager
    def services(self) -> Iterator[Services]:
        url = f"sqlite:///{self.path / 'records.db'}"
        kept = MemoryCheckpoints(self.server)
        store: Any = Killing(kept, self.chance) if self.chance else kept
        nothing: Any = None
        with SqlRecorder(RecordStore(url)) as recorder:
            try:
                settings = Settings("t", str(self.path), url)
                yield Services(settings, EnvironmentConnections({}), store, nothing, recorder, SystemClock())
            finally:
                kept.close()

    def run(self, **limits: Any) -> WindowResult:
        engine: Any = self.spark if self.lane == "spark" else Engine()
        with self.services() as services, open_session(self.flow, services, engine, self.identity) as session:
            return run_window(session, WindowControl(WindowLimits(until_caught_up=True, **limits)))

    def replay(self, *event_ids: str) -> list[ReplayResult]:
        with self.services() as services:
            return replay_rows(self.flow, services, (self.spark, self.identity), Selection(event_ids=event_ids), ADA)

    def discard(self, *event_ids: str) -> int:
        with self.services() as services:
            return quarantine.discard(self.flow, services, Selection(event_ids=event_ids), ADA)

    def listed(self, state: HeldState | None = HeldState.HELD) -> list[HeldRow]:
        with self.services() as services:
            return quarantine.select(self.flow, services, Selection(state))

    def given(self, sink: str) -> Counter[str]:
        """Event ids in a sink, with how often."""
        found = Counter[str]()
        for file in self.path.glob(f"{sink}-*"):
            found.update(file.read_text().split("\n")[1:])
        return found

    identity = RunIdentity("run", "", __version__)


def once(*sinks: Counter[str]) -> bool:
    return all(sink.total() == len(sink) == ROWS for sink in sinks)
