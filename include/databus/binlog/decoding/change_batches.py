"""Row changes as record batches for users of the library: typed images beside where each change stands in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch, TableEvent, Transactions

_OPS: Final = pa.array(["c", "u", "d"])
_ABSENT: Final = pa.list_(pa.string())
_TEXTS: Final = pa.map_(pa.string(), pa.string())
_BYTES: Final = pa.map_(pa.string(), pa.binary())

DATABASE, TABLE, PRIMARY_KEY = b"databus.database", b"databus.table", b"databus.primary_key"
"""Keys of the schema metadata of every batch; the key's columns are separated by line feeds."""


def change_schema(images: pa.Schema | None, database: str, table: str, key: tuple[str, ...] = ()) -> pa.Schema:
    """Return the schema of the batches of one table.

    Args:
        images: the table's columns; None for statements, which have no images.
        database: database name.
        table: table name.
        key: names of the primary key's columns.
    """
    image = pa.null() if images is None else pa.struct(list(images))
    columns = {
        "op": pa.string(),
        "before": image,
        "after": image,
        "file": pa.string(),
        "position": pa.int64(),
        "gtid": pa.string(),
        "ts_ms": pa.int64(),
        "server_id": pa.int64(),
        "ordinal": pa.int64(),
        "before_absent": _ABSENT,
        "after_absent": _ABSENT,
        "before_exceptions": _TEXTS,
        "after_exceptions": _TEXTS,
        "before_undecodable": _BYTES,
        "after_undecodable": _BYTES,
        "after_partial": _ABSENT,
        "statement": pa.string(),
    }
    metadata = {DATABASE: database.encode(), TABLE: table.encode(), PRIMARY_KEY: "\n".join(key).encode()}
    return pa.schema(list(columns.items()), metadata)


def change_batch(batch: TableBatch, transactions: Transactions) -> pa.RecordBatch:
    """Return the row changes of a batch, one per row, images without a copy where that is possible."""
    n = len(batch)
    schema = change_schema(batch.images.schema, batch.schema.database, batch.schema.table, batch.schema.primary_key)
    columns: dict[str, pa.Array] = {"op": _OPS.take(pa.array(batch.op)), "statement": pa.nulls(n, pa.string())}
    for name, rows in (("before", batch.before_row), ("after", batch.after_row)):
        columns[name] = _images(batch.images, rows, schema.field(name).type)
        columns[f"{name}_absent"] = _absent(batch, rows)
        columns[f"{name}_exceptions"] = _exceptions(batch, rows)
        columns[f"{name}_undecodable"] = _undecodable(batch, rows)
    columns["after_partial"] = _partial(batch, batch.after_row)
    columns |= _places(transactions, batch.transaction, batch.ordinal)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def statement_batch(event: TableEvent, transactions: Transactions) -> pa.RecordBatch:
    """Return a TRUNCATE or definition statement as a batch of one row without images."""
    schema = change_schema(None, event.database, event.table)
    columns = {field.name: pa.nulls(1, field.type) for field in schema}
    columns |= {"op": pa.array([event.op]), "statement": pa.array([event.statement])}
    columns |= _places(transactions, np.array([event.transaction]), np.array([event.ordinal], np.int64))
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _images(images: pa.RecordBatch, rows: npt.NDArray[np.int32], kind: pa.DataType) -> pa.Array:
    missing = rows < 0
    if missing.all():
        return pa.nulls(len(rows), kind)
    whole = pa.StructArray.from_arrays(images.columns, fields=list(kind))
    if len(rows) == len(images) and rows[0] == 0 and bool((np.diff(rows) == 1).all()):
        return whole
    return whole.take(pa.array(rows, mask=missing))


def _absent(batch: TableBatch, rows: npt.NDArray[np.int32]) -> pa.Array:
    """Return per image the names of columns that it does not carry; null where it carries all."""
    sets = batch.presence_sets
    if all(s.all() for s in sets):
        return pa.nulls(len(rows), _ABSENT)
    names = np.array([c.name for c in batch.schema.columns], object)
    lists = pa.array([None if s.all() else names[~s].tolist() for s in sets], _ABSENT)
    return lists.take(pa.array(batch.presence[rows], mask=rows < 0))


def _exceptions(batch: TableBatch, rows: npt.NDArray[np.int32]) -> pa.Array:
    """Return per image column → text of the values that Arrow cannot hold; null where there is none."""
    texts: dict[int, list[tuple[str, str]]] = {}
    for column, found in batch.exceptions.items():
        for row, value in found.items():
            if isinstance(value, str):
                texts.setdefault(row, []).append((batch.schema.columns[column].name, value))
    if not texts:
        return pa.nulls(len(rows), _TEXTS)
    return pa.array([texts.get(row) for row in rows.tolist()], _TEXTS)


def _undecodable(batch: TableBatch, rows: npt.NDArray[np.int32]) -> pa.Array:
    """Return per image column → bytes that are no text of the column's character set; null where there is none."""
    raw: dict[int, list[tuple[str, bytes]]] = {}
    for column, found in batch.exceptions.items():
        for row, value in found.items():
            if isinstance(value, bytes):
                raw.setdefault(row, []).append((batch.schema.columns[column].name, value))
    if not raw:
        return pa.nulls(len(rows), _BYTES)
    return pa.array([raw.get(row) for row in rows.tolist()], _BYTES)


def _partial(batch: TableBatch, rows: npt.NDArray[np.int32]) -> pa.Array:
    """Return per image the names of columns whose document the log does not hold; null where there is none."""
    names: dict[int, list[str]] = {}
    for column, found in batch.partial.items():
        for row in found:
            names.setdefault(row, []).append(batch.schema.columns[column].name)
    if not names:
        return pa.nulls(len(rows), _ABSENT)
    return pa.array([names.get(row) for row in rows.tolist()], _ABSENT)


def _places(
    transactions: Transactions, transaction: npt.NDArray[np.integer], ordinal: npt.NDArray[np.int64]
) -> Mapping[str, pa.Array]:
    index = pa.array(transaction)
    return {
        "file": pa.repeat(pa.scalar(transactions.file), len(ordinal)),
        "position": pa.array(transactions.end_pos[transaction]),
        "gtid": transactions.gtid.take(index),
        "ts_ms": pa.array(transactions.ts_ms[transaction]),
        "server_id": pa.array(transactions.server_id[transaction]),
        "ordinal": pa.array(ordinal),
    }
