"""Column types of TABLE_MAP events: how values lie in a row, in Arrow, and what the types are called.

Wire format: MySQL 8.0 source documentation, "Table_map_event", table of column metadata.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from databus.binlog.kernels import kinds as k
from databus.binlog.values.charsets import Charset, charset_named

MAX_DECIMAL128 = 38


class ColumnType(enum.IntEnum):
    """Type byte of a column, after ENUM, SET and STRING have been distinguished."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


NUMERIC = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 246})
"""Types that have a bit in the SIGNEDNESS metadata; YEAR does, as both servers show."""

CHARACTER = frozenset({15, 249, 250, 251, 252, 253, 254})
"""Types whose values are text or bytes of a character set."""

COMPRESSED = frozenset({ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED})
"""MariaDB's COMPRESSED columns."""

CHARSET_LISTED_MYSQL = CHARACTER | {242}
"""Types that have an entry in MySQL's column-charset metadata: since 9.0 VECTOR too, as a kind of BLOB."""

CHARSET_LISTED_MARIADB = CHARACTER | {140, 141, 255}
"""The same for MariaDB, which lists compressed and geometry columns too."""

_META_BYTES = {
    4: 1,
    5: 1,
    15: 2,
    16: 2,
    17: 1,
    18: 1,
    19: 1,
    140: 1,
    141: 2,
    242: 1,
    245: 1,
    246: 2,
    247: 2,
    248: 2,
    249: 1,
    250: 1,
    251: 1,
    252: 1,
    253: 2,
    254: 2,
    255: 1,
}

_KNOWN = frozenset(ColumnType)
_INTEGERS = {1: ("tinyint", 1), 2: ("smallint", 2), 9: ("mediumint", 3), 3: ("int", 4), 8: ("bigint", 8)}
_BLOB_SIZES = {1: "tiny", 2: "", 3: "medium", 4: "long"}


@dataclass(frozen=True)
class Column:
    """Column as a TABLE_MAP event describes it.

    Attributes:
        name: column name; "" when the log does not carry names.
        type: the type, with ENUM and SET distinguished from STRING.
        meta: precision, fractional digits, bytes of length prefix, or bytes of the value, by type.
        meta2: scale of a DECIMAL, longest value in bytes of a string.
        unsigned: whether a number is UNSIGNED.
        nullable: whether NULL is allowed.
        charset: character set of a text, ENUM or SET column; None for others and where the log does not say.
        values: texts of an ENUM or SET; None for one whose bytes are no text of the character set.
        stored_values: the bytes of `values`, where one of them is None.
        visible: False for an INVISIBLE column.
        logical: "uuid", "inet4" or "inet6" where a definition says that the fixed bytes are one of these.
    """

    name: str
    type: ColumnType
    meta: int = 0
    meta2: int = 0
    unsigned: bool = False
    nullable: bool = True
    charset: Charset | None = None
    values: tuple[str | None, ...] = ()
    stored_values: tuple[bytes, ...] = ()
    visible: bool = True
    logical: str = ""

    @property
    def kind(self) -> int:
        """Kernel kind of the value (a number of `kernels.kinds`)."""
        return _kind(self)

    @property
    def text(self) -> bool:
        """Return whether a value of variable length is text rather than bytes."""
        return self.type in CHARACTER | COMPRESSED and self.charset is not None and not self.charset.binary

    @property
    def source_type(self) -> str:
        """The type in the server's words, e.g. "decimal(12,2) unsigned"."""
        return self.logical or _source_type(self)

    @property
    def spark_type(self) -> str:
        """Spark SQL type of the typed view."""
        return _spark_type(self)


def read_meta(type_byte: int, meta: bytes, at: int) -> tuple[ColumnType, int, int, int]:
    """Read one column's metadata.

    Returns:
        The type, `meta`, `meta2` (see `Column`), and the offset after it.

    Raises:
        ValueError: the type is unknown or its metadata impossible.
    """
    size = _META_BYTES.get(type_byte, 0)
    if type_byte not in _KNOWN:
        raise ValueError(f"column type {type_byte} is unknown")
    if at + size > len(meta):
        raise ValueError("the column metadata is cut short")
    first, second = (meta[at], meta[at + 1] if size == 2 else 0) if size else (0, 0)
    at += size
    kind = ColumnType(type_byte)
    if kind in (ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.VARCHAR_COMPRESSED):
        longest = first | second << 8
        return kind, 2 if longest > 255 else 1, longest, at
    if kind is ColumnType.STRING:
        return (*_read_string_meta(first, second), at)
    if kind is ColumnType.BIT:
        bits = first + second * 8
        if not 1 <= bits <= 64:
            raise ValueError(f"BIT({bits}) is impossible")
        return kind, (bits + 7) // 8, bits, at
    if kind is ColumnType.NEWDECIMAL and not (1 <= first <= 65 and second <= min(first, 38)):
        raise ValueError(f"DECIMAL({first},{second}) is impossible")
    if kind in (ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2) and first > 6:
        raise ValueError(f"{first} fractional digits are impossible")
    if _length_prefixed(kind) and not 1 <= first <= 4:
        raise ValueError(f"a length of {first} bytes is impossible")
    return kind, first, second, at


def _read_string_meta(first: int, second: int) -> tuple[ColumnType, int, int]:
    """Distinguish CHAR, ENUM and SET: lengths above 255 borrow two bits of the type, inverted."""
    longest = second
    if first & 0x30 != 0x30:
        longest |= ((first & 0x30) ^ 0x30) << 4
        first |= 0x30
    if first in (ColumnType.ENUM, ColumnType.SET):
        if not 1 <= longest <= (2 if first == ColumnType.ENUM else 8):
            raise ValueError(f"an ENUM or SET of {longest} bytes is impossible")
        return ColumnType(first), longest, 0
    if first != ColumnType.STRING:
        raise ValueError(f"column type {first} inside STRING is unknown")
    return ColumnType.STRING, 2 if longest > 255 else 1, longest


def _length_prefixed(kind: ColumnType) -> bool:
    return kind in (
        ColumnType.BLOB,
        ColumnType.JSON,
        ColumnType.GEOMETRY,
        ColumnType.VECTOR,
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB_COMPRESSED,
    )


_FIXED_KINDS = {
    ColumnType.TINY: k.RAW1,
    ColumnType.SHORT: k.RAW2,
    ColumnType.LONG: k.RAW4,
    ColumnType.LONGLONG: k.RAW8,
    ColumnType.FLOAT: k.RAW4,
    ColumnType.DOUBLE: k.RAW8,
    ColumnType.YEAR: k.YEAR,
    ColumnType.DATE: k.DATE,
    ColumnType.NEWDATE: k.DATE,
    ColumnType.DATETIME2: k.DATETIME,
    ColumnType.TIMESTAMP2: k.TIMESTAMP,
    ColumnType.TIME2: k.TIME,
    ColumnType.DATETIME: k.OLD_DATETIME,
    ColumnType.TIMESTAMP: k.OLD_TIMESTAMP,
    ColumnType.TIME: k.OLD_TIME,
    ColumnType.ENUM: k.ENUM,
    ColumnType.SET: k.SET,
    ColumnType.BIT: k.BIT,
}


def _kind(column: Column) -> int:
    if column.type is ColumnType.INT24:
        return k.UINT3 if column.unsigned else k.INT3
    if column.type is ColumnType.NEWDECIMAL:
        return k.DECIMAL if column.meta <= MAX_DECIMAL128 else k.DECIMAL_TEXT
    if column.type is ColumnType.STRING and not column.text:
        return k.PADDED  # BINARY(n) is logged without its trailing zero bytes
    return _FIXED_KINDS.get(column.type, k.STRING)


def _source_type(column: Column) -> str:
    kind, charset = column.type, column.charset or charset_named("binary")
    if kind in _INTEGERS or kind in (ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.NEWDECIMAL):
        name = _INTEGERS[kind][0] if kind in _INTEGERS else kind.name.lower()
        if kind is ColumnType.NEWDECIMAL:
            name = f"decimal({column.meta},{column.meta2})"
        return name + " unsigned" if column.unsigned else name
    if kind in (ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2):
        return kind.name[:-1].lower() + (f"({column.meta})" if column.meta else "")
    if kind in (ColumnType.BIT, ColumnType.VECTOR) and column.meta2:
        return f"{kind.name.lower()}({column.meta2})"
    if kind in (ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING, ColumnType.VARCHAR_COMPRESSED):
        fixed = "" if kind is ColumnType.STRING else "var"
        longest = column.meta2 - (kind in COMPRESSED)  # one byte is the compression's
        return f"{fixed}{'char' if column.text else 'binary'}({longest // charset.max_bytes})"
    if kind in CHARACTER or kind is ColumnType.BLOB_COMPRESSED:
        return _BLOB_SIZES[column.meta] + ("text" if column.text else "blob")
    return "date" if kind is ColumnType.NEWDATE else kind.name.lower()


_SPARK = {
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
    ColumnType.YEAR: "int",
    ColumnType.DATE: "date",
    ColumnType.NEWDATE: "date",
    ColumnType.DATETIME: "timestamp_ntz",
    ColumnType.DATETIME2: "timestamp_ntz",
    ColumnType.TIMESTAMP: "timestamp",
    ColumnType.TIMESTAMP2: "timestamp",
    ColumnType.TIME: "string",
    ColumnType.TIME2: "string",
    ColumnType.ENUM: "string",
    ColumnType.SET: "string",
    ColumnType.JSON: "string",
}
_SPARK_INTEGERS = {1: ("tinyint", "smallint"), 2: ("smallint", "int"), 9: ("int", "int"), 3: ("int", "bigint")}


def _spark_type(column: Column) -> str:
    if column.type in _SPARK_INTEGERS:
        return _SPARK_INTEGERS[column.type][column.unsigned]
    if column.type is ColumnType.LONGLONG:
        return "decimal(20,0)" if column.unsigned else "bigint"
    if column.type is ColumnType.BIT:
        return "decimal(20,0)" if column.meta2 > 63 else "bigint"
    if column.type is ColumnType.NEWDECIMAL:
        return f"decimal({column.meta},{column.meta2})" if column.meta <= MAX_DECIMAL128 else "string"
    return _SPARK.get(column.type) or ("string" if column.text or column.logical else "binary")
