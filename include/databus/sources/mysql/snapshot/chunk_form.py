"""Form of a chunk file's rows: the row images, and beside them what their Arrow types cannot hold.

The last column has the exceptions of each row, null without any: JSON {column number: text of a date, or {"base64":
bytes that are no text}}.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import DELETE, READ, LargeValue, TableBatch
from databus.core.stored_form import Form
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.snapshot.absent_keys import deletes, key_presence

CHUNK = Form("chunk", "table snapshot number read_at_ms", "deletes")

EXCEPTIONS = pa.field("exceptions", pa.string())
"""Column of the exceptions; a column of the table may have the same name."""

Value = str | bytes | LargeValue


@dataclass(frozen=True)
class ChunkHead:
    """Head of a chunk file.

    Attributes:
        schema: the table, as the log describes it; its `schema_id` means nothing.
        snapshot: number of the snapshot in its flow.
        number: number of the chunk in the snapshot; no two chunks of one snapshot have the same.
        read_at_ms: when the view was opened that it was read in, ms since the epoch, by the server's clock.
        deletes: whether its rows are keys that the view did not have, of op DELETE.
    """

    schema: TableSchema
    snapshot: int
    number: int
    read_at_ms: int
    deletes: bool = False

    @property
    def event_head(self) -> str:
        """Head of its rows' event ids, without what stands before the ids of a log that replaced others.

        It holds the time: a chunk that is read again, because its plan was given up, may have other rows.
        """
        return f"snapshot-{self.snapshot}-{self.number}-{self.read_at_ms}"

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return CHUNK.write(
            {
                "table": self.schema.to_json(),
                "snapshot": self.snapshot,
                "number": self.number,
                "read_at_ms": self.read_at_ms,
                **({"deletes": True} if self.deletes else {}),
            }
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ChunkHead:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or no chunk.
        """
        values = CHUNK.read(data)
        schema = TableSchema.from_json(values["table"])
        return cls(schema, values["snapshot"], values["number"], values["read_at_ms"], values.get("deletes", False))


def stored_of(batch: TableBatch, head: ChunkHead) -> pa.RecordBatch:
    """Return what is stored of rows: their images, and their exceptions behind them.

    Raises:
        ValueError: it is no batch that a snapshot read, or of another table.
    """
    n = len(batch)
    if replace(batch.schema, schema_id=head.schema.schema_id) != head.schema:
        raise ValueError(f"rows of {batch.schema.full_name} do not belong to a chunk of {head.schema.full_name}")
    if not (_of_absent(batch) if head.deletes else _whole(batch)):
        raise ValueError("a chunk takes whole rows of op READ, or keys to delete, each with its image at its own place")
    of_row: list[dict[str, Any] | None] = [None] * n
    for column, found in batch.exceptions.items():
        for row, value in found.items():
            of_row[row] = {**(of_row[row] or {}), str(column): _plain(value)}
    texts = [None if found is None else json.dumps(found) for found in of_row]
    exceptions = pa.nulls(n, pa.string()) if not batch.exceptions else pa.array(texts, pa.string())
    schema = pa.schema([*batch.images.schema, EXCEPTIONS])
    return pa.RecordBatch.from_arrays([*batch.images.columns, exceptions], schema=schema)


def batch_of(stored: pa.RecordBatch, head: ChunkHead, first: int) -> TableBatch:
    """Return the rows of what `stored_of` gave.

    Args:
        stored: images and exceptions.
        head: the chunk's.
        first: ordinal of the first row; the others count on.
    """
    n, columns = stored.num_rows, stored.columns
    images = pa.RecordBatch.from_arrays(columns[:-1], schema=pa.schema(list(stored.schema)[:-1]))
    if head.deletes:
        return deletes(images, head.schema, first)
    exceptions: dict[int, dict[int, Value]] = {}
    if columns[-1].null_count < n:
        for row, text in enumerate(columns[-1].to_pylist()):
            for column, value in json.loads(text or "{}").items():
                exceptions.setdefault(int(column), {})[row] = _value(value)
    return TableBatch(
        schema=head.schema,
        images=images,
        op=np.full(n, READ, np.int8),
        before_row=np.full(n, -1, np.int32),
        after_row=np.arange(n, dtype=np.int32),
        transaction=np.zeros(n, np.int32),
        ordinal=np.arange(first, first + n, dtype=np.int64),
        presence=np.zeros(n, np.int32),
        presence_sets=(np.ones(len(head.schema.columns), np.bool_),),
        exceptions=exceptions,
    )


def _whole(batch: TableBatch) -> bool:
    whole = all(carried.all() for carried in batch.presence_sets) and not (batch.partial or batch.unjudged)
    return whole and bool((batch.op == READ).all()) and np.array_equal(batch.after_row, np.arange(len(batch)))


def _of_absent(batch: TableBatch) -> bool:
    """Tell whether rows are as `deletes` makes them."""
    keyed = [carried.tolist() for carried in batch.presence_sets] == [key_presence(batch.schema).tolist()]
    alone = bool((batch.op == DELETE).all()) and bool((batch.after_row < 0).all())
    return keyed and alone and not batch.exceptions and np.array_equal(batch.before_row, np.arange(len(batch)))


def _plain(value: Value) -> str | dict[str, str]:
    if isinstance(value, LargeValue):
        raise ValueError("a value that was left outside its row cannot be stored in a chunk")
    return {"base64": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value


def _value(stored: str | Mapping[str, str]) -> Value:
    return stored if isinstance(stored, str) else base64.b64decode(stored["base64"])
