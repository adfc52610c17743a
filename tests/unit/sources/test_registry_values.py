"""Values that a schema registry describes: what is written with a schema is read as the JSON that it means."""

from __future__ import annotations

import functools
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.schema_registry import decoder as of_values
from databus.schema_registry.client import RegisteredSchema
from databus.schema_registry.decoder import SchemaDecoder
from databus.schema_registry.protobuf import protobuf_decoder
from databus.schema_registry.settings import RegistrySettings
from databus.schema_registry.texts import avro_decoder, json_schema_decoder
from databus.sources.kafka.json_fields import field_column

ITEM = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string", "long"]},
        {"name": "weight", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "items", "type": {"type": "array", "items": "shop.Item"}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
    ],
}
TIMES: dict[str, Any] = {
    "type": "record",
    "name": "Times",
    "fields": [
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
import "shop/item.proto";
import "google/protobuf/timestamp.proto";
message Other { bool unused = 1; }
message Order {
  message Line { int64 id = 1; string name = 2; repeated double parts = 3; map<string, int32> tags = 4; bytes raw = 5; }
  Line first = 1; Item item = 2; google.protobuf.Timestamp at = 3;
}
"""
ITEM_PROTO = 'syntax = "proto3"; package shop; message Item { string sku = 1; optional int32 count = 2; }'

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
long = st.integers(-(2**63), 2**63 - 1)


def avro_of(document: Any, schema: Any) -> bytes:
    target = BytesIO()
    fastavro.schemaless_writer(target, schema, document)
    return target.getvalue()


@pytest.fixture(scope="module")
def avro() -> Any:
    return avro_decoder(RegisteredSchema(1, "AVRO", json.dumps(ORDER), (("shop.Item", json.dumps(ITEM)),)))


@settings(deadline=None)
@given(
    order=st.fixed_dictionaries(
        {
            "id": long,
            "note": st.none() | text | long,
            "weight": st.floats(allow_nan=False),
            "paid": st.booleans(),
            "raw": st.just(b"\xff\x00"),
            "state": st.sampled_from(["NEW", "DONE"]),
            "items": st.lists(st.fixed_dictionaries({"sku": text}), max_size=3),
            "tags": st.dictionaries(text, st.integers(-(2**31), 2**31 - 1), max_size=3),
        }
    )
)
def test_avro_values_are_read_as_written(avro: Any, order: dict[str, Any]) -> None:
    named: dict[str, Any] = {}
    fastavro.parse_schema(ITEM, named)
    payload = avro_of(order, fastavro.parse_schema(ORDER, named))
    said, document = avro(payload)
    assert document == order
    weight = order["weight"] if math.isfinite(order["weight"]) else "Infinity" if order["weight"] > 0 else "-Infinity"
    assert json.loads(said) == {**order, "raw": "/wA=", "weight": weight}
    with pytest.raises(ValueError, match="1 bytes are left over"):
        avro(payload + b"x")


def test_what_json_has_no_form_for_is_text() -> None:
    decode = avro_decoder(RegisteredSchema(1, "AVRO", json.dumps(TIMES)))
    written = {
        "price": Decimal("-12.3400"),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "day": date(1582, 1, 1),
        "clock": time(23, 59, 59, 5),
        "uuid": UUID(int=7),
    }
    said, document = decode(avro_of(written, TIMES))
    assert json.loads(said) == {
        "price": "-12.3400",
        "at": "2026-01-02T03:04:05.678901Z",
        "day": "1582-01-01",
        "clock": "23:59:59.000005",
        "uuid": "00000000-0000-0000-0000-000000000007",
    }
    columns = {"price": "decimal(20,4)", "at": "string", "day": "string", "uuid": "string", "clock": "bigint"}
    found = [field_column([document, None], name, kind, "avro").to_pylist() for name, kind in columns.items()]
    assert found == [
        [Decimal("-12.3400"), None],
        ["2026-01-02T03:04:05.678901Z", None],
        ["1582-01-01", None],
        ["00000000-0000-0000-0000-000000000007", None],
        [None, None],
    ]


@pytest.mark.parametrize(("schema", "value", "expected"), [('"string"', "k", '"k"'), ('{"type":"long"}', 5, "5")])
def test_keys_are_often_of_one_value(schema: str, value: Any, expected: str) -> None:
    assert avro_decoder(RegisteredSchema(1, "AVRO", schema))(avro_of(value, json.loads(schema)))[0] == expected


def test_json_is_checked_against_its_schema_and_those_it_refers_to() -> None:
    root = {"type": "object", "properties": {"id": {"type": "integer"}, "item": {"$ref": "item.json"}}}
    item = {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}}
    decode = json_schema_decoder(RegisteredSchema(1, "JSON", json.dumps(root), (("item.json", json.dumps(item)),)))
    said, document = decode(b'{"id": 1, "item": {"sku": "a"}, "price": 1.50}')
    assert said == '{"id": 1, "item": {"sku": "a"}, "price": 1.50}'
    assert document["price"] == Decimal("1.50")
    for bad in (b'{"id": "x"}', b'{"item": {}}', b'{"id":', b"\xff", b'{"id": NaN}'):
        with pytest.raises(ValueError):  # noqa: PT011 - JSON's, the codec's and our own
            decode(bad)
    lone = json_schema_decoder(RegisteredSchema(2, "JSON", json.dumps(root)))
    with pytest.raises(Exception, match=r"item\.json"):  # nothing is fetched from where a reference points
        lone(b'{"item": {"sku": "a"}}')


@pytest.fixture(scope="module")
def proto() -> Any:
    return protobuf_decoder(RegisteredSchema(1, "PROTOBUF", PROTO, (("shop/item.proto", ITEM_PROTO),)))


@functools.cache
def order_type() -> Any:
    """Return the message class, made apart from the decoder under test."""
    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    item = FileDescriptorProto(name="shop/item.proto", package="shop", syntax="proto3")
    sku = item.message_type.add(name="Item").field.add(name="sku", number=1)
    sku.type, sku.label = sku.TYPE_STRING, sku.LABEL_OPTIONAL
    pool.Add(item)
    file = FileDescriptorProto(name="t.proto", package="shop", syntax="proto3", dependency=["shop/item.proto"])
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    for owner, number, name, kind, repeated, of in (
        (line, 1, "id", "TYPE_INT64", False, ""),
        (line, 2, "name", "TYPE_STRING", False, ""),
        (line, 3, "parts", "TYPE_DOUBLE", True, ""),
        (line, 5, "raw", "TYPE_BYTES", False, ""),
        (order, 1, "first", "TYPE_MESSAGE", False, ".shop.Order.Line"),
        (order, 2, "item", "TYPE_MESSAGE", False, ".shop.Item"),
        (order, 3, "at", "TYPE_MESSAGE", False, ".google.protobuf.Timestamp"),
    ):
        added = owner.field.add(name=name, number=number, type_name=of or None)
        added.type = getattr(added, kind)
        added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def framed(indexes: list[int], message: bytes) -> bytes:
    """Return indexes and message as confluent's own class writes them."""
    return SchemaId("PROTOBUF", 0, None, indexes).id_to_bytes()[5:] + message


@settings(deadline=None)
@given(number=long, name=text, parts=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3))
def test_protobuf_values_are_read_as_written(proto: Any, number: int, name: str, parts: list[float]) -> None:
    message = order_type()()
    message.first.id, message.first.name, message.first.raw = number, name, b"\xff"
    message.first.parts.extend(parts)
    line = {"id": str(number), "name": name, "parts": parts, "tags": {}, "raw": "/w=="}
    assert json.loads(proto(framed([1, 0], message.first.SerializeToString()))[0]) == line
    message.item.sku = "s"
    message.at.seconds, message.at.nanos = 1, 500_000_000
    said, document = proto(framed([1], message.SerializeToString()))
    assert json.loads(said) == {"first": line, "item": {"sku": "s"}, "at": "1970-01-01T00:00:01.500Z"}
    assert field_column([document], "first.id", "bigint", "protobuf").to_pylist() == [number]
    assert proto(framed([0], b""))[0] == '{"unused":false}'


@pytest.mark.parametrize("payload", [b"", b"\x06", b"\x02\x0f", framed([7], b""), framed([1, 3], b""), b"\0\xff"])
def test_what_is_no_message_is_refused(proto: Any, payload: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - protobuf's own
        proto(payload)


def test_a_proto_file_stays_inside_its_folder() -> None:
    for name in ("../outside.proto", "/outside.proto"):
        with pytest.raises(ValueError, match="is no name of a"):
            protobuf_decoder(RegisteredSchema(1, "PROTOBUF", PROTO, ((name, ITEM_PROTO),)))
    with pytest.raises(ValueError, match="does not compile"):
        protobuf_decoder(RegisteredSchema(1, "PROTOBUF", "message {"))


class Known:
    """Schemas by id, and how often each was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, _settings: RegistrySettings, schema_id: int) -> RegisteredSchema | None:
        self.asked.append(schema_id)
        return {
            1: RegisteredSchema(1, "AVRO", '"string"'),
            2: RegisteredSchema(2, "AVRO", '{"type": "record"}'),
            3: RegisteredSchema(3, "JSON", "{}"),
        }.get(schema_id)


def test_each_id_is_asked_for_once_and_what_is_not_decoded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known()
    monkeypatch.setattr(of_values, "registered", known)
    place = RegistrySettings("reg", "http://once")
    values = [b"\0\0\0\0\1\x02a", None, b"", b"\0\0\0\0", b"\1\0\0\0\1\x02a", b"\0\0\0\0\1\x04a", b"{}   "]
    values += [b"\0\0\0\0\2x", b"\0\0\0\0\3x", b"\0\0\0\0\4x", b"\0\0\0\0\4y", b"\0\0\0\0\1\x02b"]
    found = SchemaDecoder(place, "avro").decode(values)
    assert [text for text in found.texts if text is not None] == ['"a"', '"b"']
    assert found.faults == {
        2: "unframed", 3: "unframed", 4: "unframed", 5: "undecodable", 6: "unframed",
        7: "schema_unknown", 8: "schema_unknown", 9: "schema_unknown", 10: "schema_unknown",
    }  # fmt: skip
    assert known.asked == [1, 2, 3, 4]
    SchemaDecoder(place, "avro").decode(values)
    assert known.asked == [1, 2, 3, 4, 2, 3, 4]  # one that was missing may have come


@given(payloads=st.lists(st.none() | st.binary(max_size=30), max_size=5), form=st.sampled_from(["avro", "json_schema"]))
def test_any_bytes_are_text_or_a_named_fault(payloads: list[bytes | None], form: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_values, "registered", Known())
        found = SchemaDecoder(RegistrySettings("reg", "http://any"), form).decode(
            [None if p is None else b"\0\0\0\0\1" + p for p in payloads]
        )
    for row, payload in enumerate(payloads):
        assert (payload is None) + (found.texts[row] is not None) + (row in found.faults) == 1
