"""Large transactions: decoded piece by piece, the same rows as in one go, in memory that does not grow with them.

`DATABUS_TEST_LARGE_ROWS=10000000` and `DATABUS_TEST_LARGE_BLOB_MIB=1000` measure the long form.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from databus.binlog import piecewise
from databus.binlog.capture import TableCapture
from databus.core.errors import DecodeError
from databus.rows.image_form import VARIANT_FORM
from databus.sources import segment_rows as reading
from databus.sources.segment_split import SegmentAddress, SegmentSplit
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.sources import memory_probe

ROWS = int(os.environ.get("DATABUS_TEST_LARGE_ROWS", "600000"))
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
    return log


class Counter:
    changes = 0

    def add(self, changes: int) -> None:
        self.changes += changes


def rows(log: Log, pattern: str = "shop.*") -> list[dict[str, Any]]:
    data = np.frombuffer(bytes(log.data), np.uint8)
    split = SegmentSplit((), TableCapture((pattern,)), (), "srv")
    address, counter = SegmentAddress("here", "mysql-bin.000007", 4, 0), Counter()
    emission = reading.Emission(split.server, VARIANT_FORM, counter.add, split.filters)
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


@pytest.mark.parametrize("tables", [1, 3])
def test_memory_does_not_grow_with_the_transaction(tmp_path: Path, tables: int) -> None:
    peaks: dict[str, list[int]] = {"stage": [], "read": []}
    for count in (ROWS, 2 * ROWS):
        folder = tmp_path / str(count)
        written = memory_probe.write_rows(folder, count, tables)
        for mode, found in peaks.items():
            measured = memory_probe.measure(mode, folder)
            assert measured["rows"] == written
            found.append(measured["peak_mib"])
        shutil.rmtree(folder)
    log_mib = ROWS * 103 >> 20
    for mode, (small, large) in peaks.items():
        assert large - small < log_mib / 4, (mode, peaks)
        assert large <= 512, (mode, peaks)


def test_a_large_row_event_is_staged_in_a_multiple_of_its_size(tmp_path: Path) -> None:
    memory_probe.write_blob(tmp_path / "blob", BLOB_MIB << 20)
    measured = memory_probe.measure("stage", tmp_path / "blob")
    assert measured["rows"] == 1
    assert measured["peak_mib"] - measured["level_mib"] < 4 * BLOB_MIB
