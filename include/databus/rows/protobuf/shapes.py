"""Shapes of a table's records in Protobuf: which columns they have, under which names. Needs no kernel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.protobuf.schemas import fingerprint
from databus.rows.protobuf.types import ProtobufField, protobuf_fields
from databus.rows.wire.shapes import Wanted, key_columns, written_columns


@dataclass(frozen=True)
class TableShape:
    """Shape of a table's records.

    Attributes:
        chosen: number of the column at the source, and its field, of each column of an image.
        key: fields of the key.
        form: fingerprint of both.
    """

    chosen: tuple[tuple[int, ProtobufField], ...]
    key: tuple[ProtobufField, ...]
    form: str


def shape_of(table: TableSchema, written: Sequence[ColumnSchema], places: Sequence[int]) -> TableShape:
    """Return the shape of a table's records; see `rows.avro.shapes`.

    Raises:
        SinkSettingError: names that Protobuf does not tell apart.
    """
    fields = protobuf_fields(table.full_name, written)
    key = protobuf_fields(table.full_name, key_columns(table), key=True)
    return TableShape(tuple(zip(places, fields, strict=True)), key, fingerprint(fields, key))


@functools.lru_cache(maxsize=1000)
def shape_in(table: TableSchema, wanted: Wanted, stored: TableSchema | None = None) -> TableShape:
    """Return the shape of a table's records.

    Args:
        table: the table as its images are.
        wanted: (name at the source, name in the image) of its columns; None for all of them.
        stored: the table at the source, whose keys the records have; None where it is the same.
    """
    return shape_of(stored or table, *written_columns(table, wanted))
