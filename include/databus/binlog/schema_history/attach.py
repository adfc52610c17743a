"""Lay a definition beside a TABLE_MAP: every fact that both know must agree, then the log's table takes the rest."""

from __future__ import annotations

from dataclasses import replace

from databus.binlog.log.tablemap import Period, TableMap
from databus.binlog.schema_history.definition import ColumnDefinition, DeclaredType, TableDefinition
from databus.binlog.values.charsets import charset_named
from databus.binlog.values.column_types import CHARACTER, Column, ColumnType

_T = ColumnType
LOGICAL_BYTES = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB's types that the log carries as BINARY → their bytes."""
_FIXED = {
    "tinyint": (_T.TINY,),
    "smallint": (_T.SHORT,),
    "mediumint": (_T.INT24,),
    "int": (_T.LONG,),
    "bigint": (_T.LONGLONG,),
    "float": (_T.FLOAT,),
    "double": (_T.DOUBLE,),
    "year": (_T.YEAR,),
    "date": (_T.DATE, _T.NEWDATE),
    "json": (_T.JSON,),
    "vector": (_T.VECTOR,),
}
_FRACTIONAL = {
    "datetime": (_T.DATETIME2, _T.DATETIME),
    "timestamp": (_T.TIMESTAMP2, _T.TIMESTAMP),
    "time": (_T.TIME2, _T.TIME),
}
GEOMETRY = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
_BLOBS = {"tiny": 1, "": 2, "medium": 3, "long": 4}
BLOB_BYTES = {f"{size}{kind}": length for size, length in _BLOBS.items() for kind in ("blob", "text")}
"""Blob and text types → bytes of their length."""
TEXT_TYPES = frozenset({"char", "varchar", "enum", "set", "tinytext", "text", "mediumtext", "longtext"})
"""Declared types that have a character set."""


class MismatchError(ValueError):
    """A definition that is not the one under which a table's rows were written."""


def lacks(table: TableMap, flavor: str) -> bool:
    """Return whether a TABLE_MAP leaves open what decoding must know.

    Names, character sets and ENUM and SET members are missing below binlog_row_metadata=FULL. MariaDB never says which
    fixed binary columns are UUID, INET4 or INET6, and which tables are system-versioned.
    """
    if not table.named:
        return True
    for column in table.columns:
        if column.type in CHARACTER and column.charset is None:
            return True
        if column.type in (_T.ENUM, _T.SET) and not column.values:
            return True
    return flavor == "mariadb" and (any(_fixed_binary(c) for c in table.columns) or _may_be_versioned(table))


def attach(table: TableMap, definition: TableDefinition) -> TableMap:
    """Return the table with all that its definition adds.

    Raises:
        MismatchError: the definition is of another state of the table; says where they differ.
    """
    columns, hidden = _paired(table, definition)
    found = []
    for number, (column, declared) in enumerate(zip(table.columns, columns, strict=True)):
        if declared is None:
            name = column.name or ("row_start", "row_end")[number - hidden]
            found.append(replace(column, name=name, visible=False))
            continue
        if column.name and column.name.casefold() != declared.name.casefold():
            raise MismatchError(f"column {number + 1} is {column.name} in the log, {declared.name} in the definition")
        if not fits(column, declared):
            raise MismatchError(
                f"column {number + 1} ({declared}) is logged as {column.type.name} with metadata "
                f"{column.meta}, {column.meta2}{'' if column.nullable else ', NOT NULL'}"
            )
        found.append(_completed(column, declared))
    names = [c.name for c in found]
    period = _period(definition, names, hidden)
    end = names[period.end] if period else None
    key = tuple(k for k in (table.primary_key if table.named else definition.primary_key) if k != end)
    if any(k not in names for k in key):
        raise MismatchError("the primary key names a column that is not there")
    return replace(table, columns=tuple(found), primary_key=key, named=True, period=period)


def fits(column: Column, declared: ColumnDefinition) -> bool:
    """Return whether a logged column can be a declared one: type, sizes, sign, character set, NULL."""
    if declared.nullable is not None and declared.nullable != column.nullable:
        return False
    if column.charset is not None and declared.charset and not _same_charset(column, declared.charset):
        return False
    return _type_fits(column, declared.type, declared.charset or (column.charset.name if column.charset else ""))


def _paired(table: TableMap, definition: TableDefinition) -> tuple[list[ColumnDefinition | None], int]:
    """Pair columns by order; hidden versioning columns, which no definition lists, are the last two."""
    columns: list[ColumnDefinition | None] = list(definition.columns)
    hidden = len(columns)
    if definition.versioned and not any(c.generated == "row end" for c in definition.columns):
        if table.named:
            known = {c.name.casefold() for c in definition.columns}
            extra = [i for i, c in enumerate(table.columns) if c.name.casefold() not in known]
            if len(extra) == 2 and extra[1] == extra[0] + 1:
                hidden = extra[0]
        columns[hidden:hidden] = [None, None]
    if len(columns) != len(table.columns):
        raise MismatchError(f"the log has {len(table.columns)} columns, the definition {len(columns)}")
    return columns, hidden


def _period(definition: TableDefinition, names: list[str], hidden: int) -> Period | None:
    if not definition.versioned:
        return None
    explicit = {c.generated: c.name for c in definition.columns if c.generated in ("row start", "row end")}
    if explicit:
        if len(explicit) != 2:
            raise MismatchError("a system-versioned table with one ROW column")
        return Period(names.index(explicit["row start"]), names.index(explicit["row end"]), hidden=False)
    return Period(hidden, hidden + 1, hidden=True)


def _completed(column: Column, declared: ColumnDefinition) -> Column:
    kind = declared.type
    charset = column.charset
    if charset is None and kind.name in TEXT_TYPES and declared.charset:
        charset = charset_named(declared.charset)
    elif charset is None and column.type in CHARACTER and kind.name not in TEXT_TYPES:
        charset = charset_named("binary")
    values = column.values or kind.values
    return replace(
        column,
        name=column.name or declared.name,
        unsigned=column.unsigned or kind.unsigned,
        charset=charset,
        values=values,
        meta2=len(values) if values else column.meta2,
        visible=declared.visible,
        logical=kind.name if kind.name in LOGICAL_BYTES else "",
    )


def _same_charset(column: Column, name: str) -> bool:
    return column.charset is not None and column.charset.name == charset_named(name).name


def _type_fits(column: Column, kind: DeclaredType, charset: str) -> bool:  # noqa: PLR0911 - one line per family
    name, first = kind.name, (kind.numbers or (0,))[0]
    if name in _FIXED:
        return column.type in _FIXED[name]
    if name in _FRACTIONAL:
        new, old = _FRACTIONAL[name]
        return (column.type is new and column.meta == first) or (column.type is old and first == 0)
    if name == "decimal":
        return column.type is _T.NEWDECIMAL and (column.meta, column.meta2) == _precision(kind)
    if name == "bit":
        return column.type is _T.BIT and column.meta2 == (first or 1)
    if name in ("enum", "set"):
        return column.type is (_T.ENUM if name == "enum" else _T.SET) and column.meta == member_bytes(
            name, len(kind.values)
        )
    if name in LOGICAL_BYTES:
        return _fixed_binary(column) and column.meta2 == LOGICAL_BYTES[name]
    if name in GEOMETRY:
        return column.type is _T.GEOMETRY
    if name in BLOB_BYTES:
        if kind.compressed:
            return column.type is _T.BLOB_COMPRESSED
        return column.type is _T.BLOB and column.meta == BLOB_BYTES[name]
    return _string_fits(column, kind, charset)


def _string_fits(column: Column, kind: DeclaredType, charset: str) -> bool:
    characters = kind.numbers[0] if kind.numbers else 1
    if kind.name in ("binary", "varbinary"):
        longest = characters
    elif charset:
        longest = characters * charset_named(charset).max_bytes
    else:
        return False
    if kind.compressed:
        return column.type is _T.VARCHAR_COMPRESSED
    types = (_T.STRING,) if kind.name in ("char", "binary") else (_T.VARCHAR, _T.VAR_STRING)
    return column.type in types and column.meta2 == longest


def _precision(kind: DeclaredType) -> tuple[int, int]:
    precision, scale = (*kind.numbers, 0, 0)[:2]
    return (precision or 10), scale


def member_bytes(name: str, members: int) -> int:
    """Return the bytes in which an "enum" or "set" of so many members is stored."""
    if name == "enum":
        return 1 if members < 256 else 2
    size = (members + 7) // 8
    return size if size <= 4 else 8


def _fixed_binary(column: Column) -> bool:
    binary = column.charset is None or column.charset.binary
    return column.type is _T.STRING and binary and column.meta2 in LOGICAL_BYTES.values()


def _may_be_versioned(table: TableMap) -> bool:
    """Return whether two columns could be MariaDB's ROW START and ROW END: TIMESTAMP(6) NOT NULL.

    Tables versioned by transaction number are logged by statement, which is refused.
    """
    return sum(c.type is _T.TIMESTAMP2 and c.meta == 6 and not c.nullable for c in table.columns) >= 2
