"""Views of a snapshot that are read side by side, and chunks read ahead: nothing is left of what is not delivered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.segments.chunk_store import ChunkStore
from databus.core.batching import Batching
from databus.core.errors import SourceUnavailableError
from databus.core.state.snapshot import ChunkFile, Snapshot, TableProgress
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot import snapshot_reader
from databus.sources.mysql.snapshot.chunk_file import read_chunk
from databus.sources.mysql.snapshot.snapshot_reader import SnapshotReader
from databus.sources.mysql.snapshot_options import SnapshotOptions
from databus.sources.mysql.source import MysqlBinlogSource
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration

ROWS, LIMIT = 300, Batching(max_rows=120)


@pytest.fixture
def filled(shop: Shop) -> Shop:
    """A shop with a table `t` of rows 0, 2, 4, …"""
    values = ", ".join(f"({2 * n}, 0)" for n in range(ROWS))
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {shop.name}.t VALUES {values}",
    )
    return shop


def begun(shop: Shop) -> Snapshot:
    return Snapshot(1, "request", datetime.now(UTC), (TableProgress(f"{shop.name}.t"),))


def files_of(shop: Shop) -> list[Path]:
    return sorted(path for path in (shop.folder / "segments").glob("*/*/chunks/*") if path.is_file())


class Reading:
    """A reader of three views on a shop of its own."""

    def __init__(self, shop: Shop, source: MysqlBinlogSource, threads: int = 3):
        self.shop, self.source = shop, source
        server = MysqlServer(shop.connection)
        self.store = ChunkStore(str(shop.folder / "segments"), shop.name, server.identity)
        self.reader = SnapshotReader(server, source._capture, SnapshotOptions(threads=threads))

    def read(self, snapshot: Snapshot, limit: Batching = LIMIT) -> tuple[list[ChunkFile], Snapshot]:
        chunks, after = self.reader.read(self.source.latest_offset(), snapshot, limit, self.store)
        return [chunk.file for chunk in chunks], after

    def ids(self, files: Sequence[ChunkFile]) -> list[list[int]]:
        return [
            [
                n
                for piece in read_chunk(self.store.address(file.name), file.sha256)
                for n in piece.images["id"].to_pylist()
            ]
            for file in files
        ]


@pytest.fixture
def reading(filled: Shop) -> Any:
    source = filled.open()
    found = Reading(filled, source)
    yield found
    source.close()
    found.reader.close()


def test_three_views_read_each_row_once(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    met, threads = threading.Barrier(3, timeout=100), set[str]()
    wrote = snapshot_reader._read

    def read(*arguments: Any) -> ChunkFile:
        if len(threads) < 3:
            threads.add(threading.current_thread().name)
            met.wait()
        return wrote(*arguments)

    monkeypatch.setattr(snapshot_reader, "_read", read)
    files, after = reading.read(begun(reading.shop))
    assert len(threads) == 3
    assert [len(found) for found in reading.ids(files)] == [40, 40, 40]
    assert after.tables[0].chunks == 3
    more, end = reading.read(after, Batching(max_rows=1000))
    assert end.current is None
    assert [n for found in reading.ids([*files, *more]) for n in found] == [2 * n for n in range(ROWS)]


def test_a_view_that_fails_throws_the_others_chunks_away(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    wrote, done = snapshot_reader._read, threading.Event()
    seen: list[int] = []

    def read(view: Any, snapshot: int, chunk: Any, *more: Any) -> ChunkFile:
        if chunk.number == 2:
            assert done.wait(100)
            seen.append(len(files_of(reading.shop)))
            raise SourceUnavailableError("cut off")
        file = wrote(view, snapshot, chunk, *more)
        done.set()
        return file

    monkeypatch.setattr(snapshot_reader, "_read", read)
    with pytest.raises(SourceUnavailableError, match="cut off"):
        reading.read(begun(reading.shop))
    assert seen[0] > 0
    assert files_of(reading.shop) == []


def test_a_kill_while_views_are_open_leaves_no_files(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[int, int]]()

    def killed(begun: Any, **options: Any) -> Any:
        wait(begun, timeout=100, **options)
        seen.append((len(files_of(reading.shop)), sessions_of(reading.shop)))
        raise KeyboardInterrupt

    before = sessions_of(reading.shop)
    monkeypatch.setattr("databus.sources.mysql.snapshot.snapshot_reader.wait", killed)
    with pytest.raises(KeyboardInterrupt):
        reading.read(begun(reading.shop))
    assert seen == [(3, before + 4 + 1)]  # one of the views finds the bounds; the reader asks on one more
    assert files_of(reading.shop) == []
    reading.shop.wait_for(lambda: sessions_of(reading.shop) <= before + 1)


def sessions_of(shop: Shop) -> int:
    return int(shop.sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'root'")[0][0])


def test_chunks_are_read_while_the_batch_before_is_delivered(filled: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    one = snapshot_reader.SnapshotReader.read

    def read(self: SnapshotReader, *arguments: Any) -> Any:
        reads.append(threading.current_thread().name)
        return one(self, *arguments)

    monkeypatch.setattr(SnapshotReader, "read", read)
    source = filled.open()
    try:
        first = source.plan_chunks(source.latest_offset(), begun(filled), LIMIT)
        assert first is not None
        (plan, behind) = first
        assert behind is not None
        assert plan.rows == 120
        # Behind the end of that batch, and perhaps read already: the log has them.
        filled.sql(
            f"UPDATE {filled.name}.t SET v = 1 WHERE id = 250", f"UPDATE {filled.name}.t SET id = 1 WHERE id = 252"
        )
        second = source.plan_chunks(plan.range.end, behind, LIMIT)
        assert second is not None
        assert second[1] is not None
        assert [name for name in reads if name != "MainThread"] == reads[1:]
        assert reads[0] == "MainThread"
        (chunk,) = second[0].chunks
        assert (chunk.rows + chunk.superseded, second[0].rows - chunk.rows) == (120, 2)
        # What nobody takes is deleted: a pause, another place, the end of the window.
        filled.wait_for(lambda: sum(path.suffix == ".chunk" for path in files_of(filled)) == 3)
        assert source.plan(second[0].range.end, Batching(max_wait=LIMIT.max_wait / 100)) is None
        assert len(files_of(filled)) == 2
        moved = replace(second[1], tables=(replace(second[1].tables[0], rows=1),))
        assert source.plan_chunks(second[0].range.end, second[1], LIMIT) is not None
        assert source.plan_chunks(second[0].range.end, moved, LIMIT) is not None
        assert reads.count("MainThread") == 3
    finally:
        source.close()
    kept = {file.name for file in files_of(filled)}
    assert len(kept) == 4  # of the four plans
    assert not [thread for thread in threading.enumerate() if thread.name == "databus-chunks-ahead"]
