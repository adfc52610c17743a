"""Records with a registered schema are read as the same changes in JSON: those that the sink's own encoder writes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from databus.consumer import Changes
from databus.consumer import registered as module
from databus.consumer.change import Change
from databus.consumer.messages import read
from databus.consumer.registered import RegisteredValues
from databus.consumer.spill import StoredMessage
from databus.core.errors import MessageFormatError
from databus.core.errors.source import RegistryUnavailableError
from databus.schema_registry.client import RegisteredSchema
from databus.testing.table_batches import batch, table
from tests.unit.formats.transformed_messages import made, registered_schemas

COLUMNS = {
    "id": "int", "name": "varchar(20)", "total": "decimal(12,2)", "at": "datetime(3)", "day": "date", "raw": "blob",
    "u64": "bigint unsigned", "note": "varchar(9)", "weight": "double", "ratio": "float",
}  # fmt: skip
SCHEMA = table("shop.orders", COLUMNS)
ROW = {
    "id": 1, "name": "é", "total": Decimal("10.50"), "at": datetime(2026, 5, 3, 10, 20, 30, 120000),  # noqa: DTZ001
    "day": date(2026, 5, 3), "raw": b"\x00\xff", "u64": 2**64 - 1, "note": None, "weight": 12.1, "ratio": 0.1,
}  # fmt: skip
IMAGES = [(None, ROW), (ROW, {**ROW, "total": Decimal("-0.01")}), ({"id": 1}, {"id": 1, "name": "b"}), (ROW, None)]
Read = Callable[..., RegisteredValues]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Read:
    def make(form: str) -> RegisteredValues:
        told = registered_schemas(form, [], SCHEMA)
        kind = {"avro": "AVRO", "json_schema": "JSON", "protobuf": "PROTOBUF"}[form]
        known = {7: told.value, 5: told.key}
        monkeypatch.setattr(
            module, "registered", lambda _, n: RegisteredSchema(n, kind, known[n]) if n in known else None
        )
        return RegisteredValues("http://registry:8081")

    return make


def records(form: str) -> list[StoredMessage]:
    rows = made(batch(SCHEMA, IMAGES), [], form).records
    return [StoredMessage("t", 0, n, row["key"], row["value"], []) for n, row in enumerate(rows) if row["value"]]


def changes(form: str, registered: RegisteredValues | None = None) -> list[Change]:
    found = [read(record, registered) for record in records(form)]
    assert all(isinstance(change, Change) for change in found)
    return [change for change in found if change is not None]  # type: ignore[misc]


def said(change: Change, *, bytes_too: bool = False) -> dict[str, Any]:
    def plain(image: dict[str, Any] | None) -> dict[str, Any] | None:
        if image is None or not bytes_too:
            return image
        return {n: base64.b64encode(v).decode() if isinstance(v, bytes) else v for n, v in image.items()}

    names = ("op", "table", "event_id", "ts_ms", "gtid", "position", "transaction", "order", "key", "form")
    found = {name: getattr(change, name) for name in names}
    return found | {"before": plain(change.before), "after": plain(change.after), "flags": list(change.flags)}


@pytest.mark.parametrize("form", ["avro", "json_schema"])
def test_changes_are_those_of_json(registry: Read, form: str) -> None:
    found = changes(form, registry(form))
    assert [said(change, bytes_too=True) for change in found] == [said(change) for change in changes("iso")]
    assert [change.op for change in found] == ["c", "u", "u", "d"]
    assert found[0].key == {"id": 1}
    if form == "avro":
        assert found[0].row is not None
        assert found[0].row["raw"] == b"\x00\xff"
        assert (found[0].row["weight"], found[0].row["ratio"]) == (Decimal("12.1"), Decimal("0.1"))


def test_what_the_registry_does_not_explain_is_named(registry: Read) -> None:
    registered, (record, *_) = registry("avro"), records("avro")
    with pytest.raises(MessageFormatError, match='name that with registry="…"'):
        read(record)
    value = record.value()
    assert value is not None
    for changed, why in (
        (b"\0\0\0\0\x09" + value[5:], "has no schema 9"),
        (value[:-3], "its bytes are not of schema 7"),
        (value[:3], "ends within its schema's id"),
    ):
        with pytest.raises(MessageFormatError, match=why):
            read(StoredMessage("t", 0, 0, None, changed, []), registered)
    with pytest.raises(MessageFormatError, match="schema 7 is PROTOBUF: Avro and JSON Schema are read here"):
        changes("protobuf", registry("protobuf"))


def test_a_registry_that_does_not_answer_is_no_fault_of_a_record(
    registry: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = registry("avro")

    def away(*_: Any) -> None:
        raise RegistryUnavailableError("no answer")

    monkeypatch.setattr(module, "registered", away)
    with pytest.raises(RegistryUnavailableError):
        changes("avro", registered)


def test_the_option_is_read_at_once() -> None:
    assert Changes("k:1", "t", registry="http://registry:8081/apis/ccompat/v7")._registered is not None
    assert Changes("k:1", "t")._registered is None
