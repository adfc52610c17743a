"""Rows of the binary protocol, made here: every cut of a stream, damaged rows, decimals, what does not fit."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.binlog.decoding.arena import Arena, allocate
from databus.binlog.kernels import result_rows as rr
from databus.binlog.kernels import values as v
from databus.binlog.kernels.images import BAD_ENUM, BAD_VALUE, CUT_SHORT
from databus.binlog.values.charsets import charset_named
from databus.binlog.values.column_types import Column, ColumnType
from databus.sources.mysql.snapshot.column_reads import column_read, sent_matrix, sent_ways

UTF8 = charset_named("utf8mb4")
COLUMNS = (
    Column("n", ColumnType.LONG),
    Column("t", ColumnType.VARCHAR, 2, 300, charset=UTF8),
    Column("d", ColumnType.NEWDECIMAL, 38, 4),
    Column("w", ColumnType.DATETIME2, 6),
    Column("c", ColumnType.TIME2, 6),
    Column("e", ColumnType.ENUM, 1, 3, charset=UTF8, values=("a", "b", "c")),
    Column("b", ColumnType.BIT, 2, 12),
)
TYPES = (3, 253, 246, 12, 11, 8, 16)
READS = [column_read(c) for c in COLUMNS]
WAYS = sent_ways(READS, TYPES, "test")
END = b"\x05\x00\x00\x09\xfe\x00\x00\x02\x00"


def length(size: int) -> bytes:
    if size < 251:
        return bytes([size])
    return b"\xfc" + struct.pack("<H", size) if size < 1 << 16 else b"\xfd" + size.to_bytes(3, "little")


def text(value: bytes) -> bytes:
    return length(len(value)) + value


def row(*values: bytes | None) -> bytes:
    nulls = sum(1 << (c + 2) for c, value in enumerate(values) if value is None)
    return b"\0" + nulls.to_bytes((len(values) + 9) // 8, "little") + b"".join(x for x in values if x is not None)


def packet(payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + b"\x07" + payload


def good(r: random.Random) -> tuple[list[Any], bytes]:
    """Return a random row as values and as bytes."""
    n, t = r.randrange(-(1 << 31), 1 << 31), "é" * r.choice([0, 3, 7, 8, 9, 120, 130])
    d = Decimal(r.randrange(-(10**38) + 1, 10**38)) / 10000 if r.random() < 0.5 else Decimal(r.randrange(-9, 9))
    us = r.choice([0, r.randrange(86_400_000_000)])
    clock = struct.pack("<BBBI", us // 3_600_000_000, us // 60_000_000 % 60, us // 1_000_000 % 60, us % 1_000_000)
    date = struct.pack("<HBB", 2024, 2, 29)
    values: list[bytes | None] = [
        struct.pack("<i", n),
        text(t.encode()),
        text(f"{d:.4f}".encode()),
        text(date + (clock if us else b"")),
        text(b"\x01" + struct.pack("<I", 34) + clock) if us else b"\0",
        struct.pack("<q", n % 4),
        text(bytes([n % 16, 5])),
    ]
    shown: list[Any] = [
        n,
        t,
        d,
        19782 * 86_400_000_000 + us,
        -(34 * 86_400_000_000 + us) if us else 0,
        n % 4,
        (n % 16) << 8 | 5,
    ]
    for c in range(len(values)):
        if r.random() < 0.1:
            values[c] = shown[c] = None
    return shown, row(*values)


class Decoded:
    """A stream decoded into one arena."""

    def __init__(self, text_bytes: int = 4000, most: int = 64) -> None:
        self.matrix = sent_matrix(READS)
        self.arena: Arena = allocate(self.matrix, most, np.full(len(COLUMNS), text_bytes, np.int64))
        self.cursor = np.zeros(v.K_WIDTH, np.int64)
        self.lines = np.empty((4 * most * len(COLUMNS), v.X_WIDTH), np.int64)

    def feed(self, stream: bytes) -> int:
        buffer = np.frombuffer(stream, np.uint8).copy()
        return int(
            rr.decode_result(
                buffer, len(buffer), WAYS, self.arena.columns, self.cursor, self.arena.max_images, self.arena.memory,
                self.lines,
            )
        )  # fmt: skip

    def rows(self) -> list[list[Any]]:
        count = int(self.cursor[v.K_IMAGES])
        arrays = [read.array(c, self.arena, count)[0] for c, read in enumerate(READS)]
        views = [a.cast("int64").to_pylist() if c in (3, 4) else a.to_pylist() for c, a in enumerate(arrays)]
        members = {None: None, "": 0, "a": 1, "b": 2, "c": 3}
        return [[members[x] if c == 5 else x for c, x in enumerate(line)] for line in zip(*views, strict=True)]


def test_every_cut_of_a_stream() -> None:
    r = random.Random(4)
    made = [good(r) for _ in range(12)]
    stream = b"".join(packet(payload) for _, payload in made) + END
    for cut in range(len(stream)):
        decoded = Decoded()
        assert decoded.feed(stream[:cut]) == rr.STARVED
        at = int(decoded.cursor[v.K_AT])
        decoded.cursor[v.K_AT] = 0
        assert decoded.feed(stream[at:]) == rr.END_OF_RESULT
        assert decoded.rows() == [shown for shown, _ in made]


def test_a_row_that_is_cut_short_or_too_long_is_a_fault() -> None:
    """Each cut lies inside a packet that is all there: nothing behind it may be read."""
    r = random.Random(5)
    for _ in range(50):
        _, payload = good(r)
        for cut in range(1, len(payload)):
            assert Decoded().feed(packet(payload[:cut]) + END) in (CUT_SHORT, BAD_VALUE)
        assert Decoded().feed(packet(payload + b"\0") + END) == BAD_VALUE


@pytest.mark.parametrize(
    ("number", "value", "fault"),
    [
        (1, b"\xfb", BAD_VALUE),  # NULL of the text protocol
        (1, b"\xff\x01", BAD_VALUE),
        (1, b"\xfe" + b"\xff" * 8, CUT_SHORT),  # a size below zero
        (2, text(b"1.23456"), BAD_VALUE),
        (2, text(b"1x"), BAD_VALUE),
        (2, text(b"9" * 39), BAD_VALUE),
        (3, text(struct.pack("<HBB", 2024, 13, 1)), BAD_VALUE),
        (3, text(struct.pack("<HBBBBB", 2024, 12, 1, 24, 0, 0)), BAD_VALUE),
        (3, text(struct.pack("<HBBBBBI", 2024, 12, 1, 23, 0, 0, 1_000_000)), BAD_VALUE),
        (3, text(b"\x01"), BAD_VALUE),
        (4, text(struct.pack("<BIBBB", 0, 1, 0, 60, 0)), BAD_VALUE),
        (4, text(b"\x01" * 9), BAD_VALUE),
        (5, struct.pack("<q", 4), BAD_ENUM),
        (5, struct.pack("<q", -1), BAD_ENUM),
        (6, text(b"\0" * 9), BAD_VALUE),
    ],
)
def test_values_that_no_server_sends(number: int, value: bytes, fault: int) -> None:
    values: list[bytes | None] = [None] * len(COLUMNS)
    values[number] = value
    decoded = Decoded()
    assert decoded.feed(packet(row(*values))) == fault
    assert decoded.cursor[v.K_COLUMN] == number


def test_packets_that_are_no_rows() -> None:
    assert Decoded().feed(packet(b"\xff\x15\x04#HY000gone")) == rr.SERVER_ERROR
    assert Decoded().feed(packet(b"\x01\x02\x03")) == rr.BAD_PACKET
    assert Decoded().feed(packet(b"\xfe" + bytes(8))) == rr.BAD_PACKET  # an end has fewer bytes
    assert Decoded().feed(packet(b"")) == rr.BAD_PACKET
    assert Decoded().feed(b"\xff\xff\xff\x01\x00") == rr.SEVERAL_PACKETS


def test_a_row_that_does_not_fit_leaves_the_others_whole() -> None:
    """It comes again into the next arena, also after a NULL or exception in its place."""
    r = random.Random(6)
    made = [good(r) for _ in range(20)]
    stream = b"".join(packet(payload) for _, payload in made) + END
    found: list[list[Any]] = []
    turns = at = 0
    while True:
        decoded = Decoded(text_bytes=520, most=7)
        status = decoded.feed(stream[at:])
        at += int(decoded.cursor[v.K_AT])
        assert 0 < decoded.cursor[v.K_IMAGES] <= 7
        found += decoded.rows()
        turns += 1
        if status == rr.END_OF_RESULT:
            break
        assert status == rr.FULL
    assert found == [shown for shown, _ in made]
    assert turns > 3


def test_sizes_of_a_large_row() -> None:
    values = [None, text(b"x" * 70_000), text(b"1"), b"\0", None, struct.pack("<q", 1), text(b"ab")]
    payload = np.frombuffer(row(*values), np.uint8).copy()
    sizes = np.zeros(len(COLUMNS), np.int64)
    assert rr.sent_sizes(payload, 0, len(payload), WAYS, sizes) == 0
    assert sizes.tolist() == [0, 70_000, 1, 0, 0, 0, 2]
    assert rr.sent_sizes(payload, 0, len(payload) - 3, WAYS, sizes) == CUT_SHORT


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38), st.integers(0, 3))
def test_decimals(number: int, scale: int, zeros: int) -> None:
    digits = f"{abs(number):0{scale + 1}d}"
    sign = "-" if number < 0 else ""
    whole, fraction = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    sent = f"{sign}{'0' * zeros}{whole}" + (f".{fraction}" if scale else "")
    read = [column_read(Column("d", ColumnType.NEWDECIMAL, 38, scale))]
    arena = allocate(sent_matrix(read), 1, np.full(1, 100, np.int64))
    buffer = np.frombuffer(packet(row(text(sent.encode()))) + END, np.uint8).copy()
    cursor, lines = np.zeros(v.K_WIDTH, np.int64), np.empty((4, v.X_WIDTH), np.int64)
    ways = sent_ways(read, [246], "test")
    status = rr.decode_result(buffer, len(buffer), ways, arena.columns, cursor, 1, arena.memory, lines)
    assert status == rr.END_OF_RESULT
    assert read[0].array(0, arena, 1)[0].to_pylist() == [Decimal(sent)]


def test_a_column_of_another_type_is_named() -> None:
    from databus.core.errors.source import DecodeError

    with pytest.raises(DecodeError, match=r"column d .* type 3"):
        sent_ways(READS, (3, 253, 3, 12, 11, 8, 16), "reading shop.orders")
    with pytest.raises(DecodeError, match="6 columns came"):
        sent_ways(READS, TYPES[:6], "reading shop.orders")
