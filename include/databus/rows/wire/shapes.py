"""Columns that a table's records have, and the head of Confluent's wire format. Needs no kernel."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from databus.core.errors.source import DecodeError
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import ColumnSchema, TableSchema

MAGIC = b"\0"
"""First byte of Confluent's wire format; four bytes of the schema's id follow (big-endian)."""

Wanted = tuple[tuple[str, str], ...] | None
"""Columns of an image: (name at the source, name in the image); None for all."""


Field = TypeVar("Field")


@dataclass(frozen=True)
class TableShape(Generic[Field]):
    """Shape of a table's records.

    Attributes:
        chosen: number of the column at the source, and its field, of each column of an image.
        key: fields of the key.
        form: fingerprint of both.
    """

    chosen: tuple[tuple[int, Field], ...]
    key: tuple[Field, ...]
    form: str


def wire_head(schema_id: int) -> bytes:
    """Return what a record with this schema begins with."""
    return MAGIC + schema_id.to_bytes(4, "big")


@functools.lru_cache(maxsize=1000)
def written_columns(table: TableSchema, wanted: Wanted) -> tuple[tuple[ColumnSchema, ...], tuple[int, ...]]:
    """Return the columns of a table's images, named as there, and the number of each at the source."""
    place = {column.name: number for number, column in enumerate(table.columns)}
    pairs = wanted if wanted is not None else tuple((name, name) for name in place)
    return (
        tuple(replace(table.columns[place[source]], name=name) for source, name in pairs),
        tuple(place[source] for source, _ in pairs),
    )


def key_columns(table: TableSchema) -> tuple[ColumnSchema, ...]:
    """Return the columns of a table's primary key, in its order."""
    of_name = {column.name: column for column in table.columns}
    return tuple(of_name[name] for name in table.primary_key)


def require_registered(table: TableSchema, registered: RegisteredSchemas, form: str, found: str) -> None:
    """Refuse rows of other columns than a plan's schemas describe.

    Args:
        table: the table, as its rows have it.
        registered: what the plan has pinned.
        form: what the format is called.
        found: fingerprint of the columns.

    Raises:
        DecodeError: it is another.
    """
    if found != registered.form:
        name = form.removesuffix(" Schema")
        raise DecodeError(
            f"rows of {table.full_name} have other columns than the {name} schema {registered.value} that was "
            f"registered for {registered.topic} when their batch was planned",
            hint="Two versions of databus move the flow: run one everywhere. If not, report it.",
        )
