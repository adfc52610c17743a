"""Versions of a mock table: the row where each begins, its columns, and the age of each column's type."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from databus.binlog.decoding.arrow_columns import arrow_type
from databus.binlog.schema_history.definition import ColumnDefinition, DeclaredType, TableDefinition
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.sources.mock.declared import StatedChange
from databus.sources.mysql.snapshot.logged_table import logged_table


@dataclass(frozen=True)
class MockColumn:
    """Column of one version.

    Attributes:
        name: its name in this version.
        salt: decides its values, whatever it is called.
        types: (number of the version from which on it is of the type, type), the first where the column was added.
        arrow: its Arrow type in this version.
        size: characters or bytes of each value; 0 for few.
    """

    name: str
    salt: int
    types: tuple[tuple[int, DeclaredType], ...]
    arrow: pa.DataType
    size: int = 0


@dataclass(frozen=True)
class TableVersion:
    """Version of a table.

    Attributes:
        schema: its schema; `schema_id` is that of no plan yet.
        columns: its columns, in table order.
        start: row changes of the table before it.
    """

    schema: TableSchema
    columns: tuple[MockColumn, ...]
    start: int


def table_versions(
    first: TableDefinition,
    changes: Sequence[tuple[StatedChange, int]],
    seed: int,
    sizes: dict[str, int],
) -> tuple[TableVersion, ...]:
    """Return the versions of a table in their order.

    Args:
        first: the table before all changes.
        changes: its changes, each with the row changes of the table before it.
        seed: decides the values.
        sizes: column, by its first name → characters or bytes of each value.
    """
    salts = {column.name: zlib.crc32(f"{seed}:{first.name}:{column.name}".encode()) for column in first.columns}
    types: dict[str, tuple[tuple[int, DeclaredType], ...]] = {c.name: ((0, c.type),) for c in first.columns}
    sized = {column.name: sizes.get(column.name, 0) for column in first.columns}
    found = [_version(first, salts, types, sized, 0)]
    for number, (change, start) in enumerate(changes, 1):
        were = salts, types, sized
        salts, types, sized = {}, {}, {}
        for column in change.after.columns:
            name, old = column.name, change.came_from(column.name)
            if not old:
                salts[name] = zlib.crc32(f"{seed}:{first.name}:{name}:{number}".encode())
                types[name], sized[name] = ((number, column.type),), sizes.get(name, 0)
                continue
            salts[name], types[name], sized[name] = were[0][old], were[1][old], were[2][old]
            if types[name][-1][1] != column.type:
                types[name] = (*types[name], (number, column.type))
        found.append(_version(change.after, salts, types, sized, start))
    return tuple(found)


def _version(
    table: TableDefinition,
    salts: dict[str, int],
    types: dict[str, tuple[tuple[int, DeclaredType], ...]],
    sizes: dict[str, int],
    start: int,
) -> TableVersion:
    # Whether a TIMESTAMP takes NULL depends on a server's setting; a mock one does.
    columns = (c if c.nullable is False else replace(c, nullable=True) for c in table.columns)
    logged = logged_table(replace(table, columns=tuple(columns)), "mysql")
    made = tuple(MockColumn(c.name, salts[c.name], types[c.name], arrow_type(c), sizes[c.name]) for c in logged.columns)
    schema = logged.to_schema(-1)
    shown = tuple(_schema_column(*pair) for pair in zip(schema.columns, table.columns, strict=True))
    return TableVersion(replace(schema, columns=shown), made, start)


def _schema_column(told: ColumnSchema, declared: ColumnDefinition) -> ColumnSchema:
    """Return a column's schema; a VARCHAR without a length, which no server has, is called so."""
    return replace(told, type="varchar") if declared.type == DeclaredType("varchar") else told
