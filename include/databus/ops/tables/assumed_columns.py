"""Assumed columns: those that a flow asks for and its tables lack, assumed so that no fault hides another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from databus.core.findings import Finding
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import Field

_ASSUMED = "\0"
"""Begins the stored name of a column that is assumed: no column of a table does."""


@dataclass(frozen=True)
class Lack:
    """A column that tables lack.

    Attributes:
        finding: what is reported of it.
        name: the column.
        tables: the tables.
    """

    finding: Finding
    name: str
    tables: tuple[TableSchema, ...]


def has(changes: FrameChanges, table: TableSchema, name: str, *, exactly: bool) -> bool:
    """Return whether a table has a column; one that is assumed counts once it was given another name.

    Args:
        changes: the columns as the transforms so far leave them.
        table: one of its tables.
        name: of the column.
        exactly: whether case matters, as in the source.
    """
    if exactly:
        return any(column.name == name for column in table.columns)
    found = changes.field(name, table)
    return found is not None and found.source != f"{_ASSUMED}{found.column.name}"


def columns_there(changes: FrameChanges, table: TableSchema) -> list[str]:
    """Return the columns of a table that are not assumed."""
    return [f.column.name for f in changes.fields[table.schema_id] if not f.source.startswith(_ASSUMED)]


def with_assumed(changes: FrameChanges, lacks: Iterable[Lack]) -> FrameChanges:
    """Return the changes as if the columns were there."""
    for lack in lacks:
        column = Field(ColumnSchema(lack.name, "text", "string"), f"{_ASSUMED}{lack.name}")
        for number in {table.schema_id for table in lack.tables}:
            table = changes.schema(number)
            if changes.field(lack.name, table) is None:
                changes = _with_fields(changes, table, (*changes.fields[number], column))
    return changes


def any_assumed(one: FrameChanges) -> bool:
    """Return whether any column of one table is assumed."""
    (table,) = one.tables
    return len(columns_there(one, table)) < len(one.fields[table.schema_id])


def without_assumed(one: FrameChanges) -> FrameChanges:
    """Return one table with what it has."""
    (table,) = one.tables
    fields = one.fields[table.schema_id]
    return _with_fields(one, table, tuple(f for f in fields if not f.source.startswith(_ASSUMED)))


def either(before: FrameChanges, after: FrameChanges) -> FrameChanges:
    """Return one table with the columns that it has before or after a transform."""
    (table,) = after.tables
    left = after.fields[table.schema_id]
    names = {field.column.name for field in left}
    more = (field for field in before.fields[table.schema_id] if field.column.name not in names)
    return _with_fields(after, table, (*left, *more))


def replaced(changes: FrameChanges, one: FrameChanges) -> FrameChanges:
    """Return the changes with the one table of others in the place of its own."""
    (table,) = one.tables
    return _with_fields(changes, table, one.fields[table.schema_id])


def _with_fields(changes: FrameChanges, table: TableSchema, fields: tuple[Field, ...]) -> FrameChanges:
    present = replace(table, columns=tuple(field.column for field in fields))
    tables = tuple(present if t.schema_id == table.schema_id else t for t in changes.tables)
    return replace(changes, tables=tables, fields={**changes.fields, table.schema_id: fields})
