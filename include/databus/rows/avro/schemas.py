"""Avro schemas of a table's records: Key, Value, and Envelope around two values, named as Debezium's converter does."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.avro.types import FLAGS, AvroField, avro_fields, avro_namespace
from databus.rows.wire.shapes import TableShape, Wanted, key_columns, written_columns

_DEBEZIUM_SOURCES = ("mysql", "mariadb")
"""Connectors whose `Source` record has the name of Debezium's, of which it has all fields."""


def key_schema(topic: str, fields: Sequence[AvroField]) -> dict[str, Any]:
    """Return the schema of a topic's keys, `TOPIC.Key`; no field is null."""
    return _record(topic, "Key", [_field(field, field.type) for field in fields])


def value_schema(topic: str, fields: Sequence[AvroField]) -> dict[str, Any]:
    """Return the schema of a row image, `TOPIC.Value`.

    Every column may be null, whatever the table says: an image may lack it, and a column that comes or goes is then a
    compatible change in both directions.
    """
    columns = [{**_field(field, ["null", field.type]), "default": None} for field in fields]
    flags = {"name": FLAGS, "type": ["null", {"type": "map", "values": "string"}], "default": None}
    return _record(topic, "Value", [*columns, flags])


def envelope_schema(topic: str, fields: Sequence[AvroField], connector: str) -> dict[str, Any]:
    """Return the schema of a topic's values, `TOPIC.Envelope`.

    Args:
        topic: its name.
        fields: those of the row images.
        connector: `source.connector`.
    """
    value = value_schema(topic, fields)
    return _record(
        topic,
        "Envelope",
        [
            _optional("before", value),
            _optional("after", f"{value['namespace']}.Value"),
            {"name": "source", "type": _source(connector)},
            {"name": "op", "type": "string"},
            _optional("ts_ms", "long"),
            _optional("transaction", _block()),
        ],
    )


def text_of(schema: Mapping[str, Any]) -> str:
    """Return a schema as one JSON text, always the same."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def shape_of(table: TableSchema, written: Sequence[ColumnSchema], places: Sequence[int]) -> TableShape[AvroField]:
    """Return the shape of a table's records.

    Args:
        table: the table at the source, with its primary key.
        written: columns of its images, in their order.
        places: number of each at the source.

    Raises:
        SinkSettingError: names that Avro does not tell apart.
    """
    fields = avro_fields(table.full_name, written)
    key = avro_fields(table.full_name, key_columns(table), key=True)
    return TableShape(tuple(zip(places, fields, strict=True)), key, fingerprint(fields, key))


@functools.lru_cache(maxsize=1000)
def shape_in(table: TableSchema, wanted: Wanted, stored: TableSchema | None = None) -> TableShape[AvroField]:
    """Return the shape of a table's records.

    Args:
        table: the table as its images are.
        wanted: (name at the source, name in the image) of its columns; None for all of them.
        stored: the table at the source, whose keys the records have; None where it is the same.
    """
    return shape_of(stored or table, *written_columns(table, wanted))


def fingerprint(*fields: Sequence[AvroField]) -> str:
    """Return 16 hex digits that change with any name or type of the fields, and with the envelope around them."""
    named = [[(field.name, field.type) for field in each] for each in fields]
    text = json.dumps([named, envelope_schema("", (), "")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _source(connector: str) -> dict[str, Any]:
    space = f"io.debezium.connector.{connector}" if connector in _DEBEZIUM_SOURCES else f"databus.{connector}"
    fields = [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": ["string", "null"], "default": "false"},
        {"name": "db", "type": "string"},
        _optional("sequence", "string"),
        _optional("table", "string"),
        {"name": "server_id", "type": "long"},
        _optional("gtid", "string"),
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
        _optional("thread", "long"),
        _optional("query", "string"),
        _optional("event_id", "string"),
        _optional("flags", {"type": "array", "items": "string"}),
    ]
    return {
        "type": "record",
        "name": "Source",
        "namespace": space,
        "fields": fields,
        "connect.name": f"{space}.Source",
    }


def _block() -> dict[str, Any]:
    fields = [{"name": "id", "type": "string"}, {"name": "total_order", "type": "long"}]
    return {"type": "record", "name": "block", "namespace": "event", "fields": fields, "connect.name": "event.block"}


def _record(topic: str, name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    space = avro_namespace(topic)
    return {"type": "record", "name": name, "namespace": space, "fields": fields, "connect.name": f"{space}.{name}"}


def _field(field: AvroField, kind: Any) -> dict[str, Any]:
    """Return a field; what the column is called where Avro does not allow that stands in `doc`."""
    renamed = {"doc": field.column} if field.column != field.name else {}
    return {"name": field.name, "type": kind, **renamed}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}
