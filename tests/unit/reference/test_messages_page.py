"""Page of messages: every field has a meaning and stands beside Debezium's; the recorded logs hold what is shown."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from databus.binlog.decoding.table_batch import TableBatch
from databus.sinks.envelope import schema
from tests.reference.made_messages import decoded, images, messages
from tests.reference.message_types import MYSQL
from tests.reference.messages_page import debezium, fields


def test_every_field_has_a_meaning_and_a_place_beside_debezium() -> None:
    known = dict(fields())
    assert set(known) == set(debezium())
    assert [path for path, inner in known.items() if not inner.get("description") and "properties" not in inner] == []


@pytest.mark.parametrize("envelope", ["debezium", "row"])
def test_what_is_shown_is_of_the_schema(envelope: str) -> None:
    check = Draft202012Validator(schema(envelope))
    found = messages("orders", envelope=envelope) + messages("odd", envelope=envelope)
    values = [json.loads(message.value) for message in found if message.value is not None]
    rows = [value for value in values if envelope == "debezium" or value["__op"] not in "tm"]
    assert len(rows) >= 6
    for value in rows:
        check.validate(value)


def test_examples_are_of_every_operation() -> None:
    found = messages("orders")
    assert [json.loads(m.value)["op"] if m.value else None for m in found] == [
        "m", "c", "u", "d", None, "c", "d", None, "t", "m",
    ]  # fmt: skip
    (read,) = messages("orders", snapshot=True)[:1]
    assert json.loads(read.value or "")["op"] == "r"


def test_the_log_holds_a_value_of_each_type() -> None:
    (image,) = images("every_type")
    assert list(image) == ["id", *(f"c{number}" for number in range(len(MYSQL)))]
    assert None not in image.values()


def test_types_are_called_as_the_log_says() -> None:
    found = {item.schema.table: item.schema for item, _ in decoded() if isinstance(item, TableBatch)}
    said = [column.type.lower() for column in found["every_type"].columns[1:]]
    wanted = [form.ddl.lower() for form in MYSQL]
    assert [s.partition("(")[0].split()[0] for s in said] == [
        _KNOWN.get(w.partition("(")[0].split()[0], w.partition("(")[0].split()[0]) for w in wanted
    ]


_KNOWN = {"point": "geometry"}
"""Names under which the log has a type."""
