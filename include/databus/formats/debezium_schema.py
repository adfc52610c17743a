"""Schemas of Kafka Connect that Debezium's MySQL connector sends with its messages, as its JsonConverter writes them.

Names and versions are those of Debezium 3.5. What the log does not say is left out: defaults of columns, and the
members of an ENUM or SET.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.formats.debezium_values import DebeziumValues
from databus.formats.literals import base_type, bit_length
from databus.rows.temporal import fraction_digits

Field = dict[str, Any]

_PLAIN = {
    "tinyint": "int16",
    "smallint": "int16",
    "mediumint": "int32",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
}
_UNSIGNED = {"smallint": "int32", "int": "int64"}
_LOGICAL = {
    "year": ("int32", "io.debezium.time.Year"),
    "date": ("int32", "io.debezium.time.Date"),
    "timestamp": ("string", "io.debezium.time.ZonedTimestamp"),
    "time": ("int64", "io.debezium.time.MicroTime"),
    "enum": ("string", "io.debezium.data.Enum"),
    "set": ("string", "io.debezium.data.EnumSet"),
    "json": ("string", "io.debezium.data.Json"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_SNAPSHOT = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_.]")


def field_of(column: ColumnSchema, values: DebeziumValues, *, optional: bool) -> Field:
    """Return the schema of a column's values."""
    base, kind = base_type(column), column.type
    of: Field
    if base in _PLAIN:
        of = {"type": _UNSIGNED.get(base, _PLAIN[base]) if kind.endswith("unsigned") else _PLAIN[base]}
        if kind == "bigint unsigned" and values.bigint_unsigned == "precise":
            of = _decimal(0, None)
    elif found := _DECIMAL.match(kind):
        precise = values.decimal == "precise"
        of = _decimal(int(found[2]), int(found[1])) if precise else {"type": values.decimal}
    elif base in _LOGICAL:
        of = _named(*_LOGICAL[base])
    elif base == "datetime":
        of = _named("int64", f"io.debezium.time.{'Timestamp' if fraction_digits(column) <= 3 else 'MicroTimestamp'}")
    elif base == "bit":
        of = _bit(bit_length(column))
    elif base == "geometry":
        of = _geometry()
    elif column.spark_type == "binary":
        of = {"type": "bytes" if values.binary == "bytes" else "string"}
    else:
        of = {"type": "string"}
    fields = {"fields": of.pop("fields")} if "fields" in of else {}
    return {"type": of.pop("type"), **fields, "optional": optional, **of}


def key_schema(table: TableSchema, prefix: str, values: DebeziumValues) -> Field:
    """Return the schema of a table's keys.

    Args:
        table: the table, with a primary key.
        prefix: `topic.prefix`.
        values: form of the values.
    """
    columns = {column.name: column for column in table.columns}
    keys = [
        {**field_of(columns[name], values, optional=False), "field": name}
        for name in table.primary_key
        if name in columns
    ]
    return {"type": "struct", "fields": keys, "optional": False, "name": f"{_name_of(table, prefix)}.Key"}


def envelope_schema(table: TableSchema, prefix: str, values: DebeziumValues, connector: str) -> Field:
    """Return the schema of a table's values; `event_id` and `flags` of the source are databus's own.

    Args:
        table: the table as its images are written.
        prefix: `topic.prefix`.
        values: form of the values.
        connector: "mariadb", or another, which is shown as "mysql".
    """
    name = _name_of(table, prefix)
    columns = [
        {**field_of(c, values, optional=c.nullable and c.name not in table.primary_key), "field": c.name}
        for c in table.columns
    ]
    row = {"type": "struct", "fields": columns, "optional": True, "name": f"{name}.Value"}
    block = {
        "type": "struct",
        "fields": [_one("string", "id"), _one("int64", "total_order"), _one("int64", "data_collection_order")],
        "optional": True,
        "name": "event.block",
        "version": 1,
        "field": "transaction",
    }
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {**_source(connector), "field": "source"},
        block,
        _one("string", "op"),
        *(_one("int64", stamp, optional=True) for stamp in ("ts_ms", "ts_us", "ts_ns")),
    ]
    return {"type": "struct", "fields": fields, "optional": False, "name": f"{name}.Envelope", "version": 2}


def text_of(schema: Field) -> bytes:
    """Return a schema as JSON without blanks."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()


def _source(connector: str) -> Field:
    snapshot = {
        **_named("string", "io.debezium.data.Enum"),
        "parameters": {"allowed": _SNAPSHOT},
        "default": "false",
    }
    snapshot = {"type": snapshot.pop("type"), "optional": True, **snapshot, "field": "snapshot"}
    flags = {"type": "array", "items": {"type": "string", "optional": False}, "optional": True, "field": "flags"}
    fields: Iterable[Field] = (
        *(_one("string", name) for name in ("version", "connector", "name")),
        _one("int64", "ts_ms"),
        snapshot,
        _one("string", "db"),
        _one("string", "sequence", optional=True),
        *(_one("int64", name, optional=True) for name in ("ts_us", "ts_ns")),
        _one("string", "table", optional=True),
        _one("int64", "server_id"),
        _one("string", "gtid", optional=True),
        _one("string", "file"),
        _one("int64", "pos"),
        _one("int32", "row"),
        _one("int64", "thread", optional=True),
        _one("string", "query", optional=True),
        _one("string", "event_id", optional=True),
        flags,
    )
    name = f"io.debezium.connector.{'mariadb' if connector == 'mariadb' else 'mysql'}.Source"
    return {"type": "struct", "fields": list(fields), "optional": False, "name": name, "version": 1}


def _one(kind: str, field: str, *, optional: bool = False) -> Field:
    return {"type": kind, "optional": optional, "field": field}


def _named(kind: str, name: str) -> Field:
    return {"type": kind, "name": name, "version": 1}


def _decimal(scale: int, precision: int | None) -> Field:
    more = {} if precision is None else {"connect.decimal.precision": str(precision)}
    name = "org.apache.kafka.connect.data.Decimal"
    return {"type": "bytes", "name": name, "version": 1, "parameters": {"scale": str(scale), **more}}


def _bit(length: int) -> Field:
    if length == 1:
        return {"type": "boolean"}
    return {**_named("bytes", "io.debezium.data.Bits"), "parameters": {"length": str(length)}}


def _geometry() -> Field:
    fields = [_one("bytes", "wkb"), _one("int32", "srid", optional=True)]
    name = "io.debezium.data.geometry.Geometry"
    return {"type": "struct", "fields": fields, "name": name, "version": 1, "doc": "Geometry"}


def _name_of(table: TableSchema, prefix: str) -> str:
    """Return the namespace of a table's schemas, with what Avro does not allow replaced as Debezium replaces it."""
    return _NOT_NAME.sub("_", f"{prefix}.{table.database}.{table.table}")
