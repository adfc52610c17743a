"""Protobuf schemas of a table's records: Key, and Envelope with its messages, named as Debezium's converter does."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.avro.types import FLAGS, avro_namespace
from databus.rows.protobuf.types import FLAGS_NUMBER, ProtobufField, protobuf_fields
from databus.rows.wire.shapes import TableShape, Wanted, key_columns, written_columns

BEFORE, AFTER, SOURCE, OP, TS_MS, TRANSACTION = range(1, 7)
"""Numbers of the envelope's fields."""

SOURCE_FIELDS: Mapping[str, tuple[str, int]] = {
    name: (kind, number)
    for number, (name, kind) in enumerate(
        {
            "version": "optional string",
            "connector": "optional string",
            "name": "optional string",
            "ts_ms": "optional int64",
            "snapshot": "optional string",
            "db": "optional string",
            "sequence": "optional string",
            "table": "optional string",
            "server_id": "optional int64",
            "gtid": "optional string",
            "file": "optional string",
            "pos": "optional int64",
            "row": "optional int32",
            "thread": "optional int64",
            "query": "optional string",
            "event_id": "optional string",
            "flags": "repeated string",
        }.items(),
        1,
    )
}
"""Name → type and number of the fields of `source`, in the order in which they are written."""


@dataclass(frozen=True)
class FormerField:
    """Field of a message as the subject's newest schema has it.

    Attributes:
        number: its number.
        type: its scalar type.
        column: name in ProtoJSON, that of its column.
    """

    number: int
    type: str
    column: str


def key_schema(
    topic: str, fields: Sequence[tuple[int, ProtobufField]], former: Mapping[str, FormerField] | None = None
) -> str:
    """Return the schema of a topic's keys, the message `Key`.

    Args:
        topic: its name.
        fields: (number, field) of the primary key's columns.
        former: fields of the subject's newest schema, see `value_schema`.
    """
    return _file(topic, _message("Key", _columns(fields, former or {})))


def value_schema(
    topic: str, fields: Sequence[tuple[int, ProtobufField]], former: Mapping[str, FormerField] | None = None
) -> str:
    """Return the schema of a topic's values, the message `Envelope`.

    Args:
        topic: its name.
        fields: (number, field) of the columns.
        former: name → field of the subject's newest schema. What is no column any more stays, as deprecated: its number
            and its name are never those of another column, and a table that is read at an older place of the log finds
            the numbers that it had.
    """
    flags = (FLAGS_NUMBER, f'map<string, string> {FLAGS} = {FLAGS_NUMBER} [json_name = "{FLAGS}"];')
    source = [f"{kind} {name} = {number}{_options(name, name)};" for name, (kind, number) in SOURCE_FIELDS.items()]
    body = [
        f"Value before = {BEFORE};",
        f"Value after = {AFTER};",
        f"Source source = {SOURCE};",
        f"optional string op = {OP};",
        f"optional int64 ts_ms = {TS_MS}{_options('ts_ms', 'ts_ms')};",
        f"block transaction = {TRANSACTION};",
        *_message("Value", [*_columns(fields, former or {}), flags[1]]),
        *_message("Source", source),
        *_message(
            "block",
            ["optional string id = 1;", f"optional int64 total_order = 2{_options('total_order', 'total_order')};"],
        ),
    ]
    return _file(topic, _message("Envelope", body))


def shape_of(table: TableSchema, written: Sequence[ColumnSchema], places: Sequence[int]) -> TableShape[ProtobufField]:
    """Return the shape of a table's records.

    Args:
        table: the table at the source, with its primary key.
        written: columns of its images, in their order.
        places: number of each at the source.

    Raises:
        SinkSettingError: names that Protobuf does not tell apart.
    """
    fields = protobuf_fields(table.full_name, written)
    key = protobuf_fields(table.full_name, key_columns(table), key=True)
    return TableShape(tuple(zip(places, fields, strict=True)), key, fingerprint(fields, key))


@functools.lru_cache(maxsize=1000)
def shape_in(table: TableSchema, wanted: Wanted, stored: TableSchema | None = None) -> TableShape[ProtobufField]:
    """Return the shape of a table's records.

    Args:
        table: the table as its images are.
        wanted: (name at the source, name in the image) of its columns; None for all of them.
        stored: the table at the source, whose keys the records have; None where it is the same.
    """
    return shape_of(stored or table, *written_columns(table, wanted))


def fingerprint(*fields: Sequence[ProtobufField]) -> str:
    """Return 16 hex digits that change with any name or type of the fields, and with the envelope around them."""
    named = [[(field.name, field.type) for field in each] for each in fields]
    text = json.dumps([named, value_schema("", ())], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _columns(fields: Sequence[tuple[int, ProtobufField]], former: Mapping[str, FormerField]) -> list[str]:
    lines = {number: _field(field.type, field.name, number, field.column) for number, field in fields}
    mine = {field.name for _, field in fields}
    lines |= {
        each.number: _field(each.type, name, each.number, each.column, "deprecated = true")
        for name, each in former.items()
        if name not in mine
    }
    return [lines[number] for number in sorted(lines)]


def _field(kind: str, name: str, number: int, column: str, *options: str) -> str:
    return f"optional {kind} {name} = {number}{_options(name, column, *options)};"


def _options(name: str, column: str, *options: str) -> str:
    """Return a field's options: in ProtoJSON it is called as its column is, not in camel case."""
    told = [f"json_name = {json.dumps(column, ensure_ascii=False)}"] if camel_case(name) != column else []
    told += options
    return f" [{', '.join(told)}]" if told else ""


def camel_case(name: str) -> str:
    """Return the name in ProtoJSON that protoc gives a field; no two fields of a message may have one, used or not."""
    first, *more = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in more)


def _message(name: str, body: Sequence[str]) -> list[str]:
    return [f"message {name} {{", *(f"  {line}" for line in body), "}"]


def _file(topic: str, lines: Sequence[str]) -> str:
    return "\n".join(['syntax = "proto3";', f"package {avro_namespace(topic)};", "", *lines, ""])
