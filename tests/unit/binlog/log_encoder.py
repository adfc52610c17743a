"""Write log files event by event; from the manual, independent of the decoder."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.unit.binlog.value_encoder import length_encoded

SOURCE = uuid.UUID("f7ceba1a-e55e-11f1-96ca-02fc00000001")
NUMERIC = {1, 2, 3, 4, 5, 8, 9, 13, 246}
CHARSET_LISTED_MYSQL = {15, 242, 252, 253, 254}


@dataclass(frozen=True)
class Col:
    """One column: type bytes and metadata as they stand in TABLE_MAP."""

    name: str
    type: int
    meta: bytes = b""
    unsigned: bool = False
    nullable: bool = True
    collation: int = 255
    values: tuple[str, ...] = ()
    real: int = 0  # ENUM or SET inside STRING


def int_col(name: str = "id", *, unsigned: bool = False) -> Col:
    return Col(name, 3, unsigned=unsigned, nullable=False)


def text_col(name: str, longest: int = 100, collation: int = 255) -> Col:
    return Col(name, 15, longest.to_bytes(2, "little"), collation=collation)


def bitmap(flags: Sequence[bool]) -> bytes:
    out = bytearray((len(flags) + 7) // 8)
    for i, flag in enumerate(flags):
        out[i >> 3] |= flag << (i & 7)
    return bytes(out)


def msb_bitmap(flags: Sequence[bool]) -> bytes:
    out = bytearray((len(flags) + 7) // 8)
    for i, flag in enumerate(flags):
        out[i >> 3] |= flag << (7 - (i & 7))
    return bytes(out)


def table_map_body(
    table_id: int, database: str, table: str, columns: Sequence[Col], key: Sequence[int] = (0,), *, full: bool = True
) -> bytes:
    body = table_id.to_bytes(6, "little") + b"\x01\0"
    for name in (database, table):
        encoded = name.encode()
        body += bytes([len(encoded)]) + encoded + b"\0"
    body += length_encoded(len(columns)) + bytes(c.type for c in columns)
    meta = b"".join(c.meta for c in columns)
    body += length_encoded(len(meta)) + meta + bitmap([c.nullable for c in columns])

    def metadata(number: int, value: bytes) -> bytes:
        return bytes([number]) + length_encoded(len(value)) + value

    body += metadata(1, msb_bitmap([c.unsigned for c in columns if c.type in NUMERIC]))
    characters = [c for c in columns if c.type in CHARSET_LISTED_MYSQL and not c.real]
    if characters:
        body += metadata(3, b"".join(length_encoded(c.collation) for c in characters))
    listed = [c for c in columns if c.real]
    if not full:
        return body
    body += metadata(4, b"".join(length_encoded(len(c.name.encode())) + c.name.encode() for c in columns))
    for number, real in ((5, 248), (6, 247)):
        lists = b"".join(
            length_encoded(len(c.values)) + b"".join(length_encoded(len(v.encode())) + v.encode() for v in c.values)
            for c in listed
            if c.real == real
        )
        if lists:
            body += metadata(number, lists)
    if key:
        body += metadata(8, b"".join(map(length_encoded, key)))
    if listed:
        body += metadata(11, b"".join(length_encoded(c.collation) for c in listed))
    return body


@dataclass
class Log:
    """A log file under construction; `data` is its content without the magic."""

    checksum: bool = True
    version: str = "8.0.31"
    server_id: int = 7
    timestamp: int = 1_700_000_000
    start: int = 4
    format_flags: int = 0
    data: bytearray = field(default_factory=bytearray)
    ends: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    sequence: int = 0

    def __post_init__(self) -> None:
        post = bytearray(171 if "Maria" in self.version else 42)
        post[18] = 8
        body = struct.pack("<H50sIB", 4, self.version.encode(), 0, 19) + bytes(post) + bytes([self.checksum])
        self.add(15, body, flags=self.format_flags, always_checksum=True)

    @property
    def position(self) -> int:
        return self.start + len(self.data)

    def event(
        self, kind: int, body: bytes, *, flags: int = 0, log_pos: int | None = None, always_checksum: bool = False
    ) -> bytes:
        checksum = self.checksum or always_checksum
        size = 19 + len(body) + 4 * checksum
        pos = (self.position + size) % (1 << 32) if log_pos is None else log_pos
        event = struct.pack("<IBIIIH", self.timestamp, kind, self.server_id, size, pos, flags) + body
        return event + struct.pack("<I", zlib.crc32(event)) if checksum else event

    def add(
        self, kind: int, body: bytes, *, flags: int = 0, log_pos: int | None = None, always_checksum: bool = False
    ) -> Log:
        self.data += self.event(kind, body, flags=flags, log_pos=log_pos, always_checksum=always_checksum)
        self.ends.append(len(self.data))
        self.types.append(kind)
        return self

    def gtid(self, number: int | None = None, *, commit_us: int = 0, original_us: int = 0, kind: int = 33) -> Log:
        self.sequence += 1
        body = (
            b"\x01"
            + SOURCE.bytes
            + struct.pack("<q", self.sequence if number is None else number)
            + b"\x02"
            + bytes(16)
        )
        if commit_us:
            stamp = commit_us | (1 << 55 if original_us else 0)
            body += stamp.to_bytes(7, "little") + (original_us.to_bytes(7, "little") if original_us else b"")
        return self.add(kind, body)

    def mariadb_gtid(self, sequence: int, *, domain: int = 0, flags: int = 0, tail: bytes = b"") -> Log:
        body = struct.pack("<QIB", sequence, domain, flags) + tail
        return self.add(162, body.ljust(19, b"\0"))

    def query(self, sql: str, database: str = "shop", status: bytes = b"", flags: int = 0) -> Log:
        body = struct.pack("<IIBHH", 1, 0, len(database.encode()), 0, len(status)) + status
        return self.add(2, body + database.encode() + b"\0" + sql.encode(), flags=flags)

    def begin(self) -> Log:
        return self.query("BEGIN")

    def xid(self) -> Log:
        return self.add(16, struct.pack("<Q", 99))

    def table_map(
        self, table_id: int, table: str, columns: Sequence[Col], key: Sequence[int] = (0,), *, full: bool = True
    ) -> Log:
        return self.add(19, table_map_body(table_id, "shop", table, columns, key, full=full))

    def rows(
        self,
        kind: int,
        table_id: int,
        count: int,
        images: Sequence[Sequence[bytes | None]],
        present: Sequence[bool] | None = None,
        present_after: Sequence[bool] | None = None,
    ) -> Log:
        """Add a rows event.

        `images` hold a value per present column, None for NULL; updates alternate before and after.
        """
        present = present or [True] * count
        body = table_id.to_bytes(6, "little") + b"\x01\0"
        if kind >= 30:
            body += b"\x02\0"
        body += length_encoded(count) + bitmap(present)
        if kind in (24, 31):
            body += bitmap(present_after or present)
        for image in images:
            body += bitmap([v is None for v in image]) + b"".join(v for v in image if v is not None)
        return self.add(kind, body)

    def transaction(
        self, table_id: int, table: str, columns: Sequence[Col], images: Sequence[Sequence[bytes | None]]
    ) -> Log:
        """Add a whole transaction that inserts rows."""
        self.gtid().begin().table_map(table_id, table, columns)
        return self.rows(30, table_id, len(columns), images).xid()
