"""Records in JSON Schema and Protobuf say what the same rows' JSON says."""

# ruff: noqa: DTZ001 - DATETIME has no zone

from __future__ import annotations

import base64
import json
import math
import pickle
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from databus.core.errors.config import ConfigError
from databus.core.errors.sink import SinkSettingError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.rows.wire.shapes import wire_head
from databus.schema_registry import decoder
from databus.schema_registry.client import RegisteredSchema
from databus.schema_registry.settings import RegistrySettings
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.encoding import CANONICAL_KEY
from databus.sinks.kafka.registered.descriptions import FORMATS, Description
from databus.sinks.kafka.registered.encoder import RegisteredEncoder, encoder_of
from databus.sinks.kafka.registered.reading import JsonMessages, RegisteredMessages
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.tally import MessageTally
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from tests.unit.rows.protobuf_messages import message_type
from tests.unit.rows.test_json_images import ROW
from tests.unit.rows.test_json_images import SCHEMA as ALL_TYPES

TOPIC = "cdc.shop.orders"
SCHEMA = table(
    "shop.orders",
    {"id": "int", "at": "datetime(3)", "amount": "decimal(12,2)", "note": "text", "raw": "blob",
     "big": "bigint unsigned"},
)  # fmt: skip
CHANGES: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = [
    (None, {"id": 1, "at": datetime(2026, 11, 27, 7), "amount": Decimal("-1.50"), "note": "ä", "raw": b"\0",
            "big": 2**64 - 1}),
    ({"id": 1, "note": "ä"}, {"note": None, "amount": Decimal("2.00")}),  # row image MINIMAL
    ({"id": 2, "note": Unrepresentable(b"\xff")}, {"id": 3, "at": Unrepresentable("0000-00-00 00:00:00.000")}),
    ({"id": 4, "note": "gone"}, None),
]  # fmt: skip
both = pytest.mark.parametrize("form", ["json_schema", "protobuf"])


def spec(form: str) -> Kafka:
    return Kafka(conn_id="k", format=form, registry_conn_id="r", partitions=4)  # type: ignore[arg-type] # of the two


def description(form: str, schema: TableSchema, newest: dict[str, RegisteredSchema] | None = None) -> Description:
    return FORMATS[form](schema, schema, TOPIC, "mysql", (newest or {}).get)


def plan_of(form: str, schema: TableSchema) -> Plan:
    told = description(form, schema)
    offsets = OffsetRange(BinlogOffset("log.000001", 4), BinlogOffset("log.000001", 900))
    registered = RegisteredSchemas(TOPIC, 7, told.form, 5, told.numbers, told.key_numbers)
    pinned = SinkPlan(partitions={TOPIC: 4}, schemas={0: registered})
    return Plan("test", "the_flow", 7, offsets, {"kafka": pinned}, "spec", datetime(2026, 11, 21, tzinfo=UTC))


def with_route(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("route", pa.repeat(pa.scalar("shop.orders"), rows.num_rows))


def encoded(form: str, b: TableBatch, *, gtid: bool = True) -> pa.RecordBatch:
    encoder: RegisteredEncoder = pickle.loads(pickle.dumps(encoder_of(spec(form), plan_of(form, b.schema))))
    (rows,) = emit(b, transactions(gtid=gtid), "srv", encoder.image_form({}, None))  # type: ignore[attr-defined] # each has one
    return encoder.encode(with_route(rows), 0)


def as_json(b: TableBatch, *, gtid: bool = True) -> pa.RecordBatch:
    (rows,) = emit(b, transactions(gtid=gtid), "srv", json_form({}))
    return KafkaEncoder(Kafka(conn_id="k", partitions=4), plan_of("json_schema", b.schema)).encode(with_route(rows), 0)


def shown(message: Any) -> dict[str, Any]:
    """Return a message as the JSON of the same row has it, columns that it lacks left out."""
    found = dict.fromkeys(("before", "after", "transaction")) | {"op": message.op, "ts_ms": message.ts_ms}
    for image in ("before", "after"):
        if message.HasField(image):
            found[image] = image_of(getattr(message, image))
    if message.HasField("transaction"):
        found["transaction"] = {"id": message.transaction.id, "total_order": message.transaction.total_order}
    names = [f.name for f in message.source.DESCRIPTOR.fields if f.name not in ("flags", "sequence", "thread")]
    source = {name: getattr(message.source, name) if message.source.HasField(name) else None for name in names}
    return {**found, "source": {**source, **({"flags": list(message.source.flags)} if message.source.flags else {})}}


def image_of(message: Any) -> dict[str, Any]:
    flags = dict(getattr(message, "__flags"))
    image: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.name == "__flags" or flags.get(field.name) == "absent":
            continue
        value = getattr(message, field.name) if message.HasField(field.name) else None
        image[field.json_name] = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return image


def texts_of_decimals(image: dict[str, Any] | None, schema: TableSchema) -> dict[str, Any] | None:
    """Return a JSON image with decimals as text, as Protobuf has them; integers stay numbers."""
    if image is None:
        return None
    decimals = {column.name for column in schema.columns if column.type.startswith("decimal")}
    return {n: format(v, "f") if n in decimals and v is not None else v for n, v in image.items()}


@pytest.mark.parametrize("gtid", [True, False])
def test_protobuf_envelopes_say_what_the_json_says(gtid: bool) -> None:
    b = batch(SCHEMA, CHANGES)
    made, other = encoded("protobuf", b, gtid=gtid), as_json(b, gtid=gtid)
    told = description("protobuf", SCHEMA)
    envelope, key_type = message_type(told.value, "Envelope"), message_type(told.key, "Key")

    assert made.num_rows == 5  # an update of the key is two
    assert made["partition"] == other["partition"]
    assert made[CANONICAL_KEY] == other["key"]
    for row, (value, key) in enumerate(zip(made["value"].to_pylist(), made["key"].to_pylist(), strict=True)):
        assert (value[:6], key[:6]) == (wire_head(7) + b"\0", wire_head(5) + b"\0")
        assert MessageToDict(key_type.FromString(key[6:])) == json.loads(other["key"][row].as_py())
        read = envelope.FromString(value[6:])
        assert len(value) - 6 == read.ByteSize()
        said = json.loads(other["value"][row].as_py(), parse_float=Decimal)
        assert shown(read) == {**said, **{n: texts_of_decimals(said[n], SCHEMA) for n in ("before", "after")}}
        if len(getattr(read.before, "__flags")) < 2 and len(getattr(read.after, "__flags")) < 2:
            assert value[6:] == read.SerializeToString()  # entries of a map have no order of their own


def test_json_schema_envelopes_are_the_json_behind_an_id() -> None:
    b = batch(SCHEMA, CHANGES)
    made, other = encoded("json_schema", b), as_json(b)
    told = description("json_schema", SCHEMA)
    value_schema, key_schema = json.loads(told.value), json.loads(told.key)
    jsonschema.Draft7Validator.check_schema(value_schema)

    assert made["partition"] == other["partition"]
    assert made[CANONICAL_KEY] == other["key"]
    assert made["value"].to_pylist() == [wire_head(7) + value for value in other["value"].to_pylist()]
    assert made["key"].to_pylist() == [wire_head(5) + key for key in other["key"].to_pylist()]
    for value, key in zip(made["value"].to_pylist(), made["key"].to_pylist(), strict=True):
        jsonschema.validate(json.loads(value[5:]), value_schema)
        jsonschema.validate(json.loads(key[5:]), key_schema)


@settings(deadline=None, max_examples=50)
@given(st.lists(ROW, min_size=1, max_size=4))
def test_any_row_is_valid_under_its_schema(rows: list[dict[str, Any]]) -> None:
    b = batch(ALL_TYPES, [(None, row) for row in rows])
    for value in encoded("json_schema", b)["value"].to_pylist():
        VALIDATOR.validate(json.loads(value[5:]))


VALIDATOR = jsonschema.Draft7Validator(json.loads(description("json_schema", ALL_TYPES).value))


def test_confluent_s_deserialisers_read_what_is_written() -> None:
    context = SerializationContext(TOPIC, MessageField.VALUE)
    b = batch(SCHEMA, CHANGES[:1])
    told = description("protobuf", SCHEMA)
    read = ProtobufDeserializer(message_type(told.value, "Envelope"), {"use.deprecated.format": False})
    message = read(encoded("protobuf", b)["value"][0].as_py(), context)
    assert (message.after.note, message.after.amount, message.after.big) == ("ä", "-1.50", 2**64 - 1)
    of_json = JSONDeserializer(description("json_schema", SCHEMA).value)
    assert of_json(encoded("json_schema", b)["value"][0].as_py(), context)["after"]["big"] == 2**64 - 1


@both
def test_rows_of_a_snapshot_belong_to_no_transaction(form: str) -> None:
    values = encoded(form, batch(SCHEMA, CHANGES[:1] * 2, read=True))["value"].to_pylist()
    if form == "protobuf":
        envelope = message_type(description(form, SCHEMA).value, "Envelope")
        found = [shown(envelope.FromString(value[6:])) for value in values]
    else:
        found = [json.loads(value[5:]) for value in values]
    assert [(one["op"], one["source"]["snapshot"], one["transaction"]) for one in found] == [("r", "true", None)] * 2
    assert [one["after"]["id"] for one in found] == [1, 1]


@both
def test_other_columns_than_were_registered_stop_the_batch(form: str) -> None:
    b = batch(SCHEMA, CHANGES[:1])
    encoder: Any = encoder_of(spec(form), plan_of(form, SCHEMA))
    with pytest.raises(DecodeError, match=r"other columns than the \w+ schema 7 that was registered for cdc\.shop"):
        emit(b, transactions(), "srv", encoder.image_form({0: (("id", "id"),)}, None))
    other = batch(replace(SCHEMA, schema_id=3), CHANGES[:1])
    (rows,) = emit(other, transactions(), "srv", encoder.image_form({}, None))
    assert rows["after"].to_pylist() == [b""], "tables that the sink does not take cost nothing"


def test_values_that_a_json_schema_has_no_place_for_are_refused() -> None:
    schema = table("shop.orders", {"id": "int", "v": "int"})
    with pytest.raises(DecodeError, match=r"column v of shop\.orders has a value that is no int"):
        encoded("json_schema", batch(schema, [(None, {"id": 1, "v": Unrepresentable("many")})]))
    double = table("shop.orders", {"id": "int", "x": "double", "y": "float"})
    assert encoded("json_schema", batch(double, [(None, {"id": 1, "x": None, "y": 0.5})])).num_rows == 1
    for name, value in (("x", math.nan), ("y", math.inf)):  # of a computed column
        with pytest.raises(
            DecodeError, match=rf"column {name} of shop\.orders is {value}, and JSON has no such number"
        ):
            encoded("json_schema", batch(double, [(None, {"id": 1}), (None, {"id": 2, name: value})]))
    keyed = table("shop.orders", {"id": "varchar(9)"})
    with pytest.raises(DecodeError, match="JSON Schema has no form for it that another key could not have"):
        encoded("json_schema", batch(keyed, [(None, {"id": Unrepresentable(b"\xff")})]))


@both
def test_a_row_that_is_too_large_is_held_back_by_its_canonical_key(form: str) -> None:
    made = encoded(form, batch(SCHEMA, [(None, {"id": 200, "note": "x" * 3000})]))
    tally = MessageTally("kafka", {TOPIC: 1000}, form)
    assert tally.accept(made).num_rows == 0
    (row,) = tally.rejected
    shown_ = json.loads(row.payload)
    assert row.key == '{"id":200}'
    assert shown_["format"] == "protobuf" if form == "protobuf" else shown_["after"]["id"] == 200


@both
def test_a_table_that_changes_keeps_what_its_subject_had(form: str) -> None:
    kind = {"json_schema": "JSON", "protobuf": "PROTOBUF"}[form]
    wide = table("shop.orders", {"id": "int", "a": "int", "b": "text"})
    narrow = table("shop.orders", {"id": "int", "b": "text", "c": "date"})
    first = description(form, wide)
    newest = {
        f"{TOPIC}-value": RegisteredSchema(1, kind, first.value),
        f"{TOPIC}-key": RegisteredSchema(2, kind, first.key),
    }
    second = description(form, narrow, newest)
    again = {**newest, f"{TOPIC}-value": RegisteredSchema(3, kind, second.value)}
    assert description(form, narrow, again) == second
    assert second.key == first.key
    if form == "protobuf":
        assert (first.numbers, second.numbers) == ((1, 2, 3), (1, 3, 4))
        assert description(form, wide, again).numbers == first.numbers
        assert '[json_name = "a", deprecated = true]' not in second.value
        assert "int32 a = 2 [deprecated = true];" in second.value
    else:
        image = json.loads(second.value)["properties"]["after"]["oneOf"][1]["properties"]
        assert list(image) == ["id", "a", "b", "c"]
        assert description(form, wide, again).value == second.value


def test_json_schemas_are_those_of_connect_s_converter() -> None:
    found = json.loads(description("json_schema", SCHEMA).value)
    image = found["properties"]["after"]
    assert (found["title"], image["oneOf"][0], image["oneOf"][1]["title"]) == (
        f"{TOPIC}.Envelope", {"type": "null"}, f"{TOPIC}.Value",
    )  # fmt: skip
    assert image["oneOf"][1]["properties"]["id"] == {
        "oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}], "connect.index": 0,
    }  # fmt: skip
    assert image["oneOf"][1]["properties"]["amount"]["oneOf"][1] == {
        "type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.version": 1,
        "connect.type": "bytes", "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
    }  # fmt: skip
    assert image["oneOf"][1]["properties"]["raw"]["oneOf"][1] == {"type": "string", "connect.type": "bytes"}
    assert found["properties"]["source"]["title"] == "io.debezium.connector.mysql.Source"
    assert json.loads(description("json_schema", SCHEMA).key)["title"] == f"{TOPIC}.Key"


@both
def test_options_that_do_not_go_together(form: Any) -> None:
    for options, says in (
        ({}, "needs registry_conn_id"),
        ({"registry_conn_id": "r", "envelope": "row"}, "has envelope='debezium' only"),
        ({"registry_conn_id": "r", "ddl": True}, "no schema changes"),
    ):
        with pytest.raises(ConfigError, match=says):
            Kafka(conn_id="k", format=form, **options)  # type: ignore[arg-type] # wrong on purpose
    assert spec(form).needs_direct_lane() == f'format="{form}"'


def test_numbers_are_stored_where_there_are_some() -> None:
    pinned = plan_of("protobuf", SCHEMA).sinks["kafka"]
    stored = json.loads(json.dumps(pinned.to_json()))
    assert SinkPlan.from_json(stored) == pinned
    assert stored["schemas"]["0"]["numbers"] == [1, 2, 3, 4, 5, 6]
    plain = RegisteredSchemas("t", 7, "f", 5)
    assert plain.to_json() == {"topic": "t", "value": 7, "form": "f", "key": 5}
    assert RegisteredSchemas.from_json(plain.to_json()) == plain


@dataclass(frozen=True)
class Read:
    """Kafka message, as a consumer gives it."""

    given: tuple[bytes | None, bytes | None]

    def key(self) -> bytes | None:
        return self.given[0]

    def value(self) -> bytes | None:
        return self.given[1]


@both
def test_records_are_looked_at_as_those_in_json_are(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told, made = description(form, SCHEMA), encoded(form, batch(SCHEMA, CHANGES[:1]))
    kinds = {7: told.value, 5: told.key}
    monkeypatch.setattr(decoder, "registered", lambda _, number: RegisteredSchema(number, "PROTOBUF", kinds[number]))
    registry = RegistrySettings(f"r_{form}", "http://registry:8081")
    messages: Any = JsonMessages() if form == "json_schema" else RegisteredMessages(registry, form)
    read = messages.decoded(Read((made["key"][0].as_py(), made["value"][0].as_py())))
    assert read.key() == b'{"id":1}'
    value = json.loads(read.value())
    assert (value["source"]["pos"], value["source"]["row"], value["op"]) == (104, 0, "c")
    assert (value["after"]["note"], value["after"]["raw"], value["after"]["big"]) == ("ä", "AA==", 2**64 - 1)
    gone = messages.decoded(Read((made["key"][0].as_py(), None)))
    assert (gone.key(), gone.value()) == (b'{"id":1}', None)


def test_names_that_protoc_does_not_tell_apart_are_refused() -> None:
    for names in (("order_id", "orderId"), ("Flags",)):
        with pytest.raises(SinkSettingError, match="to protoc, which would refuse the schema") as caught:
            description("protobuf", table("shop.orders", {"id": "int", **dict.fromkeys(names, "int")}))
        assert caught.value.code == "sink_avro_name"
        description("json_schema", table("shop.orders", {"id": "int", **dict.fromkeys(names, "int")}))
    before = description("protobuf", table("shop.orders", {"id": "int", "orderId": "int"}))
    newest = {f"{TOPIC}-value": RegisteredSchema(3, "PROTOBUF", before.value)}
    with pytest.raises(SinkSettingError, match="'order_id' and 'orderId', which its newest schema keeps of a column"):
        description("protobuf", table("shop.orders", {"id": "int", "order_id": "int"}), newest)


def test_a_subject_whose_newest_schema_is_no_proto_text_is_named() -> None:
    newest = {f"{TOPIC}-value": RegisteredSchema(3, "PROTOBUF", "message {")}
    with pytest.raises(SinkSettingError, match="Protobuf schema 3, the newest of its subject, is not understood"):
        description("protobuf", SCHEMA, newest)
