"""Images and keys as Protobuf are, byte for byte, what google.protobuf writes for the same values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from databus.core.errors.sink import SinkSettingError
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.rows import json_images
from databus.rows.protobuf.form import ProtobufForm, encode, field_framing
from databus.rows.protobuf.schemas import FormerField, fingerprint, key_schema, shape_in, value_schema
from databus.rows.protobuf.types import FLAGS_NUMBER, ProtobufField, numbered, protobuf_fields, varint
from databus.rows.wire.keys import wire_key_encoder
from databus.schema_registry.client import RegisteredSchema
from databus.schema_registry.protobuf import scalar_fields
from databus.testing.table_batches import Unrepresentable, batch, column, table
from tests.unit.rows.protobuf_messages import flags_of, message_type, values_of
from tests.unit.rows.test_json_images import ROW, SCHEMA

FIELDS = protobuf_fields("shop.t", SCHEMA.columns)
NUMBERS = (40, *range(2, 1 + len(FIELDS)))
"""The first column has a number of two bytes, and comes last."""
TEXT = value_schema("cdc.shop.t", list(zip(NUMBERS, FIELDS, strict=True)))
VALUE = message_type(TEXT, "Envelope.Value")


def written(b: TableBatch, fields: Any = FIELDS, numbers: Any = NUMBERS) -> list[bytes]:
    made = encode(b, tuple(enumerate(fields)), numbers)
    assert made.offsets[-1] == len(made.data), "no byte is left over"
    found: list[bytes] = made.take(np.arange(b.images.num_rows, dtype=np.int32)).to_pylist()
    return [one[len(varint(_length(one))) :] for one in found]


def _length(image: bytes) -> int:
    """Return an image's length, as it says itself."""
    value = shift = 0
    for byte in image:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    assert len(image) == value + shift // 7
    return value


def as_protobuf(b: TableBatch, row: int, given_row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a row is in Protobuf: texts from its JSON, whose forms are shown elsewhere, all else as given."""
    text = json_images.encode(b, {}).take(np.array([row], np.int32))[0].as_py()
    shown = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    told: dict[str, Any] = {}
    flags: dict[str, str] = {}
    for field in FIELDS:
        value = given_row.get(field.column)
        if field.column not in given_row:
            flags[field.name] = "absent"
        if isinstance(value, Unrepresentable):
            flags[field.name] = "invalid_date" if isinstance(value.text, str) else "undecodable"
        if value is not None and field.base == "string":
            value = shown[field.column]
            value = format(value, "f") if isinstance(value, Decimal) else value
        told[field.name] = value
    return told, flags


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=8))
def test_any_row_has_the_bytes_of_google_protobuf(rows: list[dict[str, Any]]) -> None:
    b = batch(SCHEMA, [(None, row) for row in rows])

    for number, (row, found) in enumerate(zip(rows, written(b), strict=True)):
        value, flags = as_protobuf(b, number, row)
        read = VALUE.FromString(found)
        assert (values_of(read), flags_of(read)) == (
            {**value, **({"f": float(np.float32(value["f"]))} if value["f"] is not None else {})},
            flags,
        )
        made = VALUE(**{name: one for name, one in value.items() if one is not None})
        made_size = made.ByteSize()
        assert found[:made_size] == made.SerializeToString(deterministic=True)
        # Entries of a map have no order of their own.
        assert len(found) == read.ByteSize()


@pytest.mark.parametrize("value", [0, 1, -1, 127, 128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_integers_at_their_ends(value: int) -> None:
    schema = table("shop.t", {"v": "bigint"}, ())
    fields = protobuf_fields("shop.t", schema.columns)
    message = message_type(value_schema("t", [(1, fields[0])]), "Envelope.Value")
    (found,) = written(batch(schema, [(None, {"v": value})]), fields, (1,))
    assert found == message(v=value).SerializeToString()
    assert message.FromString(found).v == value


def test_types_of_columns() -> None:
    kinds = {
        "tinyint": "int32", "smallint": "int32", "int": "int32", "int unsigned": "int64", "bigint": "int64",
        "bigint unsigned": "uint64", "bit(64)": "uint64", "decimal(20,0)": "string", "decimal(12,2)": "string",
        "float": "float", "double": "double", "date": "string", "datetime(6)": "string", "blob": "bytes",
        "json": "string", "varchar(9)": "string", "year": "int32",
    }  # fmt: skip
    found = protobuf_fields("shop.t", [column(f"c{n}", kind) for n, kind in enumerate(kinds)])
    assert {kind: field.type for kind, field in zip(kinds, found, strict=True)} == kinds


def test_absent_null_and_what_is_no_text() -> None:
    schema = table("shop.t", {"id": "int", "v": "text", "b": "blob"})
    fields = protobuf_fields("shop.t", schema.columns)
    message = message_type(value_schema("t", list(enumerate(fields, 1))), "Envelope.Value")
    b = batch(schema, [(None, {"id": 0, "v": Unrepresentable(b"\xff\xfe")}), ({"id": 1, "v": None, "b": b""}, {})])

    found = [message.FromString(one) for one in written(b, fields, (1, 2, 3))]

    assert [(values_of(one), flags_of(one)) for one in found] == [
        ({"id": 0, "v": "//4=", "b": None}, {"v": "undecodable", "b": "absent"}),
        ({"id": 1, "v": None, "b": b""}, {}),
        ({"id": None, "v": None, "b": None}, {"id": "absent", "v": "absent", "b": "absent"}),
    ]


def test_images_are_taken_in_any_order_and_none_is_nothing() -> None:
    schema = table("shop.t", {"id": "int", "v": "text"})
    fields = protobuf_fields("shop.t", schema.columns)
    b = batch(schema, [(None, {"id": n, "v": "x" * (n % 300)}) for n in range(5000)])
    made = encode(b, tuple(enumerate(fields)), (1, 2))
    one_by_one = made.take(np.arange(5000, dtype=np.int32))
    assert made.take(np.array([4999, -1, 4], np.int32)).to_pylist() == [
        one_by_one[4999].as_py(), b"", one_by_one[4].as_py(),
    ]  # fmt: skip
    message = message_type(value_schema("t", list(enumerate(fields, 1))), "Envelope.Value")
    for number in (2047, 2048, 4999):
        read = message.FromString(written(b, fields, (1, 2))[number])
        assert (read.id, read.v) == (number, "x" * (number % 300))


def test_keys_are_the_message_behind_id_and_index() -> None:
    schema = table("shop.t", {"a": "bigint unsigned", "b": "varchar(9)", "v": "int"}, ("b", "a"))
    shape = shape_in(schema, None)
    registered = RegisteredSchemas("cdc.shop.t", 7, shape.form, 5, (1, 2, 3), (2, 1))
    b = batch(schema, [(None, {"a": 2**64 - 1, "b": "x", "v": 1}), ({"a": 1, "b": "x"}, {"a": 0})])
    encoder = ProtobufForm({}, {0: registered}).keys(b, schema)
    assert encoder is not None
    found = encoder.keys(b.after_row, b.before_row).to_pylist()
    message = message_type(key_schema("cdc.shop.t", list(zip((2, 1), shape.key, strict=True))), "Key")
    assert [one[:6] for one in found] == [b"\0\0\0\0\5\0"] * 2
    assert [values_of(message.FromString(one[6:])) for one in found] == [{"b": "x", "a": 2**64 - 1}, {"b": "x", "a": 0}]
    with pytest.raises(DecodeError, match="does not carry its key column b"):
        encoder.keys(b.after_row[1:], np.array([-1], np.int32))
    other = batch(table("shop.t", {"id": "varchar(9)"}), [(None, {"id": Unrepresentable(b"\xff")})])
    (field,) = protobuf_fields("shop.t", other.schema.columns)
    with pytest.raises(DecodeError, match=r"a key of shop\.t is no text .* and Protobuf has no form for it"):
        wire_key_encoder(other, [(field, field_framing(field, 1))], b"", "Protobuf")


def test_another_type_than_was_registered_is_refused() -> None:
    b = batch(table("shop.t", {"v": "text"}, ()), [(None, {"v": "x"})])
    with pytest.raises(
        DecodeError, match=r"column v of shop\.t has the Arrow type string, and its registered Protobuf"
    ):
        encode(b, [(0, ProtobufField("v", "v", "int"))], (1,))
    with pytest.raises(DecodeError, match=r"rows of shop\.t have other columns than the Protobuf schema 7"):
        ProtobufForm({}, {0: RegisteredSchemas("t", 7, "another", 0, (1,))}).keys(b, b.schema)
    assert ProtobufForm({}, {}).images(b).take(np.array([0, -1], np.int32)).to_pylist() == [b"", b""]


def test_numbers_stay_and_are_given_once() -> None:
    one, two, three = protobuf_fields("t", [column(name, "int") for name in ("a", "b", "c")])
    assert numbered((one, two), {}) == (1, 2)
    assert numbered((three, two), {"a": 1, "b": 2}) == (3, 2)
    assert numbered((one, three), {"b": 2}) == (3, 4)
    assert numbered((one, three), {"b": 18_999}) == (20_000, 20_001)


def test_what_is_no_column_any_more_keeps_name_and_number() -> None:
    fields = protobuf_fields("shop.t", [column("id", "int"), column("bestellt am", "date"), column("flag_a", "bit(9)")])
    text = value_schema("cdc.shop.t", list(enumerate(fields, 1)))
    stored = scalar_fields(RegisteredSchema(3, "PROTOBUF", text), ("Envelope", "Value"))
    assert stored == {
        "id": (1, "int32", "id"), "bestellt_am": (2, "string", "bestellt am"), "flag_a": (3, "uint64", "flag_a"),
    }  # fmt: skip
    former = {name: FormerField(*found) for name, found in stored.items()}
    less = value_schema("cdc.shop.t", [(1, fields[0])], former)
    assert '  optional string bestellt_am = 2 [json_name = "bestellt am", deprecated = true];' in less
    assert scalar_fields(RegisteredSchema(4, "PROTOBUF", less), ("Envelope", "Value")) == stored
    again = value_schema("cdc.shop.t", list(enumerate(fields, 1)), former)
    assert again == text, "a table read at an older place has the schema that it had"
    assert scalar_fields(RegisteredSchema(5, "PROTOBUF", text), ("Other",)) == {}


def test_schemas_are_named_as_debezium_names_them() -> None:
    fields = protobuf_fields("shop.orders", [column("id", "bigint unsigned"), column("message", "text")])
    text = value_schema("east.shop-1.orders", list(enumerate(fields, 1)))
    assert text.splitlines()[:4] == ['syntax = "proto3";', "package east.shop_1.orders;", "", "message Envelope {"]
    envelope = message_type(text, "Envelope").DESCRIPTOR
    assert [(f.name, f.number) for f in envelope.fields] == [
        ("before", 1), ("after", 2), ("source", 3), ("op", 4), ("ts_ms", 5), ("transaction", 6),
    ]  # fmt: skip
    assert [m.name for m in envelope.nested_types] == ["Value", "Source", "block"]
    value = envelope.nested_types[0]
    assert [(f.name, f.json_name, f.number) for f in value.fields] == [
        ("id", "id", 1), ("message", "message", 2), ("__flags", "__flags", FLAGS_NUMBER),
    ]  # fmt: skip
    assert fingerprint(fields) != fingerprint(fields[:1]) != fingerprint(fields[:1], ())


def test_names_that_meet_are_refused() -> None:
    with pytest.raises(SinkSettingError, match=r"column 'a-b' of shop\.t is 'a_b' in Protobuf, and so is column 'a b'"):
        protobuf_fields("shop.t", [column("a b", "int"), column("a-b", "int")])
