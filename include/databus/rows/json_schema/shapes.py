"""Shapes of a table's records in JSON with a schema: which columns they have. Needs no kernel."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.json_schema.schemas import fingerprint
from databus.rows.wire.shapes import Wanted, key_columns, written_columns


@dataclass(frozen=True)
class TableShape:
    """Shape of a table's records.

    Attributes:
        columns: of an image, named as there.
        key: columns of the key.
        form: fingerprint of both.
    """

    columns: tuple[ColumnSchema, ...]
    key: tuple[ColumnSchema, ...]
    form: str


def shape_of(table: TableSchema, written: Sequence[ColumnSchema]) -> TableShape:
    """Return the shape of a table's records.

    Args:
        table: the table at the source, with its primary key.
        written: columns of its images, in their order.
    """
    key = key_columns(table)
    return TableShape(tuple(written), key, fingerprint(written, key))


@functools.lru_cache(maxsize=1000)
def shape_in(table: TableSchema, wanted: Wanted, stored: TableSchema | None = None) -> TableShape:
    """Return the shape of a table's records.

    Args:
        table: the table as its images are.
        wanted: (name at the source, name in the image) of its columns; None for all of them.
        stored: the table at the source, whose keys the records have; None where it is the same.
    """
    return shape_of(stored or table, written_columns(table, wanted)[0])
