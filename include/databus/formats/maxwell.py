"""Maxwell's JSON: one flat object per row change, with `data` and, of an update, the `old` values that changed.

The shape is that of Maxwell's documentation ("Data format") with `output_gtid_position`, `output_xoffset`,
`output_server_id` and `output_primary_key_columns`; `event_id` and `flags` are databus's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.events import Op
from databus.core.tables.schemas import TableSchema
from databus.formats.literals import base_type, spaced
from databus.formats.row_runs import MessageFacts, by_table, flag_member, gtids, runs
from databus.rows.image_form import FORM_KEY
from databus.rows.json_images import shown, with_points
from databus.rows.json_pieces import Piece, Values, join
from databus.rows.json_text import json_literals, quoted
from databus.rows.keys import key_literals, with_exceptions

_TYPES = {Op.CREATE: "insert", Op.UPDATE: "update", Op.DELETE: "delete", Op.READ: "bootstrap-insert"}
_SHARED = ["op", "database", "table", "log", "place", "transaction", "ts_ms", "server_id"]


@dataclass(frozen=True)
class MaxwellValues:
    """Form of values in Maxwell's JSON: times with a blank, SETs as arrays, JSON documents as they are."""

    changed_only: ClassVar[bool] = True

    def literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return a column's values as JSON literals."""
        schema, array = batch.schema.columns[column], batch.images.column(column)
        base = base_type(schema)
        exceptions = {row: shown(value) for row, value in batch.exceptions.get(column, {}).items()}
        if base == "json":
            # Text in our images; the document itself here. A value that was moved out stands as its reference.
            texts = pc.if_else(pc.is_valid(array), array, pa.scalar(None, pa.string()))
            return with_exceptions(texts, exceptions)
        if base == "set":
            return pa.array([None if v is None else _members(v) for v in array.to_pylist()], pa.string())
        literals = json_literals(array, schema)
        if pa.types.is_floating(array.type):
            literals = with_points(literals, array)
        return spaced(with_exceptions(literals, exceptions), array.type)

    def key_literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return those of a key column."""
        return spaced(key_literals(batch, column), batch.images.column(column).type)

    def flags(self, batch: TableBatch) -> Mapping[int, Mapping[int, str]]:  # noqa: ARG002 - the protocol's signature
        """Return nothing: no value is lost."""
        return {}


@dataclass(frozen=True)
class MaxwellJson:
    """Format of Maxwell's JSON.

    Attributes:
        values: form of the values.
        keys: schema_id → text of `primary_key_columns`; filled by `of_tables`.
    """

    values: MaxwellValues = field(default_factory=MaxwellValues)
    keys: Mapping[int, bytes] = field(default_factory=dict)

    def of_tables(self, tables: Sequence[TableSchema], facts: MessageFacts) -> MaxwellJson:  # noqa: ARG002
        """Return the format with the key columns of a plan's tables."""
        return replace(self, keys={t.schema_id: _list(t.primary_key) for t in tables})

    def values_of(self, rows: pa.RecordBatch, facts: MessageFacts) -> pa.BinaryArray:  # noqa: ARG002
        """Return the messages."""
        first, of_row = runs(rows)
        shared = rows.select(_SHARED).take(first)
        kinds = pa.array([_TYPES[Op(op)] for op in shared["op"].to_pylist()], pa.string())
        seconds = np.asarray(shared["ts_ms"].cast(pa.int64()).fill_null(0)) // 1000
        place = pc.binary_join_element_wise(shared["log"], shared["place"].cast(pa.string()), ":")
        head: list[Piece] = [
            b'{"database":',
            Values(quoted(shared["database"])),
            b',"table":',
            Values(quoted(shared["table"])),
            b',"type":',
            Values(quoted(kinds)),
            b',"ts":',
            Values(pa.array(seconds).cast(pa.string())),
            b',"position":',
            Values(quoted(place)),
            b',"gtid":',
            Values(quoted(gtids(shared))),
            b',"server_id":',
            Values(shared["server_id"].cast(pa.string())),
            b',"xoffset":',
        ]
        updated = pc.equal(rows["op"], Op.UPDATE.value)
        old = pc.binary_join_element_wise(
            pa.scalar(b',"old":', pa.binary()), rows["before"], pa.scalar(b"", pa.binary())
        )
        pieces: list[Piece] = [
            Values(join(head, shared.num_rows), of_row),
            Values(rows["ordinal"].cast(pa.string())),
            b',"primary_key_columns":',
            by_table(rows, self.keys, {}),
            b',"event_id":',
            Values(quoted(rows["event_id"])),
            b',"data":',
            Values(pc.coalesce(rows["after"], rows["before"])),
            Values(pc.fill_null(pc.if_else(updated, old, pa.scalar(b"", pa.binary())), b"")),
            *flag_member(rows["flags"], "flags"),
            b"}",
        ]
        return join(pieces, rows.num_rows)

    def _of_one_column(self, rows: pa.RecordBatch) -> pa.BinaryArray | None:
        """Return the keys of one table's rows whose key has one column, None of others: its label is cut off."""
        ids = pc.unique(rows["schema_id"]).to_pylist()
        names: list[str] = json.loads(self.keys.get(ids[0], b"[]")) if len(ids) == 1 else []
        if len(names) != 1:
            return None
        head = _head(rows["database"][0].as_py(), rows["table"][0].as_py())
        label = len(json.dumps(names[0], ensure_ascii=False).encode()) + 2  # a brace and a colon
        new = f"{head},{json.dumps(f'pk.{names[0]}', ensure_ascii=False)}:".encode()
        return pc.binary_replace_slice(rows[FORM_KEY], start=0, stop=label, replacement=new)

    def keys_of(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the keys: database, table, and `pk.COLUMN` for each column of the primary key."""
        if (simple := self._of_one_column(rows)) is not None:
            return simple
        keys = rows[FORM_KEY].to_pylist()
        names = zip(rows["database"].to_pylist(), rows["table"].to_pylist(), strict=True)
        made = [None if key is None else _key(key, *name) for key, name in zip(keys, names, strict=True)]
        return pa.array(made, pa.binary())


def _head(database: str, table: str) -> str:
    named = {"database": database, "table": table}
    return json.dumps(named, ensure_ascii=False, separators=(",", ":"))[:-1]


def _key(key: bytes, database: str, table: str) -> bytes:
    columns = json.loads(key, parse_float=_Digits, parse_int=_Digits)
    named = (f"{json.dumps(f'pk.{name}', ensure_ascii=False)}:{_text(value)}" for name, value in columns.items())
    return f"{_head(database, table)},{','.join(named)}}}".encode()


class _Digits(str):
    """Number as it is written."""

    __slots__ = ()


def _text(value: object) -> str:
    return str(value) if isinstance(value, _Digits) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _members(value: str) -> str:
    return json.dumps(value.split(",") if value else [], ensure_ascii=False, separators=(",", ":"))


def _list(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()
