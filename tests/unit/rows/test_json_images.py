"""Images as JSON text say what the VARIANT images say; the VARIANT is read by a reader of its own (conftest)."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from databus.rows import json_images
from databus.rows.json_images import ImageColumns
from databus.rows.variant import images as variant
from databus.testing.table_batches import Unrepresentable, batch, table

Read = Callable[[Any], Any]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "i8": ("tinyint", st.integers(-(2**7), 2**7 - 1)),
    "i64": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "u32": ("int unsigned", st.integers(0, 2**32 - 1)),
    "u64": ("bigint unsigned", st.integers(0, 2**64 - 1)),
    "bit": ("bit(64)", st.integers(0, 2**64 - 1)),
    "d2": ("decimal(12,2)", st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(f"{n}e-2"))),
    "d9": ("decimal(9,9)", st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(f"{n}e-9"))),
    "d38": ("decimal(38,30)", st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-30"))),
    "d0": ("decimal(38,0)", st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "f": ("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "d": ("double", st.floats(allow_nan=False, allow_infinity=False)),
    "день": ("date", st.dates() | st.just(Unrepresentable("0000-00-00"))),
    "at": ("datetime(3)", st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "zone": ("timestamp(6)", st.datetimes(dt.datetime(1970, 1, 2), timezones=st.just(dt.UTC))),
    "took": ("time(6)", st.timedeltas(-dt.timedelta(hours=838), dt.timedelta(hours=838))),
    'te"xt\\': ("text", TEXT),
    "json": ("json", TEXT.map(lambda t: json.dumps({"k": t}, ensure_ascii=False))),
    "b": ("blob", st.binary(max_size=200)),
}
ROW = st.fixed_dictionaries({}, optional={n: st.none() | values for n, (_, values) in COLUMNS.items()})
SCHEMA = table("shop.t", {n: kind for n, (kind, _) in COLUMNS.items()}, ())


def texts(b: TableBatch, columns: ImageColumns | None = None) -> list[Any]:
    images = json_images.encode(b, columns or {})
    return images.take(np.arange(b.images.num_rows, dtype=np.int32)).to_pylist()


def loaded(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def as_json(value: Any) -> Any:
    """Return what a VARIANT value is in JSON."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def comparable(name: str, value: Any) -> Any:
    if name in ("f", "d") and value is not None:
        number = float(value)
        return float(np.float32(number)) if name == "f" else number
    return value


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, min_size=1, max_size=8))
def test_any_row_says_what_its_variant_says(read: Read, rows: list[dict[str, Any]]) -> None:
    b = batch(SCHEMA, [(None, row) for row in rows])
    variants = variant.encode(b).take(np.arange(len(rows), dtype=np.int32)).to_pylist()

    for text, encoded in zip(texts(b), variants, strict=True):
        said = {name: as_json(value) for name, value in read(encoded).items()}
        found = loaded(text)
        assert {n: comparable(n, v) for n, v in found.items()} == {n: comparable(n, v) for n, v in said.items()}
        assert all(isinstance(found[n], str) == isinstance(said[n], str) for n in said)


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        ("decimal(12,2)", Decimal("10.50"), "10.50"),
        ("decimal(12,2)", Decimal("-0.07"), "-0.07"),
        ("decimal(30,20)", Decimal("0.00000000000000000001"), "0.00000000000000000001"),
        ("decimal(38,0)", Decimal("-" + "9" * 38), "-" + "9" * 38),
        ("bigint unsigned", 2**64 - 1, "18446744073709551615"),
        ("bigint", -(2**63), "-9223372036854775808"),
        ("double", 1.0, "1.0"),
        ("double", -0.0, "-0.0"),
        ("float", 0.1, "0.1"),
        ("text", 'a"b\\c\n\t\x00\x1fé🚚/', '"a\\"b\\\\c\\n\\t\\u0000\\u001fé🚚/"'),
        ("blob", b"\x00\xff\x80", '"AP+A"'),
        ("time(2)", -dt.timedelta(hours=838, minutes=59, seconds=58, milliseconds=990), '"-838:59:58.99"'),
        ("timestamp(3)", dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC), '"2024-03-10T07:30:00.000Z"'),
        ("date", Unrepresentable("0000-00-00"), '"0000-00-00"'),
    ],
)
def test_literals(kind: str, value: Any, literal: str) -> None:
    b = batch(table("shop.t", {"id": "int", "v": kind}), [(None, {"id": 1, "v": value}), (None, {"v": None})])

    assert texts(b) == [f'{{"id":1,"v":{literal}}}'.encode(), b'{"v":null}']


def test_absent_is_left_out_and_null_is_null() -> None:
    schema = table("shop.t", {"id": "int", "a": "int", "day": "date"})
    gap = Unrepresentable("2024-02-00")
    b = batch(schema, [({"id": 1}, {"a": None}), ({}, {"id": 2, "a": 3, "day": gap})])

    assert texts(b) == [b'{"id":1}', b'{"a":null}', b"{}", b'{"id":2,"a":3,"day":"2024-02-00"}']


def test_chosen_columns_in_their_order_and_under_their_new_names() -> None:
    schema = table("shop.t", {"id": "int", "a": "int", "b": "text"}, schema_id=4)
    b = batch(schema, [(None, {"id": 1, "a": 2, "b": "x"}), (None, {"a": 5})])

    assert texts(b, {4: (("b", "z"), ("id", 'i"d'))}) == [b'{"z":"x","i\\"d":1}', b"{}"]
    assert texts(b, {4: ()}) == [b"{}", b"{}"]
    assert texts(b, {7: ()})[1] == b'{"a":5}'


def test_more_rows_than_are_written_at_once_and_slices() -> None:
    schema = table("shop.t", {"id": "int", "v": "text"})
    whole = batch(schema, [(None, {"id": n, "v": "x" * (n % 50)}) for n in range(5000)])
    part = replace(whole, images=whole.images.slice(1000, 3000), presence=whole.presence[1000:4000])

    assert [loaded(t) for t in texts(part)] == [{"id": n, "v": "x" * (n % 50)} for n in range(1000, 4000)]


def test_take_repeats_skips_and_leaves_null() -> None:
    images = json_images.encode(batch(table("shop.t", {"id": "int"}), [(None, {"id": n}) for n in range(4)]), {})

    assert images.take(np.array([3, -1, 0, 3], np.int32)).to_pylist() == [b'{"id":3}', None, b'{"id":0}', b'{"id":3}']
    assert images.take(np.array([], np.int32)).to_pylist() == []


def test_an_unknown_arrow_type_is_named() -> None:
    b = batch(table("shop.t", {"id": "int"}), [(None, {"id": 1})])
    odd = replace(b, images=pa.RecordBatch.from_arrays([pa.array([[1]])], names=["id"]))
    with pytest.raises(DecodeError, match="column id has the Arrow type list"):
        json_images.encode(odd, {})


def test_an_oversize_row_is_refused_as_in_the_other_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "MAX_VALUE_BYTES", 100)
    schema = table("shop.t", {"id": "int", "body": "text", "b": "blob"})
    texts(batch(schema, [(None, {"id": 1, "body": "x" * 50, "b": b"y" * 30})]))
    with pytest.raises(DecodeError, match=r"a row of shop\.t takes 101 bytes") as raised:
        texts(batch(schema, [(None, {"id": 1, "body": "x" * 51, "b": b"y" * 50})]))
    assert raised.value.code == "row_too_large"
