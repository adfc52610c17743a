"""Chunks read ahead: taken for exactly the batch that they were read for, else deleted and read anew."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.batching import Batching
from databus.core.errors.source import SnapshotNotYetVisibleError, SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.snapshot import ChunkFile, Snapshot, TableProgress
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.snapshot.chunks_ahead import ChunksAhead
from databus.sources.mysql.snapshot.snapshot_reader import ReadChunk, ReadingStopped

AT = BinlogOffset("log.000001", 100, "", "mysql", "s")
BEGUN = Snapshot(1, "initial", datetime(2024, 1, 31, tzinfo=UTC), (TableProgress("shop.t"),))
BEHIND = replace(BEGUN, tables=(TableProgress("shop.t", state="done", chunks=1),))
FEW, MORE = Batching(max_rows=5), Batching(max_rows=10)


@dataclass
class Reader:
    """A reader of one chunk of 8 rows."""

    fails: Exception | None = None
    waits: bool = False

    def read(self, _covers: Any, _snapshot: Any, _limit: Any, _store: Any, stop: threading.Event) -> Any:
        while self.waits and not stop.wait(0.01):
            pass
        if stop.is_set():
            raise ReadingStopped
        if self.fails is not None:
            raise self.fails
        return [ReadChunk(ChunkFile("a.chunk", "a", "shop.t", 8), TableSchema(-1, "shop", "t", ()), ())], BEHIND

    def cut(self) -> None:
        pass


@dataclass
class Store:
    deleted: list[str] = field(default_factory=list)

    def delete(self, name: str) -> None:
        self.deleted.append(name)


def begun(reader: Reader, limit: Batching) -> tuple[ChunksAhead, Store]:
    ahead, store = ChunksAhead(reader), Store()  # type: ignore[arg-type]
    ahead.begin(AT, BEGUN, limit, store)  # type: ignore[arg-type]
    return ahead, store


def test_a_table_that_is_read_whole_is_taken_though_it_has_more_rows_than_a_batch() -> None:
    ahead, store = begun(Reader(), FEW)
    read = ahead.take(AT, BEGUN, FEW)
    assert read is not None
    assert [chunk.file.rows for chunk in read[0]] == [8]
    ahead.drop()
    assert store.deleted == []


@pytest.mark.parametrize(
    ("covers", "snapshot", "limit"),
    [(replace(AT, pos=200), BEGUN, MORE), (AT, replace(BEGUN, number=2), MORE), (AT, BEGUN, FEW)],
)
def test_chunks_of_another_batch_are_deleted(covers: BinlogOffset, snapshot: Snapshot, limit: Batching) -> None:
    ahead, store = begun(Reader(), MORE)
    assert ahead.take(covers, snapshot, limit) is None
    assert store.deleted == ["a.chunk"]
    assert ahead.take(AT, BEGUN, MORE) is None


def test_a_reading_that_goes_on_is_ended() -> None:
    ahead, store = begun(Reader(waits=True), MORE)
    ahead.drop()
    assert store.deleted == []
    assert not [thread for thread in threading.enumerate() if thread.name == "databus-chunks-ahead"]


def test_a_view_that_came_too_late_is_told_and_another_failure_is_read_anew() -> None:
    late, _ = begun(Reader(fails=SnapshotNotYetVisibleError("not yet")), MORE)
    with pytest.raises(SnapshotNotYetVisibleError):
        late.take(AT, BEGUN, MORE)
    lost, _ = begun(Reader(fails=SourceUnavailableError("gone")), MORE)
    assert lost.take(AT, BEGUN, MORE) is None


def test_a_machine_without_a_thread_left_reads_nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        ahead, store = begun(Reader(), MORE)
    assert ahead.take(AT, BEGUN, MORE) is None
    ahead.drop()
    assert store.deleted == []
