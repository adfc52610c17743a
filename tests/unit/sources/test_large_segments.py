"""Large transactions: decoded piece by piece, the same rows as in one go, in memory that does not grow with them.

The long form: `DATABUS_TEST_LARGE_ROWS=2500000` (transactions of up to 10 million rows),
`DATABUS_TEST_LARGE_EVENT_MIB=1000`, `DATABUS_TEST_LARGE_BLOB_MIB=1000`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from databus.binlog.decoding import piecewise
from databus.binlog.log.capture import TableCapture
from databus.core.errors import DecodeError
from databus.rows.image_form import VARIANT_FORM
from databus.sources.mysql.segments import rows as reading
from databus.sources.mysql.segments.address import SegmentAddress
from databus.sources.mysql.segments.emission import Emission
from databus.sources.mysql.segments.split import SegmentSplit
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.sources import memory_probe

ROWS = int(os.environ.get("DATABUS_TEST_LARGE_ROWS", "450000"))
EVENT_MIB = int(os.environ.get("DATABUS_TEST_LARGE_EVENT_MIB", "128"))
BLOB_MIB = int(os.environ.get("DATABUS_TEST_LARGE_BLOB_MIB", "64"))
COLUMNS = [int_col()]


def number(value: int) -> bytes:
    return struct.pack("<i", value)


def mixed_log() -> Log:
    """Transactions of one and of several tables, with statements between rows."""
    log = Log()
    for t in range(4):
        log.gtid().begin()
        for n in range(12):
            table = 9 + (n * (t + 1)) % 3
            images = [[number(100 * n + r)] for r in range(n % 4 + 1)]
            log.table_map(table, f"t{table}", COLUMNS).rows(30, table, 1, images)
            if n % 5 == t:
                log.rows(31, table, 1, [[number(n)], [number(n + 1000)], [number(n)], [number(n)]])
        log.xid()
        log.gtid().query(f"ALTER TABLE t{9 + t % 3} COMMENT 'x'")
        for _ in range(3):
            log.transaction(9, "t9", COLUMNS, [[number(r)] for r in range(5)])
        log.gtid().begin()
        for n in range(9):  # SAVEPOINT behind the second of nine changes, ROLLBACK TO it before the seventh
            if n == 2:
                log.query("SAVEPOINT `a`")
            if n == 6:
                log.query("ROLLBACK TO `a`")
            log.table_map(9 + n % 2, f"t{9 + n % 2}", COLUMNS).rows(30, 9 + n % 2, 1, [[number(7000 + 100 * t + n)]])
        if t == 2:
            log.query("ROLLBACK")
        else:
            log.xid()
    return log


class Counter:
    changes = 0

    def add(self, changes: int) -> None:
        self.changes += changes


def rows(log: Log, pattern: str = "shop.*") -> list[dict[str, Any]]:
    data = np.frombuffer(bytes(log.data), np.uint8)
    split = SegmentSplit((), TableCapture((pattern,)), (), "srv")
    address, counter = SegmentAddress("here", "mysql-bin.000007", 4, 0), Counter()
    emission = Emission("srv", VARIANT_FORM, counter.add, split.filters)
    found = [r for b in reading._numba_rows(data, address, split, emission) for r in b.to_pylist()]
    assert counter.changes == sum(r["op"] in "cud" and r["part"] == 0 for r in found)
    return found


@pytest.mark.parametrize("pattern", ["shop.*", "shop.t9", r"re:shop\.(t10|t11)", "shop.none"])
@pytest.mark.parametrize("size", [1, 60, 200, 777, 5000, 1 << 20])
def test_pieces_of_any_size_give_the_same_rows(monkeypatch: pytest.MonkeyPatch, pattern: str, size: int) -> None:
    log = mixed_log()
    whole = rows(log, pattern)
    monkeypatch.setattr(reading, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(piecewise, "PIECE_BYTES", size)
    assert rows(log, pattern) == whole
    assert whole or pattern == "shop.none"


def test_what_is_rolled_back_is_no_row() -> None:
    keys = [json.loads(r["key"])["id"] for r in rows(mixed_log()) if r["key"]]
    kept = [7000 + 100 * t + n for t in (0, 1, 3) for n in (0, 1, 6, 7, 8)]
    assert sorted(key for key in keys if key >= 7000) == kept


def test_a_large_segment_that_is_cut_short_or_open_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_WHOLE_BYTES", 0)
    cut = mixed_log()
    del cut.data[-3:]
    with pytest.raises(DecodeError, match="no whole event"):
        rows(cut)
    unfinished = mixed_log().gtid().begin()
    with pytest.raises(DecodeError, match="inside a transaction"):
        rows(unfinished)
    flipped = mixed_log()
    flipped.data[len(flipped.data) // 2] ^= 1
    with pytest.raises(DecodeError, match=r"mysql-bin\.000007:\d+"):
        rows(flipped)


@pytest.mark.timeout(1200)
def test_memory_does_not_grow_with_the_transaction(tmp_path: Path) -> None:
    # Over the level before: without memory, pages of libraries leave, and count in one process only.
    grown: dict[str, list[int]] = {"stage": [], "read": []}
    for count in (ROWS, 4 * ROWS):
        folder = tmp_path / str(count)
        written = memory_probe.write_rows(folder, count, tables=3)
        for mode, found in grown.items():
            measured = memory_probe.measure(mode, folder)
            assert measured["rows"] == written
            assert measured["peak_mib"] <= 512, (mode, measured)
            found.append(measured["peak_mib"] - measured["level_mib"])
        shutil.rmtree(folder)
    more_mib = 3 * ROWS * 103 >> 20
    for mode, (small, large) in grown.items():
        assert large - small < more_mib / 4, (mode, grown)


@pytest.mark.timeout(1200)
def test_a_large_value_passes_in_less_memory_than_it_takes(tmp_path: Path) -> None:
    """Staged as it is, read as a claim."""
    size = BLOB_MIB << 20
    folder = tmp_path / "blob"
    memory_probe.write_blob(folder, size)
    for mode in ("stage", "read"):
        measured = memory_probe.measure(mode, folder)
        assert measured["rows"] == 1
        assert measured["peak_mib"] <= 512, measured
        assert measured["peak_mib"] - measured["level_mib"] < 0.75 * BLOB_MIB, (mode, measured)
    (claim,) = (path for path in (folder / "store").rglob("*") if path.is_file())
    assert claim.stat().st_size == size
    assert claim.name == hashlib.sha256(b"x" * size).hexdigest()


@pytest.mark.timeout(1200)
def test_the_rows_of_one_large_event_pass_in_less_memory_than_it_takes(tmp_path: Path) -> None:
    folder = tmp_path / "wide"
    rows = memory_probe.write_wide_event(folder, EVENT_MIB << 20)
    for mode in ("stage", "library", "read"):
        measured = memory_probe.measure(mode, folder)
        assert measured["rows"] == rows
        assert measured["peak_mib"] <= 512, measured
        assert measured["peak_mib"] - measured["level_mib"] < 0.75 * EVENT_MIB, (mode, measured)


def test_damage_anywhere_in_a_large_event_is_named(tmp_path: Path) -> None:
    """Its checksum is taken window by window."""
    memory_probe.write_wide_event(tmp_path / "wide", 48 << 20)
    path = tmp_path / "wide" / memory_probe.FILE
    data = np.fromfile(path, np.uint8)
    assert memory_probe.library(tmp_path / "wide") > 0
    for at in (1 << 20, 20 << 20, len(data) - 60):
        data[at] ^= 1
        data.tofile(path)
        with pytest.raises(
            DecodeError, match=r"mysql-bin\.000007:\d+: event WRITE_ROWS \(30\) does not match its CRC32"
        ):
            memory_probe.library(tmp_path / "wide")
        data[at] ^= 1
