"""Images and keys as Avro are, byte for byte, what fastavro writes for the same values."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from databus.core.errors.sink import SinkSettingError
from databus.rows import json_images
from databus.rows.avro import images, schemas
from databus.rows.avro.images import ALONE, IN_UNION
from databus.rows.avro.schemas import envelope_schema, fingerprint, key_schema, text_of, value_schema
from databus.rows.avro.types import AvroField, avro_fields, avro_name, avro_namespace
from databus.rows.variant.kernels import VALUE as VALUE_STATE
from databus.rows.wire import kernels
from databus.rows.wire.columns import longs, texts
from databus.rows.wire.keys import WireKeyEncoder, wire_key_encoder
from databus.testing.table_batches import Unrepresentable, batch, column, table
from tests.unit.rows.test_json_images import ROW, SCHEMA

BYTES = Unrepresentable(b"\xff\xfe")
FIELDS = avro_fields("shop.t", SCHEMA.columns)
CHOSEN = tuple(enumerate(FIELDS))
CONTEXT = Context(prec=60)
RECORD = value_schema("cdc.shop.t", FIELDS)
BARE_FIELDS = [
    {**field, "type": ["null", "bytes"]} if "scale" in str(field["type"][1]) else field for field in RECORD["fields"]
]
BARE = fastavro.parse_schema(["null", {**RECORD, "fields": BARE_FIELDS}])
VALUE = fastavro.parse_schema(["null", value_schema("cdc.shop.t", FIELDS)])


def written(b: TableBatch, fields: tuple[tuple[int, AvroField], ...] = CHOSEN) -> list[bytes]:
    made = images.encode(b, fields)
    assert made.offsets[-1] == len(made.data) - 1, "no byte is left over"
    found: list[bytes] = made.take(np.arange(b.images.num_rows, dtype=np.int32)).to_pylist()
    return found


def key_encoder(b: TableBatch, fields: tuple[AvroField, ...], head: bytes) -> WireKeyEncoder | None:
    return wire_key_encoder(b, [(field, ALONE) for field in fields], head, "Avro")


def by_fastavro(row: dict[str, Any], flags: dict[str, str] | None) -> bytes:
    """Return the record as fastavro writes it, decimals as the bytes that Java's BigDecimal gives for them."""
    plain = {field.name: _two_s_complement(row[field.name], field) for field in FIELDS}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, BARE, {**plain, "__flags": flags})
    return out.getvalue()


def _two_s_complement(value: Any, field: AvroField) -> Any:
    # fastavro takes one byte more than BigInteger.toByteArray for -2^7, -2^15, …
    if not isinstance(value, Decimal):
        return value
    assert field.scale is not None
    unscaled = int(value.scaleb(field.scale, CONTEXT))
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def as_avro(b: TableBatch, row: int, given_row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Return what a row is in Avro: texts from its JSON, whose forms are shown elsewhere, all else as given."""
    shown = json.loads(json_images.encode(b, {}).take(np.array([row], np.int32))[0].as_py())
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
        told[field.name] = Decimal(value) if value is not None and not isinstance(field.type, str) else value
    return told, flags or None


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=8))
def test_any_row_has_the_bytes_of_fastavro(rows: list[dict[str, Any]]) -> None:
    b = batch(SCHEMA, [(None, row) for row in rows])

    for number, (row, found) in enumerate(zip(rows, written(b), strict=True)):
        value, flags = as_avro(b, number, row)
        assert fastavro.schemaless_reader(io.BytesIO(found), VALUE, None) == {**value, "__flags": flags}
        assert found == by_fastavro(value, flags)


@pytest.mark.parametrize("value", [0, 1, -1, 127, 128, -128, -129, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, -(2**127)])
def test_decimals_are_the_fewest_bytes(value: int) -> None:
    words = np.array([[value & 2**64 - 1, value >> 64 & 2**64 - 1]], np.uint64).view(np.int64)
    sizes, state = np.zeros(1, np.int64), np.full(1, VALUE_STATE, np.int8)
    kernels.measure_signed(words, state, ALONE, sizes)
    out = np.empty(int(sizes[0]), np.uint8)
    kernels.put_signed(words, state, ALONE, np.zeros(1, np.int64), 0, 1, out)
    assert out.tobytes() == images.text_bytes("x" * (len(out) - 1))[:1] + out[1:].tobytes()
    assert int.from_bytes(out[1:].tobytes(), "big", signed=True) == value
    assert len(out) == 2 + (value if value >= 0 else ~value).bit_length() // 8


def test_bytes_that_are_no_text_are_base64_and_flagged() -> None:
    schema = table("shop.t", {"id": "int", "v": "text", "b": "blob"})
    fields = avro_fields("shop.t", schema.columns)
    b = batch(schema, [(None, {"id": 1, "v": BYTES}), ({"id": 1, "v": None, "b": b"x"}, {"b": None})])
    parsed = fastavro.parse_schema(["null", value_schema("t", fields)])

    found = [fastavro.schemaless_reader(io.BytesIO(one), parsed, None) for one in written(b, tuple(enumerate(fields)))]

    assert found == [
        {
            "id": 1,
            "v": base64.b64encode(b"\xff\xfe").decode(),
            "b": None,
            "__flags": {"v": "undecodable", "b": "absent"},
        },
        {"id": 1, "v": None, "b": b"x", "__flags": None},
        {"id": None, "v": None, "b": None, "__flags": {"id": "absent", "v": "absent"}},
    ]


def test_documents_whose_change_is_not_logged_are_flagged() -> None:
    schema = table("shop.t", {"id": "int", "doc": "json"})
    fields = avro_fields("shop.t", schema.columns)
    b = replace(batch(schema, [(None, {"id": 1}), (None, {"id": 2, "doc": "{}"})]), partial={1: frozenset({0})})
    parsed = fastavro.parse_schema(["null", value_schema("t", fields)])

    found = [fastavro.schemaless_reader(io.BytesIO(one), parsed, None) for one in written(b, tuple(enumerate(fields)))]

    assert [one["__flags"] for one in found] == [{"doc": "partial"}, None]


def test_images_are_taken_in_any_order_and_none_is_the_null_of_the_union() -> None:
    schema = table("shop.t", {"id": "int", "v": "text"})
    fields = avro_fields("shop.t", schema.columns)
    whole = batch(schema, [(None, {"id": n, "v": "x" * (n % 50)}) for n in range(5000)])
    part = replace(whole, images=whole.images.slice(1000, 3000), presence=whole.presence[1000:4000])
    made = images.encode(part, tuple(enumerate(fields)))
    one_by_one = made.take(np.arange(3000, dtype=np.int32))

    assert one_by_one[2047].as_py() == b"\2\2" + images.varint(3047) + b"\2" + images.text_bytes("x" * 47) + b"\0"
    assert made.take(np.array([5, -1, 4], np.int32)).to_pylist() == [
        one_by_one[5].as_py(),
        b"\0",
        one_by_one[4].as_py(),
    ]
    assert made.take(np.array([], np.int32)).to_pylist() == []
    assert images.no_images(2).to_pylist() == [b"\0", b"\0"]


def test_keys_take_what_one_image_lacks_from_the_other() -> None:
    schema = table("shop.t", {"a": "int", "b": "varchar(9)", "v": "int"}, ("b", "a"))
    fields = avro_fields("shop.t", [schema.columns[1], schema.columns[0]])
    b = batch(schema, [(None, {"a": 1, "b": "x", "v": 1}), ({"a": 1, "b": "x"}, {"a": -2})])
    encoder = key_encoder(b, fields, b"\0\0\0\0\7")
    assert encoder is not None
    found = encoder.keys(b.after_row, b.before_row).to_pylist()

    parsed = fastavro.parse_schema(key_schema("cdc.shop.t", fields))
    assert [one[:5] for one in found] == [b"\0\0\0\0\7"] * 2
    assert [fastavro.schemaless_reader(io.BytesIO(one[5:]), parsed, None) for one in found] == [
        {"b": "x", "a": 1}, {"b": "x", "a": -2},
    ]  # fmt: skip
    with pytest.raises(DecodeError, match="does not carry its key column b"):
        encoder.keys(b.after_row[1:], np.array([-1], np.int32))
    assert key_encoder(batch(table("shop.t", {"a": "int"}, ()), [(None, {"a": 1})]), (), b"") is None


def test_a_key_that_is_no_text_is_refused() -> None:
    schema = table("shop.t", {"id": "varchar(9)"})
    b = batch(schema, [(None, {"id": BYTES})])
    with pytest.raises(DecodeError, match=r"a key of shop\.t is no text of the character set of column id"):
        key_encoder(b, avro_fields("shop.t", schema.columns), b"")


def test_another_type_than_was_registered_is_refused() -> None:
    b = batch(table("shop.t", {"id": "int", "v": "text"}), [(None, {"id": 1, "v": "x"})])
    with pytest.raises(
        DecodeError, match=r"column v of shop\.t has the Arrow type string, and its registered Avro type is"
    ):
        images.encode(b, [(1, AvroField("v", "v", "int"))])
    date = batch(table("shop.t", {"v": "date"}), [(None, {"v": Unrepresentable("0000-00-00")})])
    with pytest.raises(DecodeError, match="a value that the Avro type int cannot hold"):
        images.encode(date, [(0, AvroField("v", "v", "int"))])


def test_bits_are_a_long_as_far_as_one_holds_them() -> None:
    schema = table("shop.t", {"v": "bigint unsigned"})
    field = (0, AvroField("v", "v", "long"))  # as of BIT(63)
    assert written(batch(schema, [(None, {"v": 257}), (None, {"v": None})]), (field,)) == [b"\2\2\x82\4\0", b"\2\0\0"]
    with pytest.raises(DecodeError, match=r"column v of shop\.t has the Arrow type uint64"):
        written(batch(schema, [(None, {"v": 2**63})]), (field,))


def test_names() -> None:
    assert [avro_name(text) for text in ("order_id", "9lives", "ä b", "")] == ["order_id", "_9lives", "__b", "_"]
    assert avro_namespace("cdc.shop-2.2024") == "cdc.shop_2._2024"
    with pytest.raises(SinkSettingError, match=r"column 'a-b' of shop\.t is 'a_b' in Avro, and so is column 'a b' too"):
        avro_fields("shop.t", [column("a b", "int"), column("a-b", "int")])
    with pytest.raises(SinkSettingError, match="'__flags' in Avro, and so is a field of databus"):
        avro_fields("shop.t", [column("__flags", "int")])
    with pytest.raises(SinkSettingError) as caught:
        avro_fields("shop.t", [column("a b", "int"), column("a-b", "int")], key=True)
    assert "RenameColumns" not in caught.value.hint
    assert "source's primary key" in caught.value.hint


def test_a_null_without_a_union_is_refused() -> None:
    assert texts(pa.array(["a", None]), IN_UNION).to_pylist() == [b"\x02\x02a", b"\x00"]
    for written, values in ((longs, [1, None]), (texts, ["a", None])):
        with pytest.raises(DecodeError, match="its type has no null"):
            written(pa.array(values), ALONE)


def test_the_fingerprint_covers_the_envelope(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(FIELDS)
    monkeypatch.setattr(schemas, "_block", lambda: "string")
    assert fingerprint(FIELDS) != before


def test_schemas_are_named_as_debezium_names_them() -> None:
    fields = avro_fields("shop.orders", [column("id", "bigint unsigned"), column("bestellt am", "datetime(3)")])
    schema = envelope_schema("east.shop.orders", fields, "mysql")
    fastavro.parse_schema(json.loads(text_of(schema)))
    before, after, source = (schema["fields"][n]["type"] for n in (0, 1, 2))

    assert schema["connect.name"] == "east.shop.orders.Envelope"
    assert (before[1]["connect.name"], after) == ("east.shop.orders.Value", ["null", "east.shop.orders.Value"])
    assert source["connect.name"] == "io.debezium.connector.mysql.Source"
    assert before[1]["fields"][:2] == [
        {"name": "id", "default": None,
         "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}]},
        {"name": "bestellt_am", "type": ["null", "string"], "doc": "bestellt am", "default": None},
    ]  # fmt: skip
    other = envelope_schema("t", fields, "kafka")["fields"][2]["type"]
    assert other["namespace"].split(".") == ["databus", "kafka"]
    assert fingerprint(fields) != fingerprint(fields[:1]) != fingerprint(fields[:1], ())
