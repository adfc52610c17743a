"""Debezium's change events as JSON: envelope and key, alone or with Kafka Connect's schemas around them.

The shape is that of Debezium's MySQL connector 3.5 behind Kafka Connect's JsonConverter (documentation, "Data change
events"), with `source.event_id`, and `source.flags` of a row that has flags, added at the end of `source`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import Op
from databus.core.tables.schemas import TableSchema
from databus.formats.debezium_schema import envelope_schema, key_schema, text_of
from databus.formats.debezium_values import DebeziumValues
from databus.formats.row_runs import Index, MessageFacts, by_table, flag_member, place_members, runs, transaction_member
from databus.rows.image_form import FORM_KEY
from databus.rows.json_pieces import Piece, Values, join
from databus.rows.json_text import quoted

_SHARED = ["op", "database", "table", "log", "place", "transaction", "ts_ms", "server_id"]


@dataclass(frozen=True)
class DebeziumJson:
    """Format of Debezium's JSON.

    Attributes:
        values: form of the values.
        schemas: whether schemas are sent around keys and values (`schemas.enable`).
        prefix: `topic.prefix`; "" for the flow's name.
        value_schemas: schema_id → schema of the values, JSON; filled by `of_tables`.
        key_schemas: schema_id → schema of the keys.
        by_name: database and table → schema of the values, for statements.
    """

    values: DebeziumValues = field(default_factory=DebeziumValues)
    schemas: bool = False
    prefix: str = ""
    value_schemas: Mapping[int, bytes] = field(default_factory=dict)
    key_schemas: Mapping[int, bytes] = field(default_factory=dict)
    by_name: Mapping[tuple[str, str], bytes] = field(default_factory=dict)

    def of_tables(self, tables: Sequence[TableSchema], facts: MessageFacts) -> DebeziumJson:
        """Return the format with the schemas of a plan's tables."""
        prefix = self.prefix or facts.name
        if not self.schemas:
            return replace(self, prefix=prefix)
        values = {t.schema_id: text_of(envelope_schema(t, prefix, self.values, facts.connector)) for t in tables}
        keys = {t.schema_id: text_of(key_schema(t, prefix, self.values)) for t in tables if t.primary_key}
        by_name = {(t.database, t.table): values[t.schema_id] for t in tables}
        return replace(self, prefix=prefix, value_schemas=values, key_schemas=keys, by_name=by_name)

    def values_of(self, rows: pa.RecordBatch, facts: MessageFacts) -> pa.BinaryArray:
        """Return the envelopes."""
        first, of_row = runs(rows)
        shared = rows.select(_SHARED).take(first)
        query = b"null" if rows["statement"].null_count == rows.num_rows else Values(quoted(rows["statement"]))
        pieces: list[Piece] = [
            *self._opened(rows, self.value_schemas, self.by_name, facts.connector),
            b'{"before":',
            Values(rows["before"]),
            b',"after":',
            Values(rows["after"]),
            *_source(shared, of_row, replace(facts, name=self.prefix or facts.name)),
            Values(rows["ordinal"].cast(pa.string())),
            b',"thread":null,"query":',
            query,
            b',"event_id":',
            Values(quoted(rows["event_id"])),
            *flag_member(rows["flags"], "flags"),
            b'},"transaction":',
            transaction_member(rows),
            b',"op":',
            Values(quoted(shared["op"]), of_row),
            f',"ts_ms":{facts.clock_ms},"ts_us":{facts.clock_ms * 1000},"ts_ns":{facts.clock_ms * 1_000_000}'.encode(),
            b"}}" if self.schemas else b"}",
        ]
        return join(pieces, rows.num_rows)

    def keys_of(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the keys."""
        keys = rows[FORM_KEY]
        if not self.schemas or keys.null_count == len(keys):
            return keys
        joined = join([*self._opened(rows, self.key_schemas, {}, ""), Values(keys), b"}"], rows.num_rows)
        return pc.if_else(pc.is_valid(keys), joined, pa.scalar(None, joined.type))

    def _opened(
        self, rows: pa.RecordBatch, texts: Mapping[int, bytes], named: Mapping[tuple[str, str], bytes], connector: str
    ) -> list[Piece]:
        if not self.schemas:
            return []
        of_statements = {table: self._without_columns(table, connector) for table in _statements(rows) - named.keys()}
        return [b'{"schema":', by_table(rows, texts, {**of_statements, **named}), b',"payload":']

    def _without_columns(self, table: tuple[str, str], connector: str) -> bytes:
        """Return the schema of the values of a table whose columns the batch does not tell, by its names."""
        return text_of(envelope_schema(TableSchema(-1, *table, ()), self.prefix, self.values, connector))


def _statements(rows: pa.RecordBatch) -> set[tuple[str, str]]:
    """Return database and table of the rows that are statements."""
    found = rows.filter(pc.less(rows["schema_id"], 0))
    return set(zip(found["database"].to_pylist(), found["table"].to_pylist(), strict=True))


def _source(shared: pa.RecordBatch, of_row: Index, facts: MessageFacts) -> list[Piece]:
    """Return `source` up to the value of `row`."""
    head = {"version": facts.version, "connector": facts.connector, "name": facts.name}
    ts_ms = np.asarray(shared["ts_ms"].cast(pa.int64()).fill_null(0))
    snapshot = pc.equal(shared["op"], Op.READ.value)
    pieces: list[Piece] = [
        b',"source":{',
        json.dumps(head, ensure_ascii=False, separators=(",", ":"))[1:-1].encode(),
        b',"ts_ms":',
        Values(pa.array(ts_ms).cast(pa.string())),
        b',"snapshot":',
        Values(pc.if_else(snapshot, '"true"', '"false"')),
        b',"db":',
        Values(quoted(shared["database"])),
        b',"sequence":null,"ts_us":',
        Values(pa.array(ts_ms * 1000).cast(pa.string())),
        b',"ts_ns":',
        Values(pa.array(ts_ms * 1_000_000).cast(pa.string())),
        *place_members(shared),
    ]
    return [Values(join(pieces, shared.num_rows), of_row)]
