"""Random and damaged bytes: the decoder gives rows or a DecodeError with file:position, and stays inside its memory.

The log lies directly before a guard page, and so does the arena that rows are decoded into: one byte read or written
past either kills the process. `DATABUS_FUZZ_EXAMPLES` is the number of examples of each test (150 by default).
"""

from __future__ import annotations

import faulthandler
import os
import random
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus.bench.decoding.json_encoder import document
from databus.binlog.decoding import arena, table_rows
from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.kernels.framing import F_COUNT, F_READ, F_WRITTEN, unframe
from databus.binlog.log.tablemap import parse_table_map
from databus.binlog.values.column_types import ColumnType
from databus.core.errors import DecodeError
from tests.unit.binlog.fenced import Fenced
from tests.unit.binlog.log_encoder import Col, Log, table_map_body
from tests.unit.binlog.value_encoder import prefixed

EXAMPLES = int(os.environ.get("DATABUS_FUZZ_EXAMPLES", "150"))
FUZZ = settings(
    deadline=None, database=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SEEDS = st.integers(0, (1 << 64) - 1)
PLACE = re.compile(r"f\.000001:\d+")
_SLACK = 64
"""Bytes that an arena has behind its last column."""


@pytest.fixture(autouse=True)
def no_endless_loop() -> Iterator[None]:
    """End the process when a kernel never returns: nothing else could."""
    faulthandler.dump_traceback_later(500, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def fences() -> Iterator[tuple[Fenced, Fenced]]:
    pair = Fenced(1 << 20), Fenced(256 << 20)
    yield pair
    for fenced in pair:
        fenced.open()


@pytest.fixture
def guarded(fences: tuple[Fenced, Fenced], monkeypatch: pytest.MonkeyPatch) -> Fenced:
    """Let every arena end at a guard page; returns the memory for logs."""
    logs, arenas = fences

    def allocate(*arguments: Any) -> arena.Arena:
        made = arena.allocate(*arguments)
        memory = arenas.last(len(made.memory) - _SLACK)
        memory[:] = made.memory[: len(memory)]
        return replace(made, memory=memory)

    monkeypatch.setattr(table_rows, "allocate", allocate)
    return logs


# Type byte, metadata, bytes of a value; None where a length stands before it.
FIXED = (
    (1, b"", 1), (2, b"", 2), (9, b"", 3), (3, b"", 4), (8, b"", 8), (4, b"\x04", 4), (5, b"\x08", 8), (13, b"", 1),
    (10, b"", 3), (11, b"", 3), (12, b"", 8), (7, b"", 4), (16, b"\x01\x00", 1), (16, b"\x00\x08", 8),
    *((17, bytes([n]), 4 + (n + 1) // 2) for n in range(7)),
    *((18, bytes([n]), 5 + (n + 1) // 2) for n in range(7)),
    *((19, bytes([n]), 3 + (n + 1) // 2) for n in range(7)),
    (246, b"\x0c\x02", 6), (246, b"\x41\x1e", 30), (246, b"\x26\x0a", 17),
)  # fmt: skip
PREFIXED = (
    (15, b"\x14\x00", 1), (15, b"\xe8\x03", 2), (254, b"\xfe\x1e", 1), (254, b"\xee\x2c", 2), (252, b"\x01", 1),
    (252, b"\x02", 2), (252, b"\x03", 3), (252, b"\x04", 4), (245, b"\x04", 4), (255, b"\x04", 4), (242, b"\x04", 4),
)  # fmt: skip
COLLATIONS = (255, 8, 63, 33, 28, 1, 25, 35, 54, 60, 11, 13)


def column(r: random.Random, number: int) -> tuple[Col, int, int]:
    """Return a column, the bytes of its values (0 for such with a length), and the bytes of the length."""
    kind = r.randrange(8)
    name = f"c{number}"
    if kind == 0:
        values = tuple(f"m{n}" for n in range(r.choice([1, 8, 63])))
        real = r.choice([247, 248])
        size = 1 if real == 247 else (len(values) + 7) // 8
        return Col(name, 254, bytes([real, size]), values=values, real=real, collation=255), size, 0
    if kind < 4:
        type_byte, meta, size = r.choice(PREFIXED)
        return Col(name, type_byte, meta, collation=r.choice(COLLATIONS)), 0, size
    type_byte, meta, size = r.choice(FIXED)
    return Col(name, type_byte, meta, unsigned=r.random() < 0.5), size, 0


def value(r: random.Random, made: tuple[Col, int, int]) -> bytes | None:
    col, size, prefix = made
    if r.random() < 0.2:
        return None
    if col.type == ColumnType.JSON:
        return prefixed(document(r.choice([{"a": [1, 2.5, "x"]}, [], "é", None, [1 << 40] * 9])), prefix)
    if not prefix:
        return bytes(size) if r.random() < 0.5 else r.randbytes(size)
    data = r.randbytes(r.randrange(12)) if r.random() < 0.5 else b"abc" * r.randrange(4)
    return prefixed(data, prefix)


def a_log(r: random.Random, *, random_rows: bool) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a log without checksums, and where the bodies of its events lie."""
    log = Log(checksum=False, version=r.choice(["8.0.31", "10.11.6-MariaDB"]))
    bodies: list[tuple[int, int]] = []
    for table in range(1, r.randint(2, 3)):
        columns = [column(r, n) for n in range(r.randint(1, 12))]
        if log.version.startswith("8"):
            log.gtid().begin()
        else:
            log.mariadb_gtid(table)
        log.table_map(table, f"t{table}", [c for c, _, _ in columns], key=(0,) if r.random() < 0.5 else ())
        for _ in range(r.randint(1, 3)):
            kind = r.choice([23, 24, 25, 30, 31, 32])
            images = [[value(r, c) for c in columns] for _ in range(2 * r.randint(1, 4))]
            start = len(log.data)
            if random_rows:
                head = table.to_bytes(6, "little") + b"\x01\0" + (b"\x02\0" if kind >= 30 else b"")
                bitmaps = bytes([0xFF]) * ((len(columns) + 7) // 8) * (2 if kind in (24, 31) else 1)
                log.add(kind, head + bytes([len(columns)]) + bitmaps + r.randbytes(r.randrange(200)))
            else:
                log.rows(kind, table, len(columns), images)
            bodies.append((start + 19, len(log.data)))
        log.xid()
    bodies += [(start + 19, end) for start, end in zip([0, *log.ends], log.ends, strict=False) if start]
    return bytes(log.data), bodies


def damaged(r: random.Random, data: bytes, bodies: Sequence[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 5])):
        start, end = r.choice(bodies)
        at = r.randrange(start, end) if start < end else start - 1
        out[at] = r.choice([0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFE, 0xFF, out[at] ^ 1 << r.randrange(8), r.randrange(256)])
    if r.random() < 0.1:
        at = r.randrange(len(out))
        out[at] = r.randrange(256)  # also headers
    if r.random() < 0.1:
        del out[r.randrange(len(out)) :]
    return bytes(out)


def decode(data: bytes, memory: Fenced) -> int:
    """Decode to the end or to a DecodeError that says where; returns the changes read."""
    buffer = memory.last(len(data))
    buffer[:] = np.frombuffer(data, dtype=np.uint8)
    changes = 0
    try:
        for batch in decode_events(buffer, file="f.000001"):
            if isinstance(batch, TableBatch):
                batch.images.validate(full=True)
                changes += len(batch)
    except DecodeError as error:
        found = error
    else:
        return changes
    assert PLACE.search(found.message), found.message
    return changes


@FUZZ
@given(SEEDS)
def test_damaged_logs(guarded: Fenced, seed: int) -> None:
    r = random.Random(seed)
    data, bodies = a_log(r, random_rows=False)
    decode(data, guarded)
    for _ in range(4):
        decode(damaged(r, data, bodies), guarded)


@FUZZ
@given(SEEDS)
def test_random_rows(guarded: Fenced, seed: int) -> None:
    decode(a_log(random.Random(seed), random_rows=True)[0], guarded)


@FUZZ
@given(st.binary(max_size=400))
def test_bytes_that_are_no_log(guarded: Fenced, data: bytes) -> None:
    decode(data, guarded)
    decode(bytes(Log(checksum=False).data) + data, guarded)


@FUZZ
@given(SEEDS)
def test_table_maps(seed: int) -> None:
    r = random.Random(seed)
    columns = [column(r, n)[0] for n in range(r.randint(1, 20))]
    body = table_map_body(1, "shop", "t", columns, key=(0,))
    whole = parse_table_map(body, "f.000001:4")
    assert [c.name for c in whole.columns] == [c.name for c in columns]
    for _ in range(10):
        mutated = bytearray(body if r.random() < 0.8 else r.randbytes(r.randrange(120)))
        for _ in range(r.randint(1, 4)):
            if mutated:
                mutated[r.randrange(len(mutated))] = r.choice([0, 0xFB, 0xFC, 0xFE, 0xFF, r.randrange(256)])
        del mutated[r.choice([len(mutated), r.randrange(len(mutated) + 1)]) :]
        fault = ""
        try:
            table = parse_table_map(bytes(mutated), "f.000001:4", r.choice(["mysql", "mariadb"]))
            assert len(table.to_schema(0).columns) == len(table.columns)
        except DecodeError as error:
            fault = error.message
        assert not fault or PLACE.search(fault)


def fed(stream: npt.NDArray[np.uint8], target: npt.NDArray[np.uint8], step: int) -> None:
    """Feed a stream until it stops, in pieces; the kernel may neither stand still nor write past its target."""
    state = np.zeros(F_COUNT, np.int64)
    start = written = end = 0
    for _ in range(4 * len(stream) + 8):
        status = int(unframe(stream, start, end, target, written, state))
        assert start <= state[F_READ] <= end
        assert written <= state[F_WRITTEN] <= len(target)
        start, written = int(state[F_READ]), int(state[F_WRITTEN])
        if status or (start == end == len(stream)) or end == len(stream):
            return
        end = min(len(stream), end + step)
    pytest.fail("the stream is never used up")


@FUZZ
@given(SEEDS, st.integers(1, 64))
def test_framing(fences: tuple[Fenced, Fenced], seed: int, step: int) -> None:
    r = random.Random(seed)
    raw = b""
    for sequence in range(r.randint(1, 6)):
        body = r.randbytes(r.randrange(60))
        if r.random() < 0.7:
            size = r.choice([len(body) + 19, r.randrange(1 << 32)])
            body = b"\0" + struct.pack("<IBIIIH", 0, r.randrange(256), 1, size, r.randrange(1 << 32), 0) + body
        size = r.choice([len(body), len(body), r.randrange(1 << 24)])
        raw += size.to_bytes(3, "little") + bytes([(sequence + 1) % 256]) + body
    source, target = fences[0].last(len(raw)), fences[1].last(r.choice([0, 19, 64, 4096]))
    source[:] = np.frombuffer(raw, dtype=np.uint8)
    fed(source, target, step)
