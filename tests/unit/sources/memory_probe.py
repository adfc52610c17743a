"""Writes large transactions, and measures in a process of its own what staging and reading them takes.

    python -m tests.unit.sources.memory_probe stage|read|library FOLDER

prints JSON: row changes, peak of resident memory over the level after a small segment (kernels compiled), CPU seconds.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from databus.binlog.log.capture import TableCapture
from databus.binlog.reader import read_file
from databus.binlog.segments.kept_log import _events, _whole_events, made_up_rotate
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.range_staging import RangeStager
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.server.dump import Events
from databus.binlog.server.log_walk import LogWalk
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.segments.address import LargeValueRules, SegmentAddress
from databus.sources.mysql.segments.split import SegmentSplit
from tests.unit.binlog.log_encoder import Col, Log, int_col, table_map_body, text_col

FILE = "mysql-bin.000007"
ROWS_AT_ONCE = 200
COLUMNS = [int_col(), text_col("v"), text_col("w")]
BLOB = Col("b", 252, b"\x04", collation=63)


def write_rows(folder: Path, rows: int, tables: int = 1) -> int:
    """Write a log with one transaction of about 100 bytes a row, its events in turn of several tables; return rows."""
    folder.mkdir(parents=True)
    log = Log().gtid().begin()
    bodies, maps = [], []
    for table in range(tables):
        numbers = np.arange(ROWS_AT_ONCE)
        images = b"".join(b"\0" + struct.pack("<i", n) + b"\x2f" + b"v" * 47 + b"\x2f" + b"w" * 47 for n in numbers)
        bodies.append((9 + table).to_bytes(6, "little") + b"\x01\0\x02\0\x03\x07" + images)
        maps.append(table_map_body(9 + table, "shop", f"t{table}", COLUMNS))
    written = 0
    with (folder / FILE).open("wb") as file:
        file.write(log.data)
        position = log.position
        while written < rows:
            which = written // ROWS_AT_ONCE % tables
            for kind, body in ((19, maps[which]), (30, bodies[which])):
                position = _write(file, kind, body, position)
            written += ROWS_AT_ONCE
        _write(file, 16, struct.pack("<Q", 99), position)
    return written


def write_blob(folder: Path, size: int) -> int:
    """Write a log with one row event that holds a value of `size` bytes."""
    folder.mkdir(parents=True)
    log = Log().gtid().begin()
    with (folder / FILE).open("wb") as file:
        file.write(log.data)
        position = _write(file, 19, table_map_body(9, "shop", "t0", [int_col(), BLOB]), log.position)
        head = (9).to_bytes(6, "little") + b"\x01\0\x02\0\x02\x03\0" + struct.pack("<iI", 1, size)
        position = _write(file, 30, head + b"x" * size, position)
        _write(file, 16, struct.pack("<Q", 99), position)
    return 1


def write_wide_event(folder: Path, size: int) -> int:
    """Write a log with one row event of about `size` bytes, all of it rows of about 100 bytes; return rows."""
    folder.mkdir(parents=True)
    log = Log().gtid().begin()
    rows = 10_000
    block = b"".join(b"\0" + struct.pack("<i", n) + b"\x2f" + b"v" * 47 + b"\x2f" + b"w" * 47 for n in range(rows))
    blocks = size // len(block)
    with (folder / FILE).open("wb") as file:
        file.write(log.data)
        position = _write(file, 19, table_map_body(9, "shop", "t0", COLUMNS), log.position)
        head = (9).to_bytes(6, "little") + b"\x01\0\x02\0\x03\x07"
        position = _write(file, 30, head + block * blocks, position)
        _write(file, 16, struct.pack("<Q", 99), position)
    return rows * blocks


def measure(mode: str, folder: Path) -> dict[str, Any]:
    """Measure in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.sources.memory_probe", mode, str(folder)],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _write(file: Any, kind: int, body: bytes, position: int) -> int:
    size = 19 + len(body) + 4
    end = position + size
    event = struct.pack("<IBIIIH", 1_700_000_000, kind, 7, size, end % (1 << 32), 0) + body
    file.write(event)
    file.write(struct.pack("<I", zlib.crc32(event)))
    return end


def _dumped(folder: Path) -> Iterator[Events]:
    yield _events(made_up_rotate(FILE, 4))
    with (folder / FILE).open("rb") as file:
        yield from _whole_events(file)


def stage(folder: Path) -> RangeIndex:
    start = BinlogOffset(FILE, 4, "", "mysql", "uuid")
    capture = TableCapture(("shop.*",))
    target = folder / "segments"
    target.mkdir(exist_ok=True)
    walk = LogWalk(capture, "here")
    stager = RangeStager(target, walk, capture, start, RangeBounds())
    for batch in _dumped(folder):
        for piece in walk.walk(batch):
            stager.take(piece)
    index = stager.finish(more=False)
    assert index is not None
    (target / "index.json").write_text(json.dumps(index.to_json()))
    return index


def read(folder: Path) -> int:
    index = RangeIndex.from_json(json.loads((folder / "segments" / "index.json").read_text()))
    segments = tuple(
        SegmentAddress(str(folder / "segments" / s.name), s.file, s.start_pos, sum(s.rows.values()))
        for s in index.segments
    )
    claims = LargeValueRules(str(folder / "store"))
    split = SegmentSplit(segments, TableCapture(("shop.*",)), index.tables, "uuid", large_values=claims)
    return sum(batch.num_rows for batch in split.read())


def library(folder: Path) -> int:
    with read_file(folder / FILE) as log:
        for _ in log.changes():
            pass
        return log.rows


def _memory_kib(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))


def main(mode: str, folder: Path) -> None:
    small = folder / f"small-{mode}"
    write_rows(small, 2 * ROWS_AT_ONCE, 2)
    stage(small)
    read(small)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    level, began = _memory_kib("VmRSS"), time.process_time()
    rows = {"stage": lambda f: stage(f).rows, "read": read, "library": library}[mode](folder)
    cpu = time.process_time() - began
    peak = _memory_kib("VmHWM")
    print(json.dumps({"rows": rows, "level_mib": level >> 10, "peak_mib": peak >> 10, "cpu_s": round(cpu, 2)}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
