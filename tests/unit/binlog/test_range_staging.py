"""A dump is cut at transaction boundaries only, by rows, bytes and definitions, however its batches fall."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.log.capture import TableCapture
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.range_staging import RangeStager
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.segments.store import SegmentStore, load_segment
from databus.binlog.server.dump import Events
from databus.binlog.server.log_walk import LogWalk
from databus.core.errors import DecodeError, OffsetInvalidError, UnloggedChangeError
from databus.core.positions.offsets import BinlogOffset
from databus.core.tables.unlogged import UnloggedChange
from databus.sources.mysql.staged_range import source_plan
from tests.unit.binlog.log_encoder import SOURCE, Log, int_col

FILE = "mysql-bin.000007"
COLUMNS = [int_col()]
CAPTURE = TableCapture(("shop.t",))


def number(value: int) -> bytes:
    return struct.pack("<i", value)


def log_of(transactions: int, rows: int = 3, start: int = 4) -> Log:
    log = Log(start=start)
    for t in range(transactions):
        log.transaction(9, "t", COLUMNS, [[number(t * rows + r)] for r in range(rows)])
    return log


def made_up_rotate(file: str, pos: int) -> bytes:
    return Log().event(4, struct.pack("<Q", pos) + file.encode(), log_pos=0, flags=0x20)


def batches(log: Log, step: int, file: str = FILE, pos: int = 4) -> list[Events]:
    """Cut a log into batches of `step` whole events, behind the event that names the file."""
    starts = [0, *log.ends[:-1]]
    pieces = [bytes(log.data[a:b]) for a, b in zip(starts, log.ends, strict=True)]
    found = [made_up_rotate(file, pos) + b"".join(pieces[:step])]
    found += [b"".join(pieces[i : i + step]) for i in range(step, len(pieces), step)]
    return [Events(np.frombuffer(p, np.uint8).copy(), len(p)) for p in found]


def stage(
    folder: Path,
    dump: Sequence[Events],
    bounds: RangeBounds,
    start: BinlogOffset | None = None,
    capture: TableCapture = CAPTURE,
) -> tuple[RangeIndex | None, SegmentStore]:
    start = start or BinlogOffset(FILE, 4, "", "mysql", "uuid")
    store = SegmentStore(str(folder), "flow", "uuid")
    staging = store.stage()
    walk = LogWalk(capture, str(start), passes_statements=True)
    stager = RangeStager(staging.folder, walk, capture, start, bounds)
    try:
        for batch in dump:
            if any(stager.take(piece) for piece in walk.walk(batch)):
                break
        index = stager.finish(more=False)
    finally:
        stager.discard()
    if index is not None:
        store.publish(staging, index)
    return index, store


def read(store: SegmentStore, index: RangeIndex) -> list[int]:
    values: list[int] = []
    for segment in index.segments:
        decoded = decode_events(
            load_segment(store.address(index, segment)), file=segment.file, base_pos=segment.start_pos
        )
        assert int(decoded.transactions.end_pos[-1]) == segment.end_pos
        assert len(decoded.transactions) == segment.transactions
        for item in decoded:
            if isinstance(item, TableBatch):
                values += item.images["id"].to_pylist()
    return values


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_every_cut_of_the_dump_gives_the_same_segments(tmp_path: Path, step: int) -> None:
    log = log_of(20)
    index, store = stage(tmp_path, batches(log, step), RangeBounds(segment_bytes=700))
    assert index is not None
    assert (index.range.end.to_json()["pos"], index.rows, index.range.end.to_json()["gtids"]) == (
        log.position,
        60,
        f"{SOURCE}:1-20",
    )
    assert len(index.segments) > 3
    assert [s.rows[0] for s in index.segments] == [s.transactions * 3 for s in index.segments]
    assert read(store, index) == list(range(60))
    assert store.find(index.range) == index
    store.delete(index.range)
    assert store.find(index.range) is None


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize(
    ("bounds", "transactions"),
    [
        (RangeBounds(max_rows=1), 1),
        (RangeBounds(max_rows=7), 3),
        (RangeBounds(max_rows=9), 3),
        (RangeBounds(max_bytes=1), 1),
    ],
)
def test_a_range_ends_at_the_first_boundary_past_its_bounds(
    tmp_path: Path, step: int, bounds: RangeBounds, transactions: int
) -> None:
    log = log_of(10)
    index, store = stage(tmp_path, batches(log, step), bounds)
    assert index is not None
    assert read(store, index) == list(range(3 * transactions))
    assert index.bytes == index.range.end.to_json()["pos"] - 4
    again, _ = stage(tmp_path / "again", batches(log, 4), RangeBounds(end=index.range.end))  # type: ignore[arg-type]
    assert again == index


def test_an_unfinished_transaction_is_not_part_of_the_range(tmp_path: Path) -> None:
    log = log_of(2)
    end = log.position
    log.gtid().begin().table_map(9, "t", COLUMNS).rows(30, 9, 1, [[number(99)]])
    index, store = stage(tmp_path, batches(log, 3), RangeBounds())
    assert index is not None
    assert index.range.end.to_json()["pos"] == end
    assert read(store, index) == list(range(6))
    only_open = Log().gtid().begin()
    assert stage(tmp_path / "open", batches(only_open, 1), RangeBounds())[0] is None


def test_a_definition_ends_its_segment(tmp_path: Path) -> None:
    log = log_of(2)
    log.gtid().query("ALTER TABLE t ADD x INT")
    position = log.position
    log.transaction(9, "t", COLUMNS, [[number(6)]])
    log.gtid().query("ALTER TABLE elsewhere ADD x INT").transaction(9, "t", COLUMNS, [[number(7)]])
    index, _ = stage(tmp_path, batches(log, 4), RangeBounds())
    assert index is not None
    assert [s.transactions for s in index.segments] == [3, 3]
    assert [s.table_events for s in index.segments] == [(position,), ()]


@pytest.mark.parametrize(
    ("sql", "moved"),
    [
        ("DROP TABLE t", True),
        ("RENAME TABLE other TO t", True),
        ("TRUNCATE TABLE t", False),
        ("ALTER TABLE t ADD b INT", False),
        ("DROP TABLE other", False),
        ("CREATE TABLE elsewhere.t (a INT)", False),
        ("RENAME TABLE other TO another", False),
    ],
)
def test_a_walk_tells_whether_captured_tables_may_have_come_or_gone(sql: str, moved: bool) -> None:
    log = log_of(1)
    log.gtid().query(sql)
    walk = LogWalk(TableCapture(("shop.t",)), "")
    for batch in batches(log, 3):
        list(walk.walk(batch))
    assert walk.moved is moved


def test_positions_past_4_gib_are_counted_in_64_bits(tmp_path: Path) -> None:
    base = (1 << 32) - 500
    log = Log(start=0)
    description = len(log.data)
    log.start = base - description
    for t in range(6):
        log.transaction(9, "t", COLUMNS, [[number(t)]])
    # A dump that starts further on sends the description with position 0.
    first = bytearray(log.data[:description])
    first[13:17] = bytes(4)
    log.data[: description - 4] = first[:-4]
    log.data[description - 4 : description] = struct.pack("<I", zlib.crc32(bytes(first[:-4])))
    start = BinlogOffset(FILE, base, "", "mysql", "uuid")
    index, store = stage(tmp_path, batches(log, 3, pos=base), RangeBounds(segment_bytes=400), start)
    assert index is not None
    assert index.range.end.to_json()["pos"] == log.position > 1 << 32
    assert index.bytes == log.position - base
    assert read(store, index) == list(range(6))


def test_a_fault_at_the_start_is_a_bad_offset_and_one_later_is_damage(tmp_path: Path) -> None:
    log = log_of(3)
    for at, error in ((log.ends[0] + 30, OffsetInvalidError), (log.ends[5] + 30, DecodeError)):
        log.data[at] ^= 0xFF
        with pytest.raises(error, match=FILE):
            stage(tmp_path, batches(log, 1000), RangeBounds())
        log.data[at] ^= 0xFF
    inside = Log().begin()
    with pytest.raises(OffsetInvalidError, match="inside a transaction"):
        stage(tmp_path, batches(inside, 1), RangeBounds())


def test_an_end_that_is_no_boundary_is_refused(tmp_path: Path) -> None:
    log = log_of(4)
    for end in (log.ends[8] + 4 + 1, log.position + 10):
        with pytest.raises(OffsetInvalidError):
            stage(tmp_path, batches(log, 3), RangeBounds(end=BinlogOffset(FILE, end, "", "mysql", "uuid")))


def partitioned(sql: str = "ALTER TABLE t DROP PARTITION p0") -> tuple[Log, int, int]:
    """Three transactions, a statement on a partition, two more; with the places where the statement begins and ends."""
    log = log_of(3)
    begins = log.position
    log.gtid().query(sql)
    ends = log.position
    for t in (3, 4):
        log.transaction(9, "t", COLUMNS, [[number(t * 3 + r)] for r in range(3)])
    return log, begins, ends


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_a_statement_on_a_partition_is_told_with_its_segment(tmp_path: Path, step: int) -> None:
    log, begins, ends = partitioned("ALTER TABLE\n  shop.t DROP PARTITION p0")
    index, store = stage(tmp_path, batches(log, step), RangeBounds())
    assert index is not None
    told = UnloggedChange(("shop.t",), "ALTER TABLE shop.t DROP PARTITION p0", FILE, begins, ends)
    assert [s.unlogged for s in index.segments if s.unlogged] == [(told,)]
    assert read(store, index) == list(range(15))
    assert store.find(index.range) == index
    assert source_plan(index, store, CAPTURE).unlogged == (told,)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 1000])
def test_a_range_stops_before_it_and_does_not_begin_with_it(tmp_path: Path, step: int) -> None:
    log, begins, _ = partitioned()
    index, store = stage(tmp_path, batches(log, step), RangeBounds(stops=True))
    assert index is not None
    assert (index.range.end.to_json()["pos"], read(store, index)) == (begins, list(range(9)))
    assert not any(s.unlogged for s in index.segments)
    rest = Log()
    begins = rest.position
    rest.gtid().query("ALTER TABLE t DROP PARTITION p0")
    ends = rest.position
    rest.transaction(9, "t", COLUMNS, [[number(9)]])
    told = rf"{FILE}:{begins}: ALTER TABLE t DROP PARTITION p0: .* shop\.t"
    with pytest.raises(UnloggedChangeError, match=told) as stopped:
        stage(tmp_path / "stopped", batches(rest, step), RangeBounds(stops=True, flow="orders"))
    assert f"checkpoint skip orders {FILE}:{ends} " in stopped.value.hint


def test_one_before_a_given_end_is_refused_only_where_ranges_stop(tmp_path: Path) -> None:
    log, _, _ = partitioned()
    end = BinlogOffset(FILE, log.position, "", "mysql", "uuid")
    index, _ = stage(tmp_path, batches(log, 3), RangeBounds(end=end))
    assert index is not None
    assert index.rows == 15
    with pytest.raises(UnloggedChangeError):
        stage(tmp_path / "stopped", batches(log, 3), RangeBounds(end=end, stops=True))


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE other DROP PARTITION p0",
        "ALTER TABLE t ADD x INT",
        "ALTER TABLE other.t DROP PARTITION p0",
        "ALTER TABLE other DROP INDEX i, ADD INDEX i (a)",
        "DROP TEMPORARY TABLE IF EXISTS other",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `other`",
        "DROP INDEX i ON other",
    ],
)
def test_other_statements_stop_nothing(tmp_path: Path, sql: str) -> None:
    log, _, _ = partitioned(sql)
    index, _ = stage(tmp_path, batches(log, 3), RangeBounds(stops=True))
    assert index is not None
    assert (index.rows, index.to_json()["v"]) == (15, 1)


def test_a_captured_table_that_a_partition_is_exchanged_with_is_concerned(tmp_path: Path) -> None:
    log, begins, _ = partitioned("ALTER TABLE archive EXCHANGE PARTITION p0 WITH TABLE t")
    index, _ = stage(tmp_path, batches(log, 3), RangeBounds(stops=True))
    assert index is not None
    assert index.range.end.to_json()["pos"] == begins


def by_statement(*, first: bool = False) -> tuple[Log, int, int, int]:
    """Return a log with a statement that changes rows between transactions with row events, and its places."""
    log = log_of(0 if first else 3)
    begins = log.position
    log.gtid().query("BEGIN").add(5, b"\2" + struct.pack("<Q", 7))
    at = log.position
    log.query("UPDATE other.z SET v=2").xid()
    ends = log.position
    log.transaction(9, "t", COLUMNS, [[number(9)]])
    return log, begins, at, ends


@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 1000])
def test_a_range_stops_before_rows_that_are_logged_by_statement(tmp_path: Path, step: int) -> None:
    log, begins, _, _ = by_statement()
    index, store = stage(tmp_path, batches(log, step), RangeBounds())
    assert index is not None
    assert (index.range.end.to_json()["pos"], read(store, index)) == (begins, list(range(9)))
    log, begins, at, ends = by_statement(first=True)
    with pytest.raises(DecodeError, match=f"{FILE}:{at}: event QUERY .* changes rows by statement") as stopped:
        stage(tmp_path / "stopped", batches(log, step), RangeBounds(flow="orders"))
    assert stopped.value.message.endswith(f", {FILE}:{begins} to {FILE}:{ends})")
    assert "(transaction " in stopped.value.message
    assert f"checkpoint skip orders {FILE}:{ends} " in stopped.value.hint


def test_rows_by_statement_before_a_given_end_are_refused(tmp_path: Path) -> None:
    log, _, _, _ = by_statement()
    end = BinlogOffset(FILE, log.position, "", "mysql", "uuid")
    with pytest.raises(DecodeError, match="changes rows by statement"):
        stage(tmp_path, batches(log, 3), RangeBounds(end=end))


USER_VAR = 14, struct.pack("<I1sBBII8sB", 1, b"a", 0, 2, 63, 8, bytes(8), 0)


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
@pytest.mark.parametrize("sql", ["CREATE TABLE other.z AS SELECT @a", "CREATE TABLE t (PRIMARY KEY (id)) TABLE u"])
def test_a_range_stops_before_a_table_that_is_made_of_a_query_by_statement(tmp_path: Path, step: int, sql: str) -> None:
    def log(before: int) -> tuple[Log, int, int]:
        log = log_of(before)
        begins = log.position
        log.gtid().add(*USER_VAR).query(sql)
        return log.transaction(9, "t", COLUMNS, [[number(9)]]), begins, log.ends[5 * before + 3] + 4

    made, begins, _ = log(3)
    index, store = stage(tmp_path, batches(made, step), RangeBounds())
    assert index is not None
    assert (index.range.end.to_json()["pos"], read(store, index)) == (begins, list(range(9)))
    made, begins, ends = log(0)
    with pytest.raises(DecodeError, match=r"CREATE TABLE .* changes rows by statement") as stopped:
        stage(tmp_path / "stopped", batches(made, step), RangeBounds(flow="orders"))
    assert f"{FILE}:{begins} to {FILE}:{ends})" in stopped.value.message
    assert f"checkpoint skip orders {FILE}:{ends} " in stopped.value.hint


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_values_of_a_temporary_table_stop_nothing_and_are_read(tmp_path: Path, step: int) -> None:
    log = log_of(1)
    log.gtid().add(*USER_VAR).query("CREATE TEMPORARY TABLE other.x AS SELECT @a")
    log.gtid().query("BEGIN").add(*USER_VAR).query("CREATE TEMPORARY TABLE other.y AS SELECT @a")
    log.table_map(9, "t", COLUMNS).rows(30, 9, 1, [[number(3)]]).xid()
    index, store = stage(tmp_path, batches(log, step), RangeBounds())
    assert index is not None
    assert (index.range.end.to_json()["pos"], read(store, index)) == (log.position, [0, 1, 2, 3])


def test_a_delete_that_was_rolled_back_empties_nothing(tmp_path: Path) -> None:
    log = log_of(2)
    begins = log.position
    log.gtid().query("BEGIN").query("DELETE FROM `shop`.`t`").query("ROLLBACK")
    index, store = stage(tmp_path, batches(log, 3), RangeBounds())
    assert index is not None
    assert (index.range.end.to_json()["pos"], read(store, index)) == (begins, list(range(6)))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 1000])
def test_rows_by_statement_behind_a_given_end_are_nothing_to_it(tmp_path: Path, step: int) -> None:
    log, begins, _, _ = by_statement()
    end = BinlogOffset(FILE, begins, "", "mysql", "uuid")
    index, store = stage(tmp_path, batches(log, step), RangeBounds(end=end))
    assert index is not None
    assert (index.range.end.to_json()["pos"], read(store, index)) == (begins, list(range(9)))


def test_one_on_a_partition_behind_a_given_end_is_nothing_to_it(tmp_path: Path) -> None:
    log, begins, _ = partitioned()
    end = BinlogOffset(FILE, begins, "", "mysql", "uuid")
    index, _ = stage(tmp_path, batches(log, 1000), RangeBounds(end=end, stops=True))
    assert index is not None
    assert index.rows == 9


def test_rows_by_statement_behind_a_given_end_can_be_passed_by_place(tmp_path: Path) -> None:
    log, _, _, ends = by_statement()
    with pytest.raises(DecodeError) as stopped:
        stage(tmp_path, batches(log, 3), RangeBounds(end=BinlogOffset(FILE, log.position, "", "mysql", "uuid")))
    assert (stopped.value.behind, stopped.value.code) == (f"{FILE}:{ends}", "source_decode")


def test_a_walk_that_is_not_asked_to_pass_them_refuses_them() -> None:
    log, _, _, _ = by_statement()
    walk = LogWalk(CAPTURE, "start")
    with pytest.raises(DecodeError, match="INTVAR"):
        [piece for batch in batches(log, 1000) for piece in walk.walk(batch)]
