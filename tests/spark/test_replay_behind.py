"""Held rows, replays and a sink that is behind, in any order: each sink gets each row once, or it is listed for it."""

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
from databus.core.batches.receipts import CHECK, RejectedRow, WriteReceipt
from databus.core.errors import CheckpointConflictError, DatabusError, SinkUnavailableError
from databus.core.findings import Finding
from databus.core.flow_specs import SinkSpec
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.amendments import Amendment
from databus.core.state.plan import Plan
from databus.core.times import SystemClock
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay import _Replays, replay_rows
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
from tests.unit.runtime.test_sinks_behind import Engine, Killed, Killing

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

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


@pytest.fixture
def desk(tmp_path: Path, spark: Any) -> Desk:
    return Desk(tmp_path, spark)


def held_and_behind(desk: Desk) -> list[str]:
    """Let the check hold all rows that have a weight while sink b is away; return their ids."""
    desk.minimum = STRICT
    desk.down(away=True)
    assert list(desk.run().behind) == ["b"]
    desk.down(away=False)
    desk.minimum = LOOSE
    held = [row.event_id for row in desk.listed()]
    assert {row.stage for row in desk.listed()} == {CHECK}
    assert (desk.given("a").total(), desk.given("b").total(), len(held)) == (ROWS - len(held), 0, 18)
    return held


def once(*sinks: Counter[str]) -> bool:
    return all(sink.total() == len(sink) == ROWS for sink in sinks)


@pytest.mark.usefixtures("_read_once")
def test_a_sink_that_catches_up_under_a_mended_check_leaves_held_rows_to_their_replay(desk: Desk) -> None:
    held = held_and_behind(desk)
    result = desk.run()
    assert result.behind == {}
    assert desk.given("b") == desk.given("a")
    assert not desk.given("b") & Counter(held)
    (done,) = desk.replay()
    assert (done.replayed, {name: given.dispatched for name, given in done.sinks.items()}) == (18, {"a": 18, "b": 18})
    assert once(desk.given("a"), desk.given("b"))


@pytest.mark.usefixtures("_read_once")
def test_a_replay_of_rows_that_a_sink_has_yet_to_pass_waits_until_it_has(desk: Desk) -> None:
    held_and_behind(desk)
    with pytest.raises(CheckpointConflictError, match=r"sink b .*stands at 0") as refused:
        desk.replay()
    assert refused.value.code == "quarantine_sink_behind"
    assert len(desk.listed()) == 18
    desk.run()
    desk.replay()
    assert once(desk.given("a"), desk.given("b"))


@pytest.mark.usefixtures("_read_once")
def test_what_a_sink_got_by_a_replay_it_leaves_out_when_it_catches_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replays of the version before did not ask whether a sink was behind; one may be finished as it was begun."""
    held_and_behind(desk)
    monkeypatch.setattr("databus.ops.quarantine.replay.require_passed", lambda *_: None)
    desk.replay()
    desk.minimum = STRICT  # nor does it hold them anew
    desk.run()
    assert once(desk.given("a"), desk.given("b"))
    assert desk.listed() == []


@pytest.mark.usefixtures("_read_once")
def test_in_the_other_lane_it_leaves_them_out_as_well(desk: Desk) -> None:
    desk.lane = "spark"
    held = held_and_behind(desk)
    desk.discard(*held[2:])
    assert desk.run().caught_up == {"b": ROWS - 18}
    desk.replay()
    assert desk.given("b") == desk.given("a")
    assert set(desk.given("a").values()) == {1}
    assert [event for event in held if event in desk.given("b")] == held[:2]


@pytest.mark.usefixtures("_read_once")
def test_what_was_discarded_meanwhile_goes_to_no_sink(desk: Desk) -> None:
    held = held_and_behind(desk)
    desk.discard(held[0])
    desk.run()
    desk.replay()
    for sink in ("a", "b"):
        assert desk.given(sink).total() == len(desk.given(sink)) == ROWS - 1
        assert held[0] not in desk.given(sink)


@pytest.mark.usefixtures("_read_once")
def test_what_a_stricter_check_holds_of_a_sink_alone_is_sent_to_it_alone(desk: Desk) -> None:
    desk.down(away=True)
    desk.run()
    desk.down(away=False)
    desk.minimum = STRICT
    desk.run()
    held = desk.listed()
    assert {(row.stage, row.batch) for row in held} == {("b", 2)}
    assert (desk.given("a").total(), desk.given("b").total(), len(held)) == (ROWS, ROWS - 18, 18)
    (still,) = desk.replay()  # nothing was mended yet
    assert (still.replayed, still.held) == (0, 18)
    desk.minimum = LOOSE
    (done,) = desk.replay()
    assert (done.replayed, {name: given.dispatched for name, given in done.sinks.items()}) == (18, {"b": 18})
    assert once(desk.given("a"), desk.given("b"))


@pytest.mark.usefixtures("_read_once")
def test_a_replay_that_is_finished_after_a_closing_was_cut_off_answers_for_what_the_closing_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log was away for a while: an entry of a sink that the closing made is answered by the check's."""
    desk.minimum = STRICT
    desk.run()
    desk.minimum = LOOSE
    held = desk.listed()

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(_Replays, "_commit", killed)
        with pytest.raises(Killed):
            desk.replay(held[0].event_id)
    with desk.services() as services:
        row = RejectedRow(held[0].event_id, held[0].table, None, "a cause, replay 1 could not be …", "b", "p", "{}")
        services.recorder.quarantine("shop", held[0].batch, [row])
    (done,) = desk.replay(held[0].event_id)
    assert (done.replayed, desk.given("a")[held[0].event_id], desk.given("b")[held[0].event_id]) == (1, 1, 1)
    assert [row.event_id for row in desk.listed()] == [row.event_id for row in held[1:]]


@pytest.mark.usefixtures("_read_once")
def test_held_rows_that_the_flow_moved_again_behind_a_rewind_are_not_sent_once_more(desk: Desk) -> None:
    """Else they came after newer rows of their keys; one that a sink has refused since goes to that sink alone."""
    desk.minimum = STRICT
    desk.run()
    held = [row.event_id for row in desk.listed()]
    with desk.services() as services:
        lease = services.store.claim("shop", "ada", 0.0)
        made = Amendment("rewind", "ada", "the check was mended", SequenceOffset(0), None, {}, None, {})
        services.store.amend("shop", lease, made)
        lease.release()
    desk.minimum = LOOSE
    desk.run()
    with desk.services() as services:
        refused = RejectedRow(held[0], "shop.orders", None, "too large", "b", "p", "{}")
        services.recorder.quarantine("shop", 2, [refused], plan_hash="whatever")
    (done,) = desk.replay()
    assert (done.batch, done.replayed, list(done.sinks)) == (2, 1, ["b"])
    assert {event: desk.given("a")[event] for event in held} == dict.fromkeys(held, 1)
    assert {event: desk.given("b")[event] for event in held} == {**dict.fromkeys(held, 1), held[0]: 2}
    assert desk.listed() == []


@pytest.mark.usefixtures("_read_once")
@pytest.mark.parametrize(("steps", "seed"), [(6, 0), *((12, seed) for seed in range(8))])
def test_in_any_order_each_sink_has_each_row_once_or_it_is_listed(
    tmp_path: Path, spark: Any, steps: int, seed: int
) -> None:
    chance = random.Random(seed)
    desk, told = Desk(tmp_path, spark, batch_rows=6), [f"seed {seed}"]

    def step(what: str) -> None:
        told.append(what)
        before = desk.minimum
        try:
            if what == "run":
                desk.run(max_batches=chance.choice([1, 2, None]))
            elif what == "catch up":
                for _ in range(20):
                    if not desk.run().behind:
                        break
            elif what == "replay":
                desk.replay()
            elif what == "discard":
                held = desk.listed()
                if held:
                    desk.discard(chance.choice(held).event_id)
            elif what in ("strict", "loose"):
                desk.minimum = STRICT if what == "strict" else LOOSE
            else:
                desk.down(away=what == "away")
        except Killed:
            told[-1] += " killed"
        except DatabusError as error:
            told[-1] += f" {error.code}"
            # What is half written is finished by the definition under which it was begun.
            if error.code == "checkpoint_plan_changed":
                desk.minimum = STRICT if before == LOOSE else LOOSE
        assert_once(desk, told)

    desk.minimum = chance.choice([STRICT, LOOSE])
    desk.chance = chance if seed % 2 else None
    for what in ("away", "run", *chance.choices(STEPS, weights=WEIGHTS, k=steps)):
        step(what)
    desk.chance = None
    for what in ("back", "catch up", "replay", "loose", "catch up", "replay"):
        step(what)
    assert_once(desk, told, over=True)


STEPS, WEIGHTS = ("run", "replay", "discard", "strict", "loose", "away", "back"), (5, 2, 1, 2, 2, 1, 2)


def assert_once(desk: Desk, told: Sequence[str], *, over: bool = False) -> None:
    """No sink has a row twice; in the end it has each that is not listed for it."""
    held = [row for row in desk.listed(None) if row.state is not HeldState.REPLAYED]
    for sink in ("a", "b"):
        given = desk.given(sink)
        assert given.total() == len(given), (sink, told, [event for event, times in given.items() if times > 1])
        if over:
            listed = {row.event_id for row in held if row.stage in (CHECK, sink)}
            assert len(given.keys() | listed) == ROWS, (sink, told)
