"""JSON Schemas of a table's records, as Kafka Connect's converter for JSON Schema writes them, with Debezium's names.

Titles, `connect.type`, `connect.index` and `connect.parameters` are those of Confluent's `JsonSchemaConverter`; a
DECIMAL is a number with the title of Connect's Decimal.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.wire.shapes import TableShape, Wanted, key_columns, written_columns

Schema = dict[str, Any]

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_PLAIN: Mapping[str, tuple[str, str]] = {
    "tinyint": ("integer", "int8"),
    "smallint": ("integer", "int16"),
    "int": ("integer", "int32"),
    "bigint": ("integer", "int64"),
    "float": ("number", "float32"),
    "double": ("number", "float64"),
    "boolean": ("boolean", ""),
    "binary": ("string", "bytes"),
}
_TEXT: Schema = {"type": "string"}
_LONG: Schema = {"type": "integer", "connect.type": "int64"}
_INT: Schema = {"type": "integer", "connect.type": "int32"}


def column_schema(column: ColumnSchema) -> Schema:
    """Return the schema of a column's values; text unless they are numbers, booleans or bytes (base64)."""
    if found := _DECIMAL.fullmatch(column.spark_type):
        return {
            "type": "number",
            "title": "org.apache.kafka.connect.data.Decimal",
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": {"scale": found[2], "connect.decimal.precision": found[1]},
        }
    kind, connect = _PLAIN.get(column.spark_type, ("string", ""))
    return {"type": kind, **({"connect.type": connect} if connect else {})}


def is_text(column: ColumnSchema) -> bool:
    """Return whether a column's values are texts in JSON, so that any text may stand for one."""
    return bool(column_schema(column)["type"] == "string")


def key_schema(topic: str, columns: Sequence[ColumnSchema], former: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of a topic's keys, `TOPIC.Key`; no column is null.

    Args:
        topic: its name.
        columns: those of the primary key.
        former: properties of the subject's newest schema, see `value_schema`.
    """
    described = {column.name: column_schema(column) for column in columns}
    return {"$schema": DRAFT_7, **_object(f"{topic}.Key", _with_former(described, former or {}))}


def value_schema(
    topic: str, columns: Sequence[ColumnSchema], connector: str, former: Mapping[str, Schema] | None = None
) -> Schema:
    """Return the schema of a topic's values, `TOPIC.Envelope`.

    Every column may be null and may be absent. Objects have no other members than these: a member that comes is then
    compatible with readers of the schema before (`BACKWARD`).

    Args:
        topic: its name.
        columns: those of the row images.
        connector: `source.connector`.
        former: column → schema of the row images in the subject's newest schema. What is no column any more stays: a
            schema without it would not describe the records that have it.
    """
    described = {column.name: _optional(column_schema(column)) for column in columns}
    image = _object(f"{topic}.Value", _with_former(described, former or {}))
    members = {
        "before": _optional(image),
        "after": _optional(image),
        "source": _source(connector),
        "op": _TEXT,
        "ts_ms": _optional(_LONG),
        "transaction": _optional(_object("event.block", {"id": _TEXT, "total_order": _LONG})),
    }
    return {"$schema": DRAFT_7, **_object(f"{topic}.Envelope", members)}


def columns_in(schema: Any) -> Mapping[str, Schema]:
    """Return column → schema of the row images in a schema of values, or of keys; nothing of another schema."""
    try:
        members = schema["properties"]
        image = members["after"]["oneOf"][1] if str(schema["title"]).endswith(".Envelope") else schema
        return {str(name): _unplaced(found) for name, found in image["properties"].items()}
    except (KeyError, IndexError, TypeError, AttributeError):
        return {}


def shape_of(table: TableSchema, written: Sequence[ColumnSchema], places: Sequence[int]) -> TableShape[ColumnSchema]:
    """Return the shape of a table's records.

    Args:
        table: the table at the source, with its primary key.
        written: columns of its images, in their order.
        places: number of each at the source.
    """
    key = key_columns(table)
    return TableShape(tuple(zip(places, written, strict=True)), key, fingerprint(written, key))


@functools.lru_cache(maxsize=1000)
def shape_in(table: TableSchema, wanted: Wanted, stored: TableSchema | None = None) -> TableShape[ColumnSchema]:
    """Return the shape of a table's records.

    Args:
        table: the table as its images are.
        wanted: (name at the source, name in the image) of its columns; None for all of them.
        stored: the table at the source, whose keys the records have; None where it is the same.
    """
    return shape_of(stored or table, *written_columns(table, wanted))


def fingerprint(columns: Sequence[ColumnSchema], key: Sequence[ColumnSchema]) -> str:
    """Return 16 hex digits that change with any name or type of the columns, and with the envelope around them."""
    text = json.dumps([value_schema("", columns, ""), key_schema("", key)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_former(columns: Mapping[str, Schema], former: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return former columns in their order, described as now where they are there, then those that are new."""
    return {**{name: columns.get(name, found) for name, found in former.items()}, **columns}


def _source(connector: str) -> Schema:
    members = {
        "version": _TEXT,
        "connector": _TEXT,
        "name": _TEXT,
        "ts_ms": _optional(_LONG),
        "snapshot": _optional(_TEXT),
        "db": _TEXT,
        "table": _optional(_TEXT),
        "server_id": _optional(_LONG),
        "gtid": _optional(_TEXT),
        "file": _TEXT,
        "pos": _LONG,
        "row": _INT,
        "query": _optional(_TEXT),
        "event_id": _optional(_TEXT),
        "flags": {"type": "array", "items": _TEXT},
    }
    space = f"io.debezium.connector.{connector}" if connector in ("mysql", "mariadb") else f"databus.{connector}"
    return _object(f"{space}.Source", members)


def _object(title: str, members: Mapping[str, Schema]) -> Schema:
    properties = {name: {**found, "connect.index": place} for place, (name, found) in enumerate(members.items())}
    return {"type": "object", "title": title, "properties": properties, "additionalProperties": False}


def _optional(schema: Schema) -> Schema:
    return {"oneOf": [{"type": "null"}, schema]}


def _unplaced(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "connect.index"}
