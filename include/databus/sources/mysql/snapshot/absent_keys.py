"""Absent keys: those of some keys that no row of a consistent view has, as rows that delete them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.arrow_columns import arrow_type
from databus.binlog.decoding.table_batch import DELETE, TableBatch
from databus.binlog.log.tablemap import TableMap
from databus.core.tables.schemas import TableSchema
from databus.rows.keys import KeyEncoder, key_encoder

log = logging.getLogger(__name__)


def image_schema(table: TableMap) -> pa.Schema:
    """Return the columns of a table's images, as the log describes it."""
    columns = (column for number, column in enumerate(table.columns) if number not in table.hidden)
    return pa.schema([(column.name, arrow_type(column)) for column in columns])


def deletes_of_absent(
    images: pa.Schema, schema: TableSchema, keys: Sequence[str], there: Iterable[TableBatch]
) -> TableBatch | None:
    """Return a row of op DELETE for each of some keys that no row of a view has; None for no such key.

    Keys are compared byte by byte, whatever the collation of their columns: a row that got another spelling of its key
    lies under another key in the sinks.

    Args:
        images: columns of the table's images.
        schema: the table.
        keys: JSON of each key, e.g. {"id":1}. One that no row of the table could have is left out.
        there: all rows of the view that may have one of the keys.
    """
    present = {key for batch in there for key in _encoder(batch).keys(batch.after_row, batch.before_row).to_pylist()}
    rows: dict[bytes, dict[str, Any]] = {}
    for key in keys:
        values = json.loads(key)
        made = _batch([values], schema, images) if _names_a_row(values, schema) else None
        if made is None:
            log.warning("%s: no row can have the key %s: nothing is deleted for it", schema.full_name, key)
            continue
        (found,) = _encoder(made).keys(made.after_row, made.before_row).to_pylist()
        if json.loads(found) != values:
            log.warning("%s: the key %s would be %r of a row: nothing is deleted for it", schema.full_name, key, found)
        elif found not in present:
            rows[found] = values
    return _batch(list(rows.values()), schema, images) if rows else None


def key_presence(schema: TableSchema) -> np.ndarray:
    """Return bool[columns], which columns the image of an absent row carries: those of its key."""
    return np.array([column.name in schema.primary_key for column in schema.columns], np.bool_)


def deletes(images: pa.RecordBatch, schema: TableSchema, first: int) -> TableBatch:
    """Return rows of op DELETE by their before-images, which carry the key alone.

    Args:
        images: one a row.
        schema: the table.
        first: ordinal of the first row; the others count on.
    """
    n = images.num_rows
    return TableBatch(
        schema=schema,
        images=images,
        op=np.full(n, DELETE, np.int8),
        before_row=np.arange(n, dtype=np.int32),
        after_row=np.full(n, -1, np.int32),
        transaction=np.zeros(n, np.int32),
        ordinal=np.arange(first, first + n, dtype=np.int64),
        presence=np.zeros(n, np.int32),
        presence_sets=(key_presence(schema),),
        exceptions={},
    )


def _names_a_row(values: dict[str, Any], schema: TableSchema) -> bool:
    return set(values) == set(schema.primary_key) and None not in values.values()


def _batch(rows: Sequence[dict[str, Any]], schema: TableSchema, images: pa.Schema) -> TableBatch | None:
    """Return rows that have these keys; None where a value is none of its column's type."""
    try:
        arrays = [pa.array([row.get(column.name) for row in rows], column.type) for column in images]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return deletes(pa.RecordBatch.from_arrays(arrays, schema=images), schema, 0)


def _encoder(batch: TableBatch) -> KeyEncoder:
    encoder = key_encoder(batch)
    if encoder is None:
        raise AssertionError(f"{batch.schema.full_name} has no key")  # of a table without one no key is named
    return encoder
