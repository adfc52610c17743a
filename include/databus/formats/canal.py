"""Canal's flat JSON: rows in the list `data`, every value a text, with the types of the table's columns beside them.

The shape is that of Canal's `FlatMessage` (protocol/src/main/java/com/alibaba/otter/canal/protocol/FlatMessage.java);
`eventId` and `flags` are databus's own.
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
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.formats.literals import base_type, spaced
from databus.formats.row_runs import MessageFacts, by_table, flag_member, runs
from databus.rows.image_form import FORM_KEY
from databus.rows.json_images import named, shown
from databus.rows.json_pieces import Piece, Values, join
from databus.rows.json_text import json_literals, quoted
from databus.rows.keys import key_literals, with_exceptions

_TYPES = {Op.CREATE: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE", Op.READ: "INSERT"}
_SHARED = ["op", "database", "table", "ts_ms"]

_JDBC = {
    "bit": -7, "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 7, "double": 8,
    "decimal": 3, "year": 12, "date": 91, "time": 92, "datetime": 93, "timestamp": 93, "char": 1, "varchar": 12,
    "tinytext": 2005, "text": 2005, "mediumtext": 2005, "longtext": 2005, "enum": 4, "set": -7, "json": 12,
    "binary": 2004, "varbinary": 2004, "tinyblob": 2004, "blob": 2004, "mediumblob": 2004, "longblob": 2004,
    "geometry": 2004, "boolean": 16,
}  # fmt: skip
"""Base type → java.sql.Types, as Canal gives it."""
_OTHER = 12
_UNQUOTED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
"""Arrow types whose JSON literals are no texts."""


@dataclass(frozen=True)
class CanalValues:
    """Form of values in Canal's JSON: all of them texts, bytes as ISO 8859-1."""

    changed_only: ClassVar[bool] = True

    def literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return a column's values as JSON texts."""
        schema, array = batch.schema.columns[column], batch.images.column(column)
        exceptions = {row: shown(value) for row, value in batch.exceptions.get(column, {}).items()}
        if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
            texts = pa.array([None if v is None else v.decode("latin-1") for v in array.to_pylist()], pa.string())
            return with_exceptions(quoted(texts), exceptions)
        literals = json_literals(array, schema)
        if any(of(array.type) for of in _UNQUOTED):
            literals = quoted(literals)
        if pa.types.is_floating(array.type):
            literals = named(literals, array)
        return spaced(with_exceptions(literals, exceptions), array.type)

    def key_literals(self, batch: TableBatch, column: int) -> pa.StringArray:
        """Return those of a key column, as in the canonical key: Canal has none of its own."""
        return key_literals(batch, column)

    def flags(self, batch: TableBatch) -> Mapping[int, Mapping[int, str]]:  # noqa: ARG002 - the protocol's signature
        """Return nothing: no value is lost."""
        return {}


@dataclass(frozen=True)
class CanalJson:
    """Format of Canal's flat JSON.

    Attributes:
        values: form of the values.
        tables: schema_id → text of `pkNames`, `sqlType` and `mysqlType`; filled by `of_tables`.
    """

    values: CanalValues = field(default_factory=CanalValues)
    tables: Mapping[int, bytes] = field(default_factory=dict)

    def of_tables(self, tables: Sequence[TableSchema], facts: MessageFacts) -> CanalJson:  # noqa: ARG002
        """Return the format with the columns of a plan's tables."""
        return replace(self, tables={table.schema_id: _columns(table) for table in tables})

    def values_of(self, rows: pa.RecordBatch, facts: MessageFacts) -> pa.BinaryArray:
        """Return the messages."""
        first, of_row = runs(rows)
        shared = rows.select(_SHARED).take(first)
        kinds = pa.array([_TYPES[Op(op)] for op in shared["op"].to_pylist()], pa.string())
        head: list[Piece] = [
            f'{{"id":{facts.batch},"database":'.encode(),
            Values(quoted(shared["database"])),
            b',"table":',
            Values(quoted(shared["table"])),
            b',"isDdl":false,"type":',
            Values(quoted(kinds)),
            b',"es":',
            Values(pa.array(np.asarray(shared["ts_ms"].cast(pa.int64()).fill_null(0))).cast(pa.string())),
            f',"ts":{facts.clock_ms},"sql":"",'.encode(),
        ]
        empty = pa.scalar(b"", pa.binary())
        changed = pc.and_(
            pc.equal(rows["op"], Op.UPDATE.value), pc.not_equal(rows["before"], pa.scalar(b"{}", pa.binary()))
        )
        old = pc.binary_join_element_wise(
            pa.scalar(b"[", pa.binary()), rows["before"], pa.scalar(b"]", pa.binary()), empty
        )
        pieces: list[Piece] = [
            Values(join(head, shared.num_rows), of_row),
            by_table(rows, self.tables, {}),
            b',"data":[',
            Values(pc.coalesce(rows["after"], rows["before"])),
            b'],"old":',
            Values(pc.if_else(pc.fill_null(changed, False), old, pa.scalar(None, pa.binary()))),
            b',"eventId":',
            Values(quoted(rows["event_id"])),
            *flag_member(rows["flags"], "flags"),
            b"}",
        ]
        return join(pieces, rows.num_rows)

    def keys_of(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the canonical keys."""
        return rows[FORM_KEY]


def _columns(table: TableSchema) -> bytes:
    members = {
        "pkNames": list(table.primary_key) or None,
        "sqlType": {column.name: _jdbc(column) for column in table.columns},
        "mysqlType": {column.name: column.type for column in table.columns},
    }
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))[1:-1].encode()


def _jdbc(column: ColumnSchema) -> int:
    return _JDBC.get(base_type(column), _OTHER)
