"""Builds decoded batches from Python values, for tests of what comes after the decoder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import DELETE, INSERT, READ, UPDATE, TableBatch, Transactions
from databus.core.tables.schemas import ColumnSchema, TableSchema

Image = Mapping[str, Any]
"""Column name → value; a column left out is absent from the image, None is NULL."""

_KINDS: dict[str, tuple[pa.DataType, str]] = {
    "tinyint": (pa.int8(), "tinyint"),
    "smallint": (pa.int16(), "smallint"),
    "int": (pa.int32(), "int"),
    "bigint": (pa.int64(), "bigint"),
    "int unsigned": (pa.uint32(), "bigint"),
    "bigint unsigned": (pa.uint64(), "decimal(20,0)"),
    "bit": (pa.uint64(), "decimal(20,0)"),
    "year": (pa.int16(), "int"),
    "float": (pa.float32(), "float"),
    "double": (pa.float64(), "double"),
    "date": (pa.date32(), "date"),
    "datetime": (pa.timestamp("us"), "timestamp_ntz"),
    "timestamp": (pa.timestamp("us", "UTC"), "timestamp"),
    "time": (pa.duration("us"), "string"),
    "blob": (pa.binary(), "binary"),
    "binary": (pa.binary(), "binary"),
    "varbinary": (pa.binary(), "binary"),
}
_TEXT = (pa.string(), "string")


@dataclass(frozen=True)
class Unrepresentable:
    """A value its Arrow type cannot hold: the text of a date, Unrepresentable("0000-00-00"), or undecodable bytes."""

    text: str | bytes


def column(name: str, kind: str) -> ColumnSchema:
    """Return a column of a MySQL type: "bigint unsigned", "decimal(12,2)", "datetime(6)", "varchar(20)"."""
    return ColumnSchema(name, kind, _types(kind)[1])


def table(
    name: str, columns: Mapping[str, str], primary_key: Sequence[str] = ("id",), *, schema_id: int = 0
) -> TableSchema:
    """Return the schema of `database.table` from column name → MySQL type."""
    database, _, short = name.partition(".")
    return TableSchema(
        schema_id, database, short, tuple(column(n, kind) for n, kind in columns.items()), tuple(primary_key)
    )


def batch(
    schema: TableSchema,
    changes: Sequence[tuple[Image | None, Image | None]],
    *,
    transactions: Sequence[int] | None = None,
    ordinals: Sequence[int] | None = None,
    read: bool = False,
) -> TableBatch:
    """Return a batch of (before, after) pairs: (None, after) inserts, (before, None) deletes.

    By default all changes lie in transaction 0 with ordinals 0, 1, …

    Args:
        schema: the table.
        changes: the pairs.
        transactions: transaction of each.
        ordinals: ordinal of each.
        read: whether a snapshot read the rows that would be inserts.
    """
    images: list[Image] = []

    def row_of(image: Image | None) -> int:
        if image is None:
            return -1
        images.append(image)
        return len(images) - 1

    rows = [(row_of(before), row_of(after)) for before, after in changes]
    names = [c.name for c in schema.columns]
    sets = sorted({tuple(name in image for name in names) for image in images})
    n = len(rows)
    return TableBatch(
        schema=schema,
        images=pa.RecordBatch.from_arrays(
            [_array([image.get(c.name) for image in images], c.type) for c in schema.columns], names=names
        ),
        op=np.array([(READ if read else INSERT) if b < 0 else DELETE if a < 0 else UPDATE for b, a in rows], np.int8),
        before_row=np.array([b for b, _ in rows], np.int32),
        after_row=np.array([a for _, a in rows], np.int32),
        transaction=np.array(transactions if transactions is not None else [0] * n, np.int32),
        ordinal=np.array(ordinals if ordinals is not None else range(n), np.int64),
        presence=np.array([sets.index(tuple(name in image for name in names)) for image in images], np.int32),
        presence_sets=tuple(np.array(present, np.bool_) for present in sets),
        exceptions={
            c: found
            for c, name in enumerate(names)
            if (found := {r: v.text for r, i in enumerate(images) if isinstance(v := i.get(name), Unrepresentable)})
        },
    )


def transactions(count: int = 1, *, gtid: bool = True, file: str = "binlog.000001") -> Transactions:
    """Return transactions of 100 bytes and one second each."""
    numbers = np.arange(count, dtype=np.int64)
    return Transactions(
        file=file,
        start_pos=4 + 100 * numbers,
        end_pos=104 + 100 * numbers,
        gtid=pa.array([f"source:{n + 1}" if gtid else "" for n in range(count)], pa.string()),
        ts_ms=1_700_000_000_000 + 1000 * numbers,
        server_id=np.full(count, 1, np.int64),
    )


def _types(kind: str) -> tuple[pa.DataType, str]:
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)(?: unsigned)?", kind)
    if decimal:
        precision, scale = int(decimal.group(1)), int(decimal.group(2))
        return pa.decimal128(precision, scale), f"decimal({precision},{scale})"
    return _KINDS.get(re.sub(r"\([^)]*\)", "", kind), _TEXT)


def _array(values: Sequence[Any], kind: str) -> pa.Array:
    return pa.array([None if isinstance(v, Unrepresentable) else v for v in values], _types(kind)[0])
