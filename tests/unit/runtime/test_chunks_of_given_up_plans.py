"""Chunks of a plan that a changed flow gives up, and of one that a sink takes along when it falls behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from databus.core.batching import Batching
from databus.core.errors import SinkUnavailableError
from databus.core.errors.source import ChunkFileError
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot import ChunkFile, Snapshot, TableProgress
from databus.sources.mock.log import log_of
from databus.sources.mock.source import MockSource, MockSplit
from databus.sources.mock.spec import Mock
from tests.unit.runtime.marked_sinks import BROKERS, ROWS, Installation, brokers, rows_of

__all__ = ["brokers"]
CHUNK = 10
LOST: set[str] = set()
FILE = ChunkFile("1.chunk", "1", "demo.orders", CHUNK)


@dataclass(frozen=True)
class ChunkOfMock(MockSplit):
    """The first rows of the log as a chunk: rows of op "r" in all but name."""

    def read_text(self, *_: Any, **__: Any) -> Iterator[pa.RecordBatch]:
        for batch in rows_of(MockSplit(self.options, self.first, self.last)):
            ids = pa.array([f"snapshot-1-1-0:{n}:0" for n in range(len(batch))])
            yield batch.set_column(batch.schema.get_field_index("event_id"), "event_id", ids)


class SnapshotOfMock(MockSource):
    """A mock source of one chunk."""

    read = 0

    def __init__(self, spec: Mock) -> None:
        super().__init__(spec)
        self.options = spec

    def snapshot_tables(self) -> Sequence[TableProgress]:
        return (TableProgress(FILE.table),)

    def snapshot_tables_added(self, _before: Any) -> Sequence[TableProgress]:
        return ()

    def snapshot_findings(self) -> Sequence[Any]:
        return ()

    def snapshot_load(self) -> str:
        return ""

    def plan_chunks(self, after: Offset, snapshot: Snapshot, _limit: Batching) -> tuple[SourcePlan, Snapshot]:
        type(self).read += 1
        done = replace(snapshot.tables[0], state="done", chunks=1, rows=CHUNK)
        plan = SourcePlan(OffsetRange(after, after), (), 0, 0)
        return self.with_chunks(plan, (replace(FILE, name=f"{self.read}.chunk"),)), replace(snapshot, tables=(done,))

    def with_chunks(self, plan: SourcePlan, chunks: Sequence[ChunkFile]) -> SourcePlan:
        if any(file.name in LOST for file in chunks):
            raise ChunkFileError("the chunk file is gone")
        spec = self.options
        tables = tuple(each.schema for each in log_of(spec).planned(1, 1))
        return replace(plan, tables=tables, rows=plan.rows + CHUNK, chunks=tuple(chunks))

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        return SourcePlan(planned, (), 0, 0) if planned.empty else super().reopen(planned)

    plan_exactly = reopen

    def located(self, place: Offset, _standing: Offset) -> Offset:
        return place

    def boundary_at(self, _when: datetime) -> Any:
        raise AssertionError("nothing is looked for by time")

    def splits(self, plan: SourcePlan, count: int) -> Sequence[Any]:
        options = {"rows": ROWS, "rows_per_transaction": 2}
        mine = [ChunkOfMock(options, 1, CHUNK // 2)] if plan.chunks else []
        return [*mine, *(() if plan.range.empty else super().splits(plan, count))]


class Snapped(Mock):
    """A mock source that has snapshots."""

    kind: ClassVar[str] = "snapped"

    def open(self, *_: Any) -> Any:
        return SnapshotOfMock(self)

    def begins_with_snapshot(self) -> bool:
        return False


class IdleFlow(Installation):
    """A flow whose source stands idle behind all its rows, with a snapshot that has begun."""

    def __init__(self, *sinks: str) -> None:
        super().__init__(*sinks)
        self.flow = self.flow.model_copy(update={"source": Snapped(rows=ROWS, rows_per_transaction=2)})
        self.run()
        begun = Snapshot(1, "request", datetime.now(UTC), (TableProgress(FILE.table),))
        self.store.begin_snapshot("shop", None, begun, "ann", "why")

    def edit(self) -> None:
        self.flow = self.flow.model_copy(update={"source": Snapped(rows=ROWS, rows_per_transaction=2, seed=7)})


def of_chunk(sink: str) -> int:
    return sum(event.startswith("snapshot-") for event in BROKERS[sink].held)


def test_a_sink_that_fell_behind_with_chunks_alone_catches_up_though_nothing_is_logged() -> None:
    flow = IdleFlow("a", "b")
    BROKERS["b"].fails_after = 1
    assert list(flow.run(max_seconds=20.0).behind) == ["b"]
    assert (of_chunk("a"), of_chunk("b")) == (CHUNK, 0)
    BROKERS["b"] = replace(BROKERS["b"], down=False, fails_after=None)
    assert flow.run(max_seconds=20.0).behind == {}
    assert (of_chunk("a"), of_chunk("b")) == (CHUNK, CHUNK)


def test_a_changed_flow_gives_a_sink_that_is_behind_the_chunks_that_the_others_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = IdleFlow("a", "b")
    BROKERS["b"].fails_after = 1
    flow.run(max_seconds=20.0)
    assert (of_chunk("a"), of_chunk("b")) == (CHUNK, 0)
    BROKERS["b"] = replace(BROKERS["b"], down=False, fails_after=None)
    flow.edit()
    closes(monkeypatch)
    assert flow.run(max_seconds=20.0).behind == {}
    assert (of_chunk("a"), of_chunk("b")) == (CHUNK, CHUNK)


def test_a_changed_flow_goes_on_from_chunks_alone_though_nothing_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = IdleFlow("a")
    BROKERS["a"].fails_after = 1
    with pytest.raises(SinkUnavailableError):
        flow.run(max_seconds=20.0)
    BROKERS["a"] = replace(BROKERS["a"], down=False, fails_after=None)
    flow.edit()
    closes(monkeypatch)
    flow.run(max_seconds=20.0)
    assert of_chunk("a") == CHUNK
    snapshot = flow.store.snapshot("shop")
    assert snapshot is not None
    assert snapshot.finished_at is not None


def test_chunks_that_are_lost_are_read_again_where_no_sink_has_any_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = IdleFlow("a")
    BROKERS["a"].fails_after = 1
    with pytest.raises(SinkUnavailableError):
        flow.run(max_seconds=20.0)
    BROKERS["a"] = replace(BROKERS["a"], down=False, fails_after=None)
    monkeypatch.setattr(f"{__name__}.LOST", {f"{SnapshotOfMock.read}.chunk"})
    closes(monkeypatch)
    flow.run(max_seconds=20.0)
    assert of_chunk("a") == CHUNK


def test_chunks_that_are_lost_stop_a_batch_that_a_sink_holds_a_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = IdleFlow("a")
    BROKERS["a"].fails_after = 4  # the first slot is written
    with pytest.raises(SinkUnavailableError):
        flow.run(max_seconds=20.0)
    BROKERS["a"] = replace(BROKERS["a"], down=False, fails_after=None)
    assert 0 < of_chunk("a") < CHUNK
    monkeypatch.setattr(f"{__name__}.LOST", {f"{SnapshotOfMock.read}.chunk"})
    with pytest.raises(ChunkFileError, match=r"the chunk file is gone; batch \d+ is already in a"):
        flow.run(max_seconds=20.0)
    monkeypatch.setattr(f"{__name__}.LOST", set())
    flow.run(max_seconds=20.0)
    assert of_chunk("a") == CHUNK


def closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sinks that hold nothing of a plan close it."""
    from databus.runtime.takeover import given_up
    from databus.runtime.takeover.closing import ClosingOutcome

    def close(sinks: Any, pending: Any, _lease: Any) -> ClosingOutcome:
        for name in sinks:
            assert not BROKERS[name].held or pending.hash not in {m.hash for m in BROKERS[name].markers.values()}
        return ClosingOutcome((), {})

    monkeypatch.setattr(given_up, "close_unwritten", close)


class Dropping(SnapshotOfMock):
    """A mock source that can be compared, and says which chunks it was to delete."""

    dropped: ClassVar[list[str]] = []

    def read_chunks(self, *_: Any) -> Any:
        raise AssertionError("nothing is compared")

    def end_of_log(self, standing: Offset) -> Offset:
        return standing

    def drop_chunks(self, plan: SourcePlan) -> None:
        self.dropped.extend(file.name for file in plan.chunks)


class SnappedAndDropping(Snapped):
    """A mock source that has snapshots, and deletes chunks."""

    kind: ClassVar[str] = "dropping"

    def open(self, *_: Any) -> Any:
        return Dropping(self)


def test_chunks_of_a_batch_that_cannot_be_planned_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that is away when its outputs are prepared: each attempt reads them anew."""
    flow = IdleFlow("a")
    flow.flow = flow.flow.model_copy(update={"source": SnappedAndDropping(rows=ROWS, rows_per_transaction=2)})
    Dropping.dropped.clear()

    def away(*_: Any) -> Any:
        raise SinkUnavailableError("nobody answers")

    with monkeypatch.context() as lost:
        lost.setattr("databus.runtime.plan.prepare", away)
        with pytest.raises(SinkUnavailableError):
            flow.run(max_seconds=20.0)
    assert Dropping.dropped == [f"{Dropping.read}.chunk"]
    flow.run(max_seconds=20.0)
    assert of_chunk("a") == CHUNK
    assert len(Dropping.dropped) == 1
