"""Log of the page's examples, event by event as MySQL's manual has it: changes of a table, and a row of every type."""

from __future__ import annotations

import struct
from decimal import Decimal

from tests.reference.message_types import CHANGES, INVALID, MYSQL, TypeForm
from tests.unit.binlog.log_encoder import Col, Log
from tests.unit.binlog.value_encoder import (
    bits,
    date,
    datetime2,
    decimal,
    float32,
    float64,
    integer,
    prefixed,
    time2,
    timestamp2,
)

MAGIC = b"\xfebin"
COMMITTED_US = 1_777_803_630_120_000
"""2026-05-03 10:20:30.120 UTC."""
_SECOND = COMMITTED_US // 1_000_000
_LATIN, _BINARY = 255, 63

ORDERS = (
    Col("id", 8, nullable=False),
    Col("status", 15, (80).to_bytes(2, "little")),
    Col("amount", 246, bytes([10, 2])),
    Col("at", 18, bytes([3])),
)
_DOCUMENT = bytes.fromhex("00 0100 0c00 0b00 0100 05 0100 62")
"""{"b": 1} in the binary form of JSON: an object of one member."""
_POINT = struct.pack("<IBIdd", 0, 1, 1, 1.0, 2.0)

_COLUMNS: tuple[tuple[Col, bytes], ...] = (
    (Col("", 1), integer(-8, 1)),
    (Col("", 1), integer(1, 1)),
    (Col("", 2, unsigned=True), integer(65535, 2)),
    (Col("", 9), integer(-8388608, 3)),
    (Col("", 3, unsigned=True), integer(4294967295, 4)),
    (Col("", 8), integer(-(2**63), 8)),
    (Col("", 8, unsigned=True), integer(2**64 - 1, 8)),
    (Col("", 246, bytes([12, 2])), decimal(Decimal("10.50"), 12, 2)),
    (
        Col("", 246, bytes([65, 30])),
        decimal(Decimal("12345678901234567890123456789012345.000000000000000000000000000001"), 65, 30),
    ),
    (Col("", 4, bytes([4])), float32(0.1)),
    (Col("", 5, bytes([8])), float64(-2.5e-7)),
    (Col("", 16, bytes([1, 0])), bits(1, 1)),
    (Col("", 16, bytes([2, 1])), bits(0b1000000001, 10)),
    (Col("", 13), integer(2026 - 1900, 1)),
    (Col("", 10), date(2026, 5, 3)),
    (Col("", 18, bytes([0])), datetime2(2026, 5, 3, 10, 20, 30, 0, 0)),
    (Col("", 18, bytes([6])), datetime2(2026, 5, 3, 10, 20, 30, 123, 6)),
    (Col("", 17, bytes([0])), timestamp2(_SECOND, 0, 0)),
    (Col("", 17, bytes([3])), timestamp2(_SECOND, 120_000, 3)),
    (Col("", 19, bytes([0])), time2((10 * 3600 + 20 * 60 + 30) * 1_000_000, 0)),
    (Col("", 19, bytes([6])), time2(-((838 * 3600 + 59 * 60 + 58) * 1_000_000 + 120), 6)),
    (Col("", 254, bytes([254, 40])), prefixed("é".encode(), 1)),
    (Col("", 15, (80).to_bytes(2, "little")), prefixed(b"paid", 1)),
    (Col("", 252, bytes([2])), prefixed(b"two\nlines", 2)),
    (Col("", 254, bytes([247, 1]), values=("small", "large"), real=247), integer(2, 1)),
    (Col("", 254, bytes([248, 1]), values=("a", "b", "c"), real=248), integer(0b101, 1)),
    (Col("", 254, bytes([254, 4]), collation=_BINARY), prefixed(b"\0\1", 1)),
    (Col("", 15, (10).to_bytes(2, "little"), collation=_BINARY), prefixed(b"\x00\xff\x80", 1)),
    (Col("", 252, bytes([2]), collation=_BINARY), prefixed(b"\xca\xfe", 2)),
    (Col("", 245, bytes([4])), prefixed(_DOCUMENT, 4)),
    (Col("", 255, bytes([4])), prefixed(_POINT, 4)),
)
"""Column and value of each entry of `MYSQL`, in its order."""


def order(number: int, status: str) -> list[bytes | None]:
    placed = datetime2(2026, 5, 3, 10, 20, 30, 120_000, 3)
    return [integer(number, 8), prefixed(status.encode(), 1), decimal(Decimal("10.50"), 10, 2), placed]


def columns(types: tuple[TypeForm, ...] = MYSQL) -> list[Col]:
    """Return the columns of the table with one of each type: id, c0, c1, …"""
    assert len(types) == len(_COLUMNS)
    made = [Col(f"c{n}", c.type, c.meta, c.unsigned, c.nullable, c.collation, c.values, c.real)
            for n, (c, _) in enumerate(_COLUMNS)]  # fmt: skip
    return [Col("id", 3, nullable=False), *made]


def log_bytes() -> bytes:
    """Return the log file."""
    log = Log(timestamp=_SECOND)
    create, insert, update, rekey, delete, truncate, alter = CHANGES
    log.gtid(commit_us=COMMITTED_US).query(create)
    for statement, kind, images in (
        (insert, 30, [order(1, "new")]),
        (update, 31, [order(1, "new"), order(1, "paid")]),
        (rekey, 31, [order(1, "paid"), order(2, "paid")]),
        (delete, 32, [order(2, "paid")]),
    ):
        assert statement.split()[0] == {30: "INSERT", 31: "UPDATE", 32: "DELETE"}[kind]
        log.gtid(commit_us=COMMITTED_US).begin().table_map(1, "orders", ORDERS)
        log.rows(kind, 1, len(ORDERS), images).xid()
    log.gtid(commit_us=COMMITTED_US).query(truncate).gtid(commit_us=COMMITTED_US).query(alter)
    assert "0000-00-00" in INVALID
    odd = (Col("id", 3, nullable=False), Col("born", 10))
    _inserted(log, 2, "odd", odd, [integer(1, 4), date(0, 0, 0)])
    _inserted(log, 3, "every_type", columns(), [integer(1, 4), *(value for _, value in _COLUMNS)])
    return MAGIC + bytes(log.data)


def _inserted(log: Log, number: int, table: str, of: list[Col] | tuple[Col, ...], image: list[bytes | None]) -> None:
    log.gtid(commit_us=COMMITTED_US).begin().table_map(number, table, of)
    log.rows(30, number, len(of), [image]).xid()
