"""Tables as the log will describe them, told from their definitions: the other way round from `attach`."""

from __future__ import annotations

from databus.binlog.log.tablemap import Period, TableMap
from databus.binlog.schema_history.attach import BLOB_BYTES, GEOMETRY, LOGICAL_BYTES, TEXT_TYPES, member_bytes
from databus.binlog.schema_history.definition import ColumnDefinition, DeclaredType, TableDefinition
from databus.binlog.values.charsets import Charset, charset_named
from databus.binlog.values.column_types import Column, ColumnType
from databus.core.errors.source import SchemaUnknownError

_T = ColumnType
_FIXED = {
    "tinyint": (_T.TINY, 0),
    "smallint": (_T.SHORT, 0),
    "mediumint": (_T.INT24, 0),
    "int": (_T.LONG, 0),
    "bigint": (_T.LONGLONG, 0),
    "float": (_T.FLOAT, 4),
    "double": (_T.DOUBLE, 8),
    "date": (_T.DATE, 0),
    "json": (_T.JSON, 4),
}
"""Declared types of one form → type in the log and its metadata."""
_FRACTIONAL = {"datetime": _T.DATETIME2, "timestamp": _T.TIMESTAMP2, "time": _T.TIME2}
_STRINGS = {"char": _T.STRING, "binary": _T.STRING, "varchar": _T.VARCHAR, "varbinary": _T.VARCHAR}
_HIDDEN = ("row_start", "row_end")
_WAY_OUT = "Leave the table out of the snapshot: its rows are read from the log, where each says what it is."


def logged_table(definition: TableDefinition, flavor: str) -> TableMap:
    """Return the table as TABLE_MAP events will describe it under binlog_row_metadata=FULL.

    Columns that are VIRTUAL or INVISIBLE are among them, as in the log. `to_schema` gives the schema that decoding the
    log gives. The table's number is 0: the server gives numbers only in the log.

    Args:
        definition: the table as information_schema or DDL tells it.
        flavor: "mysql" or "mariadb".

    Raises:
        SchemaUnknownError: a column of which the definition does not tell how it will be logged.
    """
    columns = [_column(declared, definition, flavor) for declared in definition.columns]
    period = None
    if definition.versioned:
        period = _period(definition)
        if period.hidden:
            columns += [Column(name, _T.TIMESTAMP2, 6, nullable=False, visible=False) for name in _HIDDEN]
    end = columns[period.end].name if period else None
    key = tuple(name for name in definition.primary_key if name != end)
    return TableMap(0, definition.database, definition.table, tuple(columns), key, named=True, period=period)


def _period(definition: TableDefinition) -> Period:
    shown = {c.generated: n for n, c in enumerate(definition.columns) if c.generated in ("row start", "row end")}
    if len(shown) == 2:
        return Period(shown["row start"], shown["row end"], hidden=False)
    if shown:
        raise SchemaUnknownError(
            f"{definition.name} is system-versioned, and one column alone is said to be of its period", hint=_WAY_OUT
        )
    count = len(definition.columns)
    return Period(count, count + 1, hidden=True)


def _column(declared: ColumnDefinition, definition: TableDefinition, flavor: str) -> Column:
    kind = declared.type
    open_point = _open_point(declared, flavor)
    found = None if open_point else _logged_type(kind, _charset(declared))
    if found is None or declared.nullable is None:
        raise SchemaUnknownError(
            f"column {definition.name}.{declared.name} ({kind}): the definition does not tell "
            f"{open_point or 'how this type is logged'}",
            hint=_WAY_OUT,
        )
    logged, meta, meta2 = found
    return Column(
        declared.name,
        logged,
        meta,
        meta2,
        unsigned=kind.unsigned or kind.name == "year",
        nullable=declared.nullable,
        charset=_charset(declared),
        values=kind.values,
        visible=declared.visible,
        logical=kind.name if kind.name in LOGICAL_BYTES else "",
    )


def _open_point(declared: ColumnDefinition, flavor: str) -> str:
    """Return the fact that a definition leaves open; "" when it tells all."""
    if declared.nullable is None:
        return "whether it takes NULL"
    if declared.type.name in TEXT_TYPES and not declared.charset:
        return "its character set"
    if declared.type.name == "vector" and flavor == "mariadb":
        return "how this type is logged"
    return ""


def _charset(declared: ColumnDefinition) -> Charset | None:
    """Return the character set that the log lists for a column, also the one of bytes."""
    name = declared.type.name
    if name in TEXT_TYPES:
        return charset_named(declared.charset)
    return charset_named("binary") if name in BLOB_BYTES or name in _STRINGS or name in LOGICAL_BYTES else None


def _logged_type(kind: DeclaredType, charset: Charset | None) -> tuple[ColumnType, int, int] | None:  # noqa: PLR0911 - one line per family
    """Return a type as TABLE_MAP says it with its metadata (see `Column`); None for one that is not known."""
    name, first = kind.name, (kind.numbers or (0,))[0]
    if name in _FIXED:
        return (*_FIXED[name], 0)
    if name == "year":
        return _T.YEAR, 0, 0
    if name in _FRACTIONAL:
        return _FRACTIONAL[name], first, 0
    if name == "decimal":
        precision, scale = (*kind.numbers, 0, 0)[:2]
        return _T.NEWDECIMAL, precision or 10, scale
    if name == "bit":
        bits = first or 1
        return _T.BIT, (bits + 7) // 8, bits
    if name in ("enum", "set"):
        members = len(kind.values)
        return (_T.ENUM if name == "enum" else _T.SET), member_bytes(name, members), members
    if name in LOGICAL_BYTES:
        return _T.STRING, 1, LOGICAL_BYTES[name]
    if name in GEOMETRY:
        return _T.GEOMETRY, 4, 0
    if name == "vector":
        return _T.VECTOR, 4, first
    if name in BLOB_BYTES:
        return (_T.BLOB_COMPRESSED if kind.compressed else _T.BLOB), BLOB_BYTES[name], 0
    if name in _STRINGS and charset is not None:
        longest = (kind.numbers[0] if kind.numbers else 1) * charset.max_bytes
        if kind.compressed:
            longest += 1  # how the value is packed
            return _T.VARCHAR_COMPRESSED, 2 if longest > 255 else 1, longest
        return _STRINGS[name], 2 if longest > 255 else 1, longest
    return None
