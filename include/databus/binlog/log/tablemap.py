"""TABLE_MAP events: the columns of a table as the rows after them are written.

Wire format: MySQL 8.0 source documentation, "Table_map_event" with "Optional metadata"; MariaDB writes the same since
10.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from databus.binlog.log.packed_integers import length_encoded, length_encoded_bytes
from databus.binlog.values.charsets import Charset, charset_of
from databus.binlog.values.column_types import (
    CHARACTER,
    CHARSET_LISTED_MARIADB,
    CHARSET_LISTED_MYSQL,
    COMPRESSED,
    NUMERIC,
    Column,
    ColumnType,
    read_meta,
)
from databus.core.errors.source import DecodeError
from databus.core.tables.schemas import ColumnSchema, TableSchema

(
    _SIGNEDNESS,
    _DEFAULT_CHARSET,
    _COLUMN_CHARSET,
    _COLUMN_NAME,
    _SET_VALUES,
    _ENUM_VALUES,
    _GEOMETRY_TYPE,
    _PRIMARY_KEY,
    _PRIMARY_KEY_PREFIX,
    _ENUM_SET_DEFAULT_CHARSET,
    _ENUM_SET_COLUMN_CHARSET,
    _VISIBILITY,
    _VECTOR_DIMENSIONALITY,  # since MySQL 9.0
) = range(1, 14)


@dataclass(frozen=True)
class Period:
    """The system time of a table WITH SYSTEM VERSIONING, by column numbers.

    Attributes:
        start: column ROW START.
        end: column ROW END.
        hidden: whether the server made them itself: SELECT * does not show them.
    """

    start: int
    end: int
    hidden: bool


@dataclass(frozen=True)
class TableMap:
    """Table map: one table as rows events refer to it.

    Attributes:
        table_id: number by which rows events named the table where it was first met; the server gives new ones freely.
        database: database name.
        table: table name.
        columns: columns in the order of row images.
        primary_key: names of the key columns in key order; empty without a key.
        named: whether the columns' names are known: from the log (binlog_row_metadata=FULL), else from a definition.
        period: system time of a table that is known to be system-versioned.
    """

    table_id: int
    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    named: bool
    period: Period | None = None

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    def to_schema(self, schema_id: int) -> TableSchema:
        """Return the table's schema under a number of the plan."""
        hidden = self.hidden
        columns = tuple(
            ColumnSchema(c.name, c.source_type, c.spark_type, c.nullable)
            for number, c in enumerate(self.columns)
            if number not in hidden
        )
        return TableSchema(schema_id, self.database, self.table, columns, self.primary_key)

    @property
    def hidden(self) -> tuple[int, ...]:
        """Numbers of the columns that the server made for itself."""
        return (self.period.start, self.period.end) if self.period and self.period.hidden else ()

    def refusal(self) -> tuple[str, str] | None:
        """Return why this table's rows cannot be decoded and what to do, or None when they can."""
        if not self.named:
            return (
                f"table {self.full_name} is logged without column names",
                "SET GLOBAL binlog_row_metadata=FULL on the server and start after the change; it is not retroactive.",
            )
        for column in self.columns:
            if column.type in CHARACTER | COMPRESSED and column.charset is None:
                return (
                    f"column {self.full_name}.{column.name} is logged without its character set",
                    "SET GLOBAL binlog_row_metadata=FULL on the server and start after the change.",
                )
        return None


def parse_table_map(body: bytes, where: str = "TABLE_MAP", flavor: str = "mysql") -> TableMap:
    """Read a TABLE_MAP event's body (without the 19-byte header and the checksum).

    Args:
        body: the bytes.
        where: "file:position" for messages.
        flavor: "mysql" or "mariadb": they differ in which columns the character sets are listed for.

    Raises:
        DecodeError: the body is damaged, or holds a column type, collation or metadata field that is not known.
    """
    try:
        return _parse(body, flavor)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(
            f"{where}: TABLE_MAP event cannot be read: {error}",
            hint="The log is damaged, or a newer server wrote a column type that is not known here.",
        ) from error


def _parse(body: bytes, flavor: str) -> TableMap:
    at = 8
    database, at = _name(body, at)
    table, at = _name(body, at)
    count, at = length_encoded(body, at)
    types = body[at : at + count]
    if len(types) != count:
        raise ValueError("the column types are cut short")
    meta, at = length_encoded_bytes(body, at + count)
    columns: list[Column] = []
    meta_at = 0
    nulls = body[at : at + (count + 7) // 8]
    if len(nulls) != (count + 7) // 8:
        raise ValueError("the NULL bitmap is cut short")
    for number, type_byte in enumerate(types):
        kind, m, m2, meta_at = read_meta(type_byte, meta, meta_at)
        columns.append(Column("", kind, m, m2, nullable=bool(nulls[number >> 3] >> (number & 7) & 1)))
    if meta_at != len(meta):
        raise ValueError("the column metadata is longer than its columns need")
    fields = _fields(body, at + len(nulls))
    columns = _describe(columns, fields, CHARSET_LISTED_MYSQL if flavor == "mysql" else CHARSET_LISTED_MARIADB)
    key = _primary_key(columns, fields)
    return TableMap(int.from_bytes(body[:6], "little"), database, table, tuple(columns), key, _COLUMN_NAME in fields)


def _name(body: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + body[at]
    if end >= len(body) or body[end] != 0:
        raise ValueError("a name is cut short")
    return body[at + 1 : end].decode("utf-8"), end + 1


def _fields(body: bytes, at: int) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    while at < len(body):
        number = body[at]
        value, at = length_encoded_bytes(body, at + 1)
        if number in fields:
            raise ValueError(f"metadata field {number} occurs twice")
        fields[number] = value
    return fields


def _strings(value: bytes) -> list[bytes]:
    at, found = 0, []
    while at < len(value):
        text, at = length_encoded_bytes(value, at)
        found.append(text)
    return found


def _integers(value: bytes) -> list[int]:
    at, found = 0, []
    while at < len(value):
        number, at = length_encoded(value, at)
        found.append(number)
    return found


def _value_lists(value: bytes) -> list[list[bytes]]:
    at, found = 0, []
    while at < len(value):
        count, at = length_encoded(value, at)
        texts = []
        for _ in range(count):
            text, at = length_encoded_bytes(value, at)
            texts.append(text)
        found.append(texts)
    return found


def _describe(columns: list[Column], fields: dict[int, bytes], charset_listed: frozenset[int]) -> list[Column]:
    """Add names, signs, character sets, values and visibility to bare columns."""
    if _COLUMN_NAME in fields:
        names = _strings(fields[_COLUMN_NAME])
        columns = [replace(c, name=n.decode("utf-8")) for c, n in zip(columns, names, strict=True)]
    signs = fields.get(_SIGNEDNESS, b"")
    numeric = [i for i, c in enumerate(columns) if c.type in NUMERIC]
    if signs:
        if len(signs) != (len(numeric) + 7) // 8:
            raise ValueError("the signedness bitmap does not fit the columns")
        for bit, i in enumerate(numeric):
            columns[i] = replace(columns[i], unsigned=bool(signs[bit >> 3] & (0x80 >> (bit & 7))))
    text = [i for i, c in enumerate(columns) if c.type in charset_listed]
    _set_charsets(columns, text, fields, _DEFAULT_CHARSET, _COLUMN_CHARSET)
    listed = [i for i, c in enumerate(columns) if c.type in (ColumnType.ENUM, ColumnType.SET)]
    _set_charsets(columns, listed, fields, _ENUM_SET_DEFAULT_CHARSET, _ENUM_SET_COLUMN_CHARSET)
    for kind, field in ((ColumnType.SET, _SET_VALUES), (ColumnType.ENUM, _ENUM_VALUES)):
        if field in fields:
            of_kind = [i for i in listed if columns[i].type is kind]
            for i, values in zip(of_kind, _value_lists(fields[field]), strict=True):
                columns[i] = _with_values(columns[i], values)
    if _VECTOR_DIMENSIONALITY in fields:
        vectors = [i for i, c in enumerate(columns) if c.type is ColumnType.VECTOR]
        for i, dimensions in zip(vectors, _integers(fields[_VECTOR_DIMENSIONALITY]), strict=True):
            columns[i] = replace(columns[i], meta2=dimensions)
    if _VISIBILITY in fields:
        bits = fields[_VISIBILITY]
        columns = [replace(c, visible=bool(bits[i >> 3] & (0x80 >> (i & 7)))) for i, c in enumerate(columns)]
    return columns


def _with_values(column: Column, stored: list[bytes]) -> Column:
    """Add the members of an ENUM or SET; servers take such as their character set has no text for."""
    texts: list[str | None] = []
    for value in stored:
        try:
            texts.append(column.charset.decode(value) if column.charset else value.decode("utf-8"))
        except UnicodeError:
            if column.charset is None:
                raise
            texts.append(None)
    kept = tuple(stored) if None in texts else ()
    return replace(column, values=tuple(texts), stored_values=kept, meta2=len(stored))


def _set_charsets(columns: list[Column], chosen: list[int], fields: dict[int, bytes], default: int, each: int) -> None:
    if each in fields:
        numbers = _integers(fields[each])
    elif default in fields:
        first, *pairs = _integers(fields[default])
        others = dict(zip(pairs[::2], pairs[1::2], strict=True))
        numbers = [others.get(i, first) for i in range(len(chosen))]
    else:
        return
    for i, number in zip(chosen, numbers, strict=True):
        columns[i] = replace(columns[i], charset=_charset(number))


def _charset(number: int) -> Charset:
    try:
        return charset_of(number)
    except KeyError:
        raise ValueError(f"collation {number} is unknown") from None


def _primary_key(columns: list[Column], fields: dict[int, bytes]) -> tuple[str, ...]:
    if _PRIMARY_KEY in fields:
        numbers = _integers(fields[_PRIMARY_KEY])
    elif _PRIMARY_KEY_PREFIX in fields:
        pairs = _integers(fields[_PRIMARY_KEY_PREFIX])
        # Only a prefix of the column identifies the row at the server; the whole column is at least as narrow a key.
        numbers = pairs[::2]
    else:
        return ()
    if any(n >= len(columns) for n in numbers):
        raise ValueError("the primary key names a column that is not there")
    return tuple(columns[n].name for n in numbers)
