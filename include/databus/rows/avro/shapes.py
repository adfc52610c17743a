"""Shapes of a table's records in Avro: which columns they have, under which names. Needs no kernel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.avro.schemas import fingerprint
from databus.rows.avro.types import AvroField, avro_fields

MAGIC = b"\0"
"""First byte of Confluent's wire format; four bytes of the schema's id follow (big-endian)."""


@dataclass(frozen=True)
class TableShape:
    """Shape of a table's records.

    Attributes:
        chosen: number of the column at the source, and its field, of each column of an image.
        key: fields of the key.
        form: fingerprint of both.
    """

    chosen: tuple[tuple[int, AvroField], ...]
    key: tuple[AvroField, ...]
    form: str


def wire_head(schema_id: int) -> bytes:
    """Return what a record with this schema begins with."""
    return MAGIC + schema_id.to_bytes(4, "big")


def shape_of(table: TableSchema, written: Sequence[ColumnSchema], places: Sequence[int]) -> TableShape:
    """Return the shape of a table's records.

    Args:
        table: the table at the source, with its primary key.
        written: columns of its images, in their order.
        places: number of each at the source.

    Raises:
        SinkSettingError: names that Avro does not tell apart.
    """
    fields = avro_fields(table.full_name, written)
    of_name = {column.name: column for column in table.columns}
    key = avro_fields(table.full_name, [of_name[name] for name in table.primary_key], key=True)
    return TableShape(tuple(zip(places, fields, strict=True)), key, fingerprint(fields, key))


@functools.lru_cache(maxsize=1000)
def shape_in(
    table: TableSchema, wanted: tuple[tuple[str, str], ...] | None, stored: TableSchema | None = None
) -> TableShape:
    """Return the shape of a table's records.

    Args:
        table: the table as its images are.
        wanted: (name at the source, name in the image) of its columns; None for all of them.
        stored: the table at the source, whose keys the records have; None where it is the same.
    """
    place = {column.name: number for number, column in enumerate(table.columns)}
    pairs = wanted if wanted is not None else tuple((name, name) for name in place)
    written = [replace(table.columns[place[source]], name=name) for source, name in pairs]
    return shape_of(stored or table, written, [place[source] for source, _ in pairs])
