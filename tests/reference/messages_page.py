"""Page of messages: fields beside Debezium's, each type's JSON, and examples that the sinks' own encoders make."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.option_texts import described
from databus.core.tables.schemas import TableSchema
from databus.kafka.selection import HEARTBEATS
from databus.rows import flags
from databus.rows.avro.types import avro_type
from databus.rows.json_schema.schemas import column_schema
from databus.rows.json_schema.schemas import value_schema as json_value
from databus.rows.protobuf.schemas import value_schema as protobuf_value
from databus.rows.protobuf.types import protobuf_fields
from databus.sinks.envelope import schema
from databus.sinks.kafka.markers import MARKER_TOPIC, Marker
from tests.reference.made_messages import Message, as_json, boundaries, decoded, images, messages
from tests.reference.markdown import plain
from tests.reference.message_types import CHANGES, INVALID, MYSQL
from tests.unit.formats.debezium_differences import KNOWN, OF_SOURCE

TEMPLATE = Path(__file__).with_name("messages.md")
"""Prose of the page, with holes `{{name}}`."""

_REASONS = " The reasons: [flags](#flags)."


def text() -> str:
    holes = {
        "fields": _fields(),
        "examples": _examples(),
        "row_fields": _row_fields(),
        "row_example": ["```", messages("orders", envelope="row")[1].shown(), "```"],
        "types": _types(),
        "debezium_row": ["```", messages("orders", types="debezium")[1].shown(), "```"],
        "debezium_types": _debezium_types(),
        "debezium_flagged": ["```", messages("odd", types="debezium")[0].shown(), "```"],
        "debezium_key": ["```", messages("odd", types="debezium", schemas=True)[0].key or "", "```"],
        "debezium_differences": [f"* {text}" for text in (OF_SOURCE, *(known.what for known in KNOWN))],
        "maxwell_row": ["```", messages("orders", envelope="maxwell")[1].shown(), "```"],
        "canal_row": ["```", messages("orders", envelope="canal")[1].shown(), "```"],
        "cloud_event": ["```", messages("orders", cloudevents=True, envelope="row")[0].shown(), "```"],
        "transaction_messages": ["```", "\n\n".join(m.shown() for m in boundaries("orders")), "```"],
        "flags": _flags(),
        "flagged": _flagged(),
        "registered_types": _registered_types(),
        "protobuf_schema": ["```protobuf", *_protobuf_schema(), "```"],
        "json_schema_image": ["```json", _json_schema_image(), "```"],
        "heartbeats": [HEARTBEATS],
        "marker_topic": [MARKER_TOPIC],
        "marker": _marker(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: "\n".join(holes[found[1]]), TEMPLATE.read_text())


@cache
def debezium() -> dict[str, str]:
    return tomllib.loads(Path(__file__).with_name("debezium_fields.toml").read_text())


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and JSON Schema of each field of the envelope."""

    def below(part: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, inner in part.get("properties", {}).items():
            yield f"{path}{name}", inner
            yield from below(inner, f"{path}{name}.")

    yield from below(schema("debezium"), "")


def _fields() -> Iterator[str]:
    for path, inner in fields():
        other = debezium()[path]
        kinds = inner.get("type", "text" if "enum" in inner else "object or null")
        kind = " or ".join([kinds] if isinstance(kinds, str) else kinds).replace("string", "text")
        beside = f" *Debezium*: {other}." if other else ""
        meaning = inner.get("description", "").rstrip(".")
        reasons = _REASONS if path == "source.flags" else ""
        yield f"* **`{path}`** ({kind}){f': {plain(meaning)}' if meaning else ''}.{reasons}{beside}"


def _row_fields() -> Iterator[str]:
    for name, inner in schema("row")["properties"].items():
        meaning = inner.get("description", "")
        told = {"__op": "c, u, d or r.", "__deleted": "true for a delete.", "__event_id": "As in the header."}
        yield f"* **`{name}`**: {plain(meaning or told[name])}{_REASONS if name == '__flags' else ''}"


def _examples() -> Iterator[str]:
    of = messages("orders")
    read = messages("orders", snapshot=True)
    titles = iter(CHANGES)
    by_statement = {next(titles): of[:1]}
    rest = of[1:]
    for statement in CHANGES[1:]:
        taken = 3 if "SET id" in statement else 2 if statement.startswith("DELETE") else 1
        by_statement[statement], rest = rest[:taken], rest[taken:]
    assert not rest, f"{len(rest)} messages are of no statement"
    for statement, found in by_statement.items():
        if not statement.startswith("CREATE"):
            yield _example(f"`{statement}`", found)
    yield _example("A snapshot reads the row that was inserted", read[:1])


def _example(title: str, found: list[Message]) -> str:
    return f"**{title}**\n\n```\n" + "\n\n".join(message.shown() for message in found) + "\n```\n"


def _types() -> Iterator[str]:
    (image,) = images("every_type")
    for number, form in enumerate(MYSQL):
        yield f"* **{form.ddl}**: `{as_json(image[f'c{number}'])}`. *Debezium*: {form.debezium}."


def _debezium_types() -> Iterator[str]:
    (image,) = images("every_type", types="debezium")
    for number, form in enumerate(MYSQL):
        yield f"* **{form.ddl}**: `{as_json(image[f'c{number}'])}`"


def _table(name: str) -> TableSchema:
    return next(item.schema for item, _ in decoded() if isinstance(item, TableBatch) and item.schema.table == name)


def _registered_types() -> Iterator[str]:
    yield "| column | `avro` | `json_schema` | `protobuf` |"
    yield "|---|---|---|---|"
    columns = {column.name: column for column in _table("every_type").columns}
    for number, form in enumerate(MYSQL):
        column = columns[f"c{number}"]
        avro, told = avro_type(column), column_schema(column)
        logical = avro if isinstance(avro, str) else f"bytes, decimal({avro['precision']},{avro['scale']})"
        connect = f", `{told['connect.type']}`" if "connect.type" in told else ""
        (field,) = protobuf_fields("", [column])
        yield f"| {form.ddl} | {logical} | {told['type']}{connect} | {field.type} |"


def _protobuf_schema() -> list[str]:
    fields = protobuf_fields("shop.orders", _table("orders").columns)
    return protobuf_value("cdc.shop.orders", list(enumerate(fields, 1))).splitlines()


def _json_schema_image() -> str:
    found = json_value("cdc.shop.orders", _table("orders").columns, "mysql")["properties"]["after"]
    members = found["oneOf"][1]["properties"]
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(told)}" for name, told in members.items())
    image = f'"title": "{found["oneOf"][1]["title"]}", "properties": {{\n{lines}\n}}'
    return f'{{"oneOf": [{{"type": "null"}}, {{"type": "object", {image}}}]}}'


def _flags() -> Iterator[str]:
    whole = cleandoc(flags.__doc__ or "")
    for reason, told in re.findall(r"^`(\w+)`, (.*?)[;.]$", whole, re.MULTILINE | re.DOTALL):
        yield f"* **`{reason}`**: {' '.join(told.split())}."


def _flagged() -> Iterator[str]:
    (found,) = [message for message in messages("odd") if message.key]
    yield _example(f"`{INVALID}`", [found])


def _marker() -> Iterator[str]:
    for name, entry in described(cleandoc(Marker.__doc__ or "")).items():
        yield f"* `{name}`: {plain(' '.join(entry.partition(':')[2].split()))}"
