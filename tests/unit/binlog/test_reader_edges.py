"""The library's reader where the edge of a piece may fall anywhere: compressed events, XA, rows that are taken back.

The oracle is the decoder of whole buffers; the recorded logs are those of `test_taken_back.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from databus.binlog import read_file
from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.log_file import Change, LogFile, LoggedTransaction
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.segments.segment import segment_name
from databus.core.errors import DecodeError
from tests.unit.binlog.compressed_encoder import add_payload, compress_last, contents
from tests.unit.binlog.log_encoder import Log, int_col, text_col
from tests.unit.binlog.test_partial_json import REPLACE, begun, differing, partial_update
from tests.unit.binlog.test_taken_back import ONE, RECORDED, TWO, four, prepare
from tests.unit.binlog.value_encoder import integer, prefixed

NAME = "mysql-bin.000001"
ID = [int_col()]
SIZES = (1, 64, 90, 150, 333, 1024, 4096, 1 << 20)

Row = tuple[int, int, str, str, Any, Any]


def spelled(changes: list[Change]) -> list[Row]:
    """Position, ordinal, op, table and images of all rows, in log order."""
    found: list[Row] = []
    for item, log in changes:
        if not isinstance(item, TableBatch):
            gtid = log.gtid[item.transaction].as_py()
            what = f"{item.database}.{item.table} {gtid}"
            found.append((int(log.end_pos[item.transaction]), item.ordinal, item.op, what, None, item.statement))
            continue
        images = item.images.to_pylist()
        for i in range(len(item)):
            t = int(item.transaction[i])
            before, after = (
                images[row] if row >= 0 else None for row in (int(item.before_row[i]), int(item.after_row[i]))
            )
            place = int(log.end_pos[t]), int(item.ordinal[i])
            what = f"{item.schema.full_name} {log.gtid[t].as_py()} {log.ts_ms[t]} {log.server_id[t]}"
            found.append((*place, "cud"[item.op[i]], what, before, after))
    return sorted(found, key=lambda row: row[:2])


def whole(data: bytes) -> list[Row]:
    decoded = decode_events(data, file=NAME)
    return spelled([(item, decoded.transactions) for item in decoded])


def rows_of(path: Path, size: int, **options: Any) -> list[Row]:
    with read_file(path, piece_bytes=size, **options) as log:
        return spelled(list(log.changes()))


def written(folder: Path, data: bytes) -> Path:
    path = folder / NAME
    path.write_bytes(b"\xfebin" + data)
    return path


def payloads() -> Log:
    """MySQL transactions in payload events, one larger than a piece, beside plain ones."""
    log = Log().transaction(1, "t", ID, four(1, 2))
    for first, events in ((10, 1), (100, 40), (1000, 3)):
        inner = contents().begin()
        for step in range(events):
            inner.table_map(1 + step % 2, "tu"[step % 2], ID).rows(
                30, 1 + step % 2, 1, four(first + step, first - step)
            )
        add_payload(log.gtid(), inner.xid())
        log.transaction(1, "t", ID, four(first, 5000))
    return log.gtid().query("TRUNCATE TABLE t").transaction(2, "u", ID, four(7))


def mariadb() -> Log:
    """MariaDB's compressed statements and rows events."""
    log = Log(version="10.11.6-MariaDB-log")
    for number in range(1, 6):
        log.mariadb_gtid(3 * number)
        for step in range(8):
            table = 1 + (step // number) % 2
            log.table_map(table, "tu"[table - 1], ID, full=True)
            compress_last(log.rows(23, table, 1, four(*range(number, number + 60))), 6 + 2 + 1 + 1)
        log.xid().mariadb_gtid(3 * number + 1, flags=1)
        compress_last(log.query(f"ALTER TABLE t COMMENT '{number}{'x' * 300}'"), 4 + 4 + 1 + 2 + 2 + 4 + 1)
    return log


def taken_back() -> Log:
    """Savepoints with rows on both sides, so that an edge may lie between a row and what takes it back."""
    log = Log()
    for name in ("a", "b"):
        log.gtid().begin().table_map(1, "t", ID).rows(30, 1, 1, four(1, 2)).query(f"SAVEPOINT {name}")
        for step in range(6):
            log.table_map(2, "u", ID).rows(30, 2, 1, four(10 + step))
        log.query("SAVEPOINT later").table_map(1, "t", ID).rows(30, 1, 1, four(3)).query("ROLLBACK TO later")
        log.query(f"ROLLBACK TO {name}").table_map(2, "u", ID).rows(30, 2, 1, four(20, 21)).xid()
        log.gtid().begin().table_map(1, "t", ID).rows(30, 1, 1, four(4)).query("ROLLBACK")
    return log.transaction(1, "t", ID, four(5))


def xa() -> Log:
    """Prepared transactions that end far behind, in another order, an xid used twice, and one that stays."""
    log = prepare(prepare(Log(), ONE, *range(50)), TWO, 60, 61)
    log.transaction(1, "t", ID, four(70))
    log.gtid().query(f"XA COMMIT {TWO}").transaction(2, "u", ID, four(71)).gtid().query(f"XA COMMIT {ONE}")
    prepare(log, ONE, 80).gtid().query(f"XA ROLLBACK {ONE}")
    prepare(log, TWO, 81, one_phase=1)
    prepare(log, ONE, 82).gtid().query(f"XA COMMIT {ONE}")
    return prepare(log, TWO, 99)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("made", [payloads, mariadb, taken_back, xa])
def test_edges_change_nothing(tmp_path: Path, made: Callable[[], Log], size: int) -> None:
    data = bytes(made().data)
    expected = whole(data)
    assert len(expected) > 8
    assert rows_of(written(tmp_path, data), size) == expected


@pytest.mark.parametrize(("flavor", "rows"), [("mysql", 19), ("mariadb", 23)])
def test_edges_change_nothing_in_logs_of_servers(tmp_path: Path, flavor: str, rows: int) -> None:
    data = (RECORDED / f"{flavor}.events").read_bytes()
    expected, path = whole(data), written(tmp_path, data)
    assert len(expected) == rows
    for size in (*range(40, 2000, 97), 1 << 20):
        assert rows_of(path, size) == expected, size


@pytest.mark.parametrize("size", SIZES)
def test_a_damaged_payload_stops_after_the_transactions_before_it(tmp_path: Path, size: int) -> None:
    log = payloads()
    last = max(i for i, kind in enumerate(log.types) if kind == 40)
    data = bytearray(log.data)
    data[log.ends[last] - 20] ^= 0xFF
    begin = 4 + log.ends[last - 1]
    found: list[Change] = []
    error = pytest.raises(DecodeError, match=rf"{NAME}:{begin}: ")
    with read_file(written(tmp_path, bytes(data)), piece_bytes=size) as read, error:
        found.extend(read.changes())
    assert spelled(found) == [row for row in whole(bytes(log.data)) if row[0] < begin]
    assert found


@pytest.mark.parametrize("size", SIZES)
def test_a_commit_whose_prepare_lies_before_is_named_unless_told(tmp_path: Path, size: int) -> None:
    log = Log().transaction(1, "t", ID, four(1))
    begin = log.position
    log.gtid().query(f"XA COMMIT {ONE}").transaction(1, "t", ID, four(2))
    path, found = written(tmp_path, bytes(log.data)), []
    error = pytest.raises(DecodeError, match=rf"{NAME}:{begin}: XA COMMIT X'6f6e65',X'',1 .* before what is read")
    with read_file(path, piece_bytes=size) as read, error:
        found.extend(read.changes())
    assert [row[5] for row in spelled(found)] == [{"id": 1}]
    assert read.position == begin
    assert [row[5] for row in rows_of(path, size, prepared="elsewhere")] == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("size", SIZES)
def test_a_prepare_read_before_counts(size: int) -> None:
    """As a dump reads: stretch after stretch, each of its own buffer, which is gone afterwards."""
    log = xa()
    description = bytes(log.data[: log.ends[0]])
    decoded = decode_events(bytes(log.data), file=NAME)
    edges = [log.ends[0], *(int(end) - 4 for end in decoded.transactions.end_pos)]
    first_phases: dict[str, LoggedTransaction] = {}
    found: list[Change] = []
    for begin, end in itertools.pairwise(edges):
        data = np.frombuffer(bytearray(description + log.data[begin:end]), np.uint8)
        found += LogFile(data, segment_name(NAME, 4 + begin), piece_bytes=size, first_phases=first_phases)
        data[:] = 0
    assert spelled(found) == whole(bytes(log.data))
    assert list(first_phases) == [TWO]


def test_bytes_that_are_no_text_come_out_as_bytes(tmp_path: Path) -> None:
    log = Log().transaction(1, "t", [int_col(), text_col("v")], [
        [integer(1, 4), prefixed(b"ok\xff", 1)], [integer(2, 4), prefixed(b"fine", 1)],
    ])  # fmt: skip
    with read_file(written(tmp_path, bytes(log.data))) as read:
        bad, fine = (row for batch in read for row in batch.to_pylist())
    assert (bad["after"], bad["after_undecodable"]) == ({"id": 1, "v": None}, [("v", b"ok\xff")])
    assert (bad["after_exceptions"], bad["before_undecodable"]) == (None, None)
    assert (fine["after"], fine["after_undecodable"]) == ({"id": 2, "v": "fine"}, None)


def test_documents_that_the_log_does_not_hold_are_named(tmp_path: Path) -> None:
    log, after = begun(), (False, True, False, False)
    unknown, unchanged = [differing((REPLACE, "$.k", 2))], [differing()]
    one, two = [integer(1, 4)], [integer(2, 4)]
    partial_update(log, [(one, 1, unknown), (two, 1, unchanged)], (True, False, False, False), after).xid()
    with read_file(written(tmp_path, bytes(log.data))) as read:
        rows = [row for batch in read for row in batch.to_pylist()]
    assert [row["after_partial"] for row in rows] == [["a"], None]
    assert ["a" in row["after_absent"] for row in rows] == [True, True]
