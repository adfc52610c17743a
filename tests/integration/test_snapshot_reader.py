"""Reader of a snapshot on real servers: a table is locked, hidden, taken out of the flow, or a view comes late."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from pydantic import SecretStr

from databus import RangePartition, SnapshotOptions
from databus.binlog.log.capture import TableCapture
from databus.binlog.segments.chunk_store import ChunkStore
from databus.core.batching import Batching
from databus.core.errors import ConfigError
from databus.core.errors.source import SourceAccessError
from databus.core.positions.gtid import MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot import chunk_fit, chunk_planning, next_chunks, snapshot_reader
from databus.sources.mysql.snapshot.snapshot_reader import SnapshotReader
from databus.sources.mysql.snapshot.touched_keys import TouchedKeys
from databus.sources.mysql.snapshot.views import consistent_view
from databus.sources.mysql.snapshot.views.consistent_view import ConsistentView
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


@pytest.fixture
def reading(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop of tables `a` and `b` of three rows, and time to read both in one view."""
    monkeypatch.setattr(snapshot_reader, "BATCH_S", 60.0)
    for table in "ab":
        shop.sql(
            f"CREATE TABLE {shop.name}.{table} (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO {shop.name}.{table} VALUES (1, 1), (2, 2), (3, 3)",
        )
    return shop


def begun(shop: Shop) -> Snapshot:
    tables = tuple(TableProgress(f"{shop.name}.{table}") for table in "ab")
    return Snapshot(1, "request", datetime.now(UTC), tables)


def read(shop: Shop, *tables: str, limit: int = 1000, account: str = "") -> tuple[dict[str, int], Snapshot]:
    """Read the next chunks; return rows by table, and the snapshot behind them."""
    own = {"login": account, "password": SecretStr("secret")} if account else {}
    server = MysqlServer(shop.connection.model_copy(update=own))
    capture = TableCapture(tuple(f"{shop.name}.{table}" for table in tables) or (f"{shop.name}.*",))
    store = ChunkStore(str(shop.folder / "segments"), shop.name, server.identity)
    head = MysqlServer(shop.connection)
    try:
        chunks, after = SnapshotReader(server, capture).read(head.head(), begun(shop), Batching(max_rows=limit), store)
    finally:
        server.close()
        head.close()
    return {chunk.file.table.partition(".")[2]: chunk.file.rows for chunk in chunks}, after


def test_a_view_that_comes_late_is_read_all_the_same(reading: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "BATCH_S", 0.0)
    found, after = read(reading)
    assert found == {"a": 3}
    assert [table.state for table in after.tables] == ["done", "waiting"]


def test_a_table_that_the_flow_has_no_more_is_not_read(reading: Shop) -> None:
    found, after = read(reading, "a")
    assert found == {"a": 3}
    assert after.current is None


def test_a_table_that_is_gone_is_passed_and_a_hidden_one_is_named(reading: Shop) -> None:
    name, account = reading.name, f"'{reading.name}'@'%'"
    monitor = "REPLICATION CLIENT" if reading.flavor == "mysql" else "BINLOG MONITOR"
    reading.sql(
        f"CREATE USER {account} IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, {monitor}, RELOAD ON *.* TO {account}",
        f"GRANT SELECT ON {name}.a TO {account}",
    )
    with pytest.raises(SourceAccessError, match=rf"{name}\.b to read, which the account does not see"):
        read(reading, account=name)
    reading.sql(f"GRANT SELECT ON {name}.* TO {account}", f"DROP TABLE {name}.b")
    found, after = read(reading, account=name)
    assert (found, after.current) == ({"a": 3}, None)


def test_a_locked_table_stops_no_stream(reading: Shop) -> None:
    with reading.connect() as other, other.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {reading.name}.a WRITE")
        source = reading.open()
        try:
            assert source.plan_chunks(source.latest_offset(), begun(reading), Batching()) is None
            cursor.execute("UNLOCK TABLES")
            planned = source.plan_chunks(source.latest_offset(), begun(reading), Batching())
        finally:
            source.close()
    assert planned is not None
    assert planned[0].rows == 6


def test_a_batch_has_few_chunks_and_keeps_no_cursor_of_what_is_done(
    reading: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_chunks, "MOST_CHUNKS", 1)
    found, after = read(reading)
    assert (found, after.tables[0].after) == ({"a": 3}, ())


def test_a_change_without_its_key_is_passed_without_chunks(reading: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    table = f"{reading.name}.b"
    reading.sql(
        f"DROP TABLE {table}",
        f"CREATE TABLE {table} (x BIGINT NOT NULL, y INT NOT NULL, v INT, UNIQUE u (x), UNIQUE w (y))",
        f"INSERT INTO {table} VALUES (1, 1, 1)",
    )
    ended = consistent_view.after_reads

    def changed(server: Any, covers: Any) -> Any:
        with reading.connect() as other, other.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET v = v + 1")
            other.commit()
        return ended(server, covers)

    source, snapshot = reading.open(), begun(reading)
    start = source.latest_offset()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(chunk_planning, "after_reads", changed)
            # Such as one of more than 64 KiB, or of a session with a binlog_row_image of its own.
            patched.setattr(chunk_fit, "touched_keys", lambda *_: TouchedKeys({}, frozenset({table})))
            planned = source.plan_chunks(start, snapshot, Batching())
        assert planned is not None
        plan, after = planned
        assert (plan.rows, plan.chunks, after) == (1, (), None)
        again = source.plan_chunks(plan.range.end, snapshot, Batching())
    finally:
        source.close()
    assert again is not None
    assert again[0].rows == 4


def test_a_server_that_is_late_holds_few_batches_up(reading: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, late = list[float](), [True]

    def view(self: SnapshotReader, covers: BinlogOffset, at_source: bool) -> ConsistentView:
        opened.append(time.monotonic())
        if late[0] and covers.gtids and reading.flavor == "mysql":
            known = MysqlGtidSet.parse(covers.gtids)
            covers = replace(covers, gtids=str(known.add(covers.server, 10**6)))  # logged, and not visible yet
        elif late[0]:
            covers = replace(covers, pos=covers.pos + 10**6)
        return ConsistentView(reading.connection, covers.flavor, covers, 0.1)

    monkeypatch.setattr(SnapshotReader, "_view", view)
    monkeypatch.setattr(chunk_planning, "PAUSE_S", 0.4)
    source, snapshot = reading.open(), begun(reading)
    try:
        start, none = source.latest_offset(), 0
        while len(opened) < 2:
            assert source.plan_chunks(start, snapshot, Batching()) is None
            none += 1
        late[0] = False
        reading.wait_for(lambda: source.plan_chunks(start, snapshot, Batching()) is not None)
    finally:
        source.close()
    assert none > 2  # the batches between went on at once
    assert opened[1] - opened[0] >= 0.4
    assert opened[2] - opened[1] >= 0.8


def test_rows_that_no_filter_can_judge_leave_no_chunk(reading: Shop) -> None:
    """Each attempt reads them anew."""
    source = reading.open(row_filters=(RangePartition(tables=("*.a",), column="part", lower=1),))
    places = source.latest_offset(), begun(reading), Batching()
    try:
        for read_them in (source.plan_chunks, source.read_chunks):
            with pytest.raises(ConfigError, match="has no column 'part'"):
                read_them(*places)
    finally:
        source.close()
    assert list(reading.folder.rglob("*.chunk")) == []


def test_views_without_a_thread_leave_the_batch_without_chunks(reading: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    submit, begun_ones = ThreadPoolExecutor.submit, count()

    def second_fails(pool: ThreadPoolExecutor, *arguments: Any, **options: Any) -> Any:
        if next(begun_ones):
            raise RuntimeError("can't start new thread")
        return submit(pool, *arguments, **options)

    source = reading.open(snapshot_options=SnapshotOptions(threads=2, chunk_rows=1))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(ThreadPoolExecutor, "submit", second_fails)
            assert source.plan_chunks(source.latest_offset(), begun(reading), Batching()) is None
    finally:
        source.close()
    assert list(reading.folder.rglob("*.chunk")) == []


def test_closing_waits_for_nothing_that_is_read_ahead(reading: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "BATCH_S", 0.0)  # a chunk a batch
    monkeypatch.setattr(snapshot_reader, "WAIT_S", 40.0)
    waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'Waiting for table metadata lock'"
    source = reading.open()
    with reading.connect() as other, other.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {reading.name}.b WRITE")
        assert source.plan_chunks(source.latest_offset(), begun(reading), Batching()) is not None
        reading.wait_for(lambda: reading.sql(waiting)[0][0] > 0)
        closing = threading.Thread(target=source.close)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
        cursor.execute("UNLOCK TABLES")
