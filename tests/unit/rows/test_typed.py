"""Typed rows: every type of a table as an Arrow column, from both forms of images; what no column holds is named."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus import rows as public
from databus.binlog.decoding.table_batch import TableBatch
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.ops.decode.row_lines import plain_rows
from databus.rows.emit import emit
from databus.rows.image_form import VARIANT_FORM, ImageForm, json_form
from databus.rows.typed import LostValue, TypedRows, arrow_type, typed_rows, typed_schema
from databus.testing.table_batches import Unrepresentable, batch, table, transactions

FORMS = {"json": json_form({}), "variant": VARIANT_FORM}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any], pa.DataType]] = {
    "i8": ("tinyint", st.integers(-(2**7), 2**7 - 1), pa.int8()),
    "i16": ("smallint", st.integers(-(2**15), 2**15 - 1), pa.int16()),
    "i32": ("int", st.integers(-(2**31), 2**31 - 1), pa.int32()),
    "i64": ("bigint", st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "u32": ("int unsigned", st.integers(0, 2**32 - 1), pa.int64()),
    "u64": ("bigint unsigned", st.integers(0, 2**64 - 1).map(Decimal), pa.decimal128(20, 0)),
    "bit": ("bit(64)", st.integers(0, 2**64 - 1).map(Decimal), pa.decimal128(20, 0)),
    "year": ("year", st.integers(1901, 2155), pa.int32()),
    "d2": ("decimal(12,2)", st.decimals(-9999999999, 9999999999, places=2), pa.decimal128(12, 2)),
    "d9": (
        "decimal(9,9)",
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(f"{n}e-9")),
        pa.decimal128(9, 9),
    ),
    "d0": ("decimal(38,0)", st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), pa.decimal128(38, 0)),
    "f": ("float", st.floats(width=32, allow_nan=False, allow_infinity=False), pa.float32()),
    "d": ("double", st.floats(allow_nan=False, allow_infinity=False), pa.float64()),
    "день": ("date", st.dates(), pa.date32()),
    "at": ("datetime(6)", st.datetimes(), pa.timestamp("us")),
    "zone": (
        "timestamp(6)",
        st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC)),
        pa.timestamp("us", "UTC"),
    ),
    'te"xt\\': ("text", TEXT, pa.string()),
    "json": ("json", TEXT.map(lambda t: json.dumps({"k": t}, ensure_ascii=False)), pa.string()),
    "b": ("blob", st.binary(max_size=50), pa.binary()),
}
SCHEMA = table("shop.t", {name: kind for name, (kind, *_) in COLUMNS.items()}, ())
ROW = st.fixed_dictionaries({}, optional={n: st.none() | values for n, (_, values, _) in COLUMNS.items()})


def typed(changes: TableBatch, form: ImageForm, schema: TableSchema = SCHEMA, **options: Any) -> TypedRows:
    (piece,) = emit(changes, transactions(), "server", form)
    return typed_rows(piece, schema, **options)


def as_stored(image: dict[str, Any]) -> dict[str, Any]:
    """Return an image as the decoder has it: whole numbers of any size as such."""
    whole = {n: int(v) for n, v in image.items() if n in ("u64", "bit") and v is not None}
    return image | whole


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=40)
@given(rows=st.lists(ROW, min_size=1, max_size=6))
def test_every_value_comes_back_as_its_type(form: str, rows: list[dict[str, Any]]) -> None:
    found = typed(batch(SCHEMA, [(None, as_stored(row)) for row in rows]), FORMS[form])

    assert found.values.schema == typed_schema(SCHEMA)
    assert found.lost == ()
    for name, (_, _, kind) in COLUMNS.items():
        column = found.values[name]
        assert column.type == kind
        expected = [row.get(name) for row in rows]
        if name == "f":
            expected = [None if value is None else float(np.float32(value)) for value in expected]
        assert column.to_pylist() == expected
        lacking = [name not in row for row in rows]
        assert found.absent[name].to_pylist() == lacking if any(lacking) else name not in found.absent


@pytest.mark.parametrize("form", FORMS)
def test_text_for_what_arrow_has_no_type_of(form: str) -> None:
    schema = table("shop.t", {"id": "int", "took": "time(2)", "kind": "enum", "big": "text"})
    took = -dt.timedelta(hours=838, minutes=59, seconds=58, milliseconds=990)
    found = typed(batch(schema, [(None, {"id": 1, "took": took, "kind": "a", "big": "x"})]), FORMS[form], schema)
    assert found.values.to_pylist() == [{"id": 1, "took": "-838:59:58.99", "kind": "a", "big": "x"}]
    assert arrow_type(ColumnSchema("n", "decimal(65,30)", "string")) == pa.string()
    assert arrow_type(ColumnSchema("n", "future", "interval day")) == pa.string()
    assert arrow_type(ColumnSchema("n", "boolean", "boolean")) == pa.bool_()


@pytest.mark.parametrize("form", FORMS)
def test_what_a_type_cannot_hold_is_null_and_named(form: str) -> None:
    schema = table("shop.t", {"id": "int", "name": "varchar(10)", "born": "date"})
    changes = batch(
        schema,
        [
            (None, {"id": 1, "name": Unrepresentable(b"\xff\x80"), "born": Unrepresentable("0000-00-00")}),
            (None, {"id": 2, "name": "b", "born": dt.date(2024, 2, 29)}),
        ],
    )
    found = typed(changes, FORMS[form], schema)
    assert found.values.to_pylist() == [
        {"id": 1, "name": None, "born": None},
        {"id": 2, "name": "b", "born": dt.date(2024, 2, 29)},
    ]
    raw = "/4A=" if form == "json" else b"\xff\x80"
    assert found.lost == (
        LostValue(0, "name", "undecodable", raw),
        LostValue(0, "born", "invalid_date", "0000-00-00"),
    )
    assert found.absent == {}


def test_a_value_that_no_flag_names_is_lost_by_its_type() -> None:
    schema = table("shop.t", {"id": "int", "n": "int", "born": "date", "b": "blob", "big": "bigint"})
    (piece,) = emit(
        batch(schema, [(None, {"id": 1, "n": 2, "born": None, "b": b"", "big": 2**40})]),
        transactions(),
        "s",
        FORMS["json"],
    )
    image = {"id": 1, "n": "two", "born": "2024-02-30", "b": "not base64!", "big": 2**63}
    at = piece.schema.get_field_index("after")
    piece = piece.set_column(at, "after", pa.array([json.dumps(image).encode()], pa.binary()))
    found = typed_rows(piece, schema)
    assert found.values.to_pylist() == [{"id": 1, "n": None, "born": None, "b": None, "big": None}]
    assert [(each.column, each.reason, each.value) for each in found.lost] == [
        (name, "type", image[name]) for name in ("n", "born", "b", "big")
    ]


@pytest.mark.parametrize("form", FORMS)
def test_images(form: str) -> None:
    schema = table("shop.t", {"id": "int", "a": "int", "b": "text"})
    changes = batch(schema, [({"id": 1, "a": 5}, {"b": "x"}), ({"id": 2, "a": 6, "b": "old"}, None)])
    row = typed(changes, FORMS[form], schema)
    assert row.values.to_pylist() == [{"id": 1, "a": 5, "b": "x"}, {"id": 2, "a": 6, "b": "old"}]
    assert row.rows["op"].to_pylist() == ["u", "d"]
    after = typed(changes, FORMS[form], schema, image="after")
    assert after.values.to_pylist() == [{"id": None, "a": None, "b": "x"}, {"id": None, "a": None, "b": None}]
    assert after.absent["a"].to_pylist() == [True, True]
    before = typed(changes, FORMS[form], schema, image="before")
    assert before.values.to_pylist() == [{"id": 1, "a": 5, "b": None}, {"id": 2, "a": 6, "b": "old"}]
    assert before.absent["b"].to_pylist() == [True, False]


def test_a_partial_document_is_not_taken_from_the_before_image() -> None:
    schema = table("shop.t", {"id": "int", "doc": "json"})
    (piece,) = emit(batch(schema, [({"id": 1, "doc": "{}"}, {"id": 1})]), transactions(), "s", FORMS["json"])
    at = piece.schema.get_field_index("flags")
    piece = piece.set_column(at, "flags", pa.array([["after.doc:partial"]], pa.list_(pa.string())))
    found = typed_rows(piece, schema)
    assert found.values.to_pylist() == [{"id": 1, "doc": None}]
    assert found.lost == (LostValue(0, "doc", "partial", None),)


def test_rows_of_other_tables_and_renamed_columns() -> None:
    one = table("shop.one", {"id": "int", "name": "varchar(9)"}, schema_id=0)
    two = table("shop.two", {"id": "int"}, schema_id=1)
    pieces = [
        *emit(batch(one, [(None, {"id": 1, "name": Unrepresentable(b"\xff")})]), transactions(), "s", FORMS["json"]),
        *emit(batch(two, [(None, {"id": 7})]), transactions(), "s", FORMS["json"]),
    ]
    mixed = pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
    assert typed_rows(mixed, two).values.to_pylist() == [{"id": 7}]
    none = typed_rows(mixed, table("shop.three", {"id": "int"}, schema_id=2))
    assert none.values.num_rows == none.rows.num_rows == 0

    renamed = table("shop.one", {"id": "int", "label": "varchar(9)"}, schema_id=0)
    columns = {0: [("id", "id"), ("name", "label")]}
    (piece,) = emit(
        batch(one, [(None, {"id": 1, "name": Unrepresentable(b"\xff")})]), transactions(), "s", json_form(columns)
    )
    assert typed_rows(piece, renamed, sources={"label": "name"}).lost == (LostValue(0, "label", "undecodable", "/w=="),)
    assert public.typed_rows is typed_rows


def test_long_decimals_are_printed_with_all_their_digits() -> None:
    schema = table("shop.t", {"id": "int", "n": "decimal(38,10)"})
    long = Decimal("-" + "9" * 28 + "." + "9" * 10)
    (piece,) = emit(batch(schema, [(None, {"id": 1, "n": long})]), transactions(), "server", VARIANT_FORM)
    (row,) = plain_rows(piece)
    assert row["after"]["n"] == long
