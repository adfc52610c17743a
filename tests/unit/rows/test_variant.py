# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
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
from databus.rows.variant import images as variant
from databus.rows.variant.images import encode, metadata_bytes
from databus.testing.table_batches import Unrepresentable, batch, table

Read = Callable[[Any], Any]

COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "i8": ("tinyint", st.integers(-(2**7), 2**7 - 1)),
    "i64": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "u32": ("int unsigned", st.integers(0, 2**32 - 1)),
    "u64": ("bigint unsigned", st.integers(0, 2**64 - 1)),
    "d9": ("decimal(9,9)", st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(f"{n}e-9"))),
    "d18": ("decimal(18,10)", st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(f"{n}e-10"))),
    "d38": ("decimal(38,30)", st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-30"))),
    "f": ("float", st.floats(width=32, allow_nan=False)),
    "d": ("double", st.floats(allow_nan=False)),
    "текст": ("text", st.text(st.characters(exclude_categories=["Cs"]), max_size=300)),
    "b": ("blob", st.binary(max_size=300)),
}
ROW = st.fixed_dictionaries({}, optional={n: st.none() | values for n, (_, values) in COLUMNS.items()})
SCHEMA = table("shop.t", {n: kind for n, (kind, _) in COLUMNS.items()}, ())


def values_of(b: TableBatch) -> list[Any]:
    return encode(b).take(np.arange(b.images.num_rows, dtype=np.int32)).to_pylist()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, min_size=1, max_size=8))
def test_any_row_comes_back(read: Read, rows: list[dict[str, Any]]) -> None:
    assert [read(v) for v in values_of(batch(SCHEMA, [(None, row) for row in rows]))] == rows


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("date", dt.date(1, 1, 1), "0001-01-01"),
        ("date", dt.date(2000, 2, 29), "2000-02-29"),
        ("date", dt.date(9999, 12, 31), "9999-12-31"),
        ("datetime", dt.datetime(1969, 12, 31, 23, 59, 59), "1969-12-31T23:59:59"),
        ("datetime(1)", dt.datetime(2024, 1, 31, 10, 0, 0, 100_000), "2024-01-31T10:00:00.1"),
        ("datetime(6)", dt.datetime(1000, 1, 1, 0, 0, 0, 1), "1000-01-01T00:00:00.000001"),
        ("timestamp(3)", dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC), "2024-03-10T07:30:00.000Z"),
        ("timestamp", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), "1970-01-01T00:00:01Z"),
        ("time", dt.timedelta(hours=9, minutes=5, seconds=7), "09:05:07"),
        ("time(6)", -dt.timedelta(microseconds=1), "-00:00:00.000001"),
        ("time(6)", dt.timedelta(hours=838, minutes=59, seconds=59), "838:59:59.000000"),
        ("date", Unrepresentable("0000-00-00"), "0000-00-00"),
        ("datetime", Unrepresentable("2024-00-31T00:00:00" + "!" * 60), "2024-00-31T00:00:00" + "!" * 60),
    ],
)
def test_temporals_travel_as_iso_text(read: Read, kind: str, value: Any, text: str) -> None:
    schema = table("shop.t", {"id": "int", "at": kind})
    rows = [(None, {"id": 1, "at": value}), (None, {"id": 2, "at": None}), (None, {"id": 3})]

    assert [read(v) for v in values_of(batch(schema, rows))] == [
        {"id": 1, "at": text},
        {"id": 2, "at": None},
        {"id": 3},
    ]


@given(st.dates(), st.integers(0, 86_399_999_999))
@settings(deadline=None)
def test_every_instant_prints_as_python_does(day: dt.date, micros: int) -> None:
    at = dt.datetime.combine(day, dt.time()) + dt.timedelta(microseconds=micros)
    b = batch(table("shop.t", {"at": "datetime(6)"}, ()), [(None, {"at": at})])

    assert at.isoformat(timespec="microseconds").encode() in values_of(b)[0]["value"]


@pytest.mark.parametrize("count", [1, 255, 256, 300])
def test_wide_tables(read: Read, count: int) -> None:
    row = {f"c{n}": n for n in range(count)}
    schema = table("shop.wide", dict.fromkeys(row, "int"), ())

    assert read(values_of(batch(schema, [(None, row)]))[0]) == row


@pytest.mark.parametrize("length", [62, 63, 64, 240, 250, 300, 65_000, 66_000, 17_000_000 - 500_000])
def test_offsets_widen_with_the_row(read: Read, length: int) -> None:
    schema = table("shop.t", {"id": "int", "body": "text", "z": "int"})
    row = {"id": 1, "body": "x" * length, "z": 2}

    assert read(values_of(batch(schema, [(None, row)]))[0]) == row


def test_more_rows_than_are_written_at_once(read: Read) -> None:
    schema = table("shop.t", {"id": "int", "at": "date"})
    gap = Unrepresentable("2024-02-00")
    rows = [{"id": n, "at": gap if n % 1000 == 0 else None} for n in range(5000)]

    found = [read(v) for v in values_of(batch(schema, [(None, row) for row in rows]))]

    assert found == [{"id": n, "at": "2024-02-00" if n % 1000 == 0 else None} for n in range(5000)]


def test_images_that_are_slices_of_larger_arrays(read: Read) -> None:
    rows = [{"i8": n, "текст": f"t{n}", "u64": None, "d38": Decimal(n), "b": b"", "d": n / 2} for n in range(20)]
    whole = batch(SCHEMA, [(None, row) for row in rows])

    part = replace(whole, images=whole.images.slice(7, 5), presence=whole.presence[7:12])

    assert [read(v) for v in values_of(part)] == rows[7:12]


def test_dictionary_and_large_columns(read: Read) -> None:
    b = batch(
        table("shop.t", {"a": "enum", "b": "text"}, ()), [(None, {"a": "x", "b": "y"}), (None, {"a": None, "b": "é"})]
    )
    columns = [b.images.column(0).dictionary_encode(), b.images.column(1).cast(pa.large_string())]
    same = replace(b, images=pa.RecordBatch.from_arrays(columns, names=["a", "b"]))

    assert [read(v) for v in values_of(same)] == [{"a": "x", "b": "y"}, {"a": None, "b": "é"}]


def test_take_repeats_skips_and_leaves_null(read: Read) -> None:
    schema = table("shop.t", {"id": "int"})
    images = encode(batch(schema, [(None, {"id": n}) for n in range(4)]))

    taken = images.take(np.array([3, -1, 0, 3], np.int32))

    assert [read(v) for v in taken.to_pylist()] == [{"id": 3}, None, {"id": 0}, {"id": 3}]
    assert taken.field("metadata").null_count == 0


def test_an_oversize_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "MAX_VALUE_BYTES", 100)
    with pytest.raises(DecodeError, match=r"a row of shop\.t takes") as raised:
        encode(batch(table("shop.t", {"id": "int", "body": "text"}), [(None, {"id": 1, "body": "x" * 100})]))
    assert raised.value.code == "row_too_large"


def test_an_unknown_arrow_type_is_named() -> None:
    b = batch(table("shop.t", {"id": "int"}), [(None, {"id": 1})])
    odd = replace(b, images=pa.RecordBatch.from_arrays([pa.array([[1]])], names=["id"]))
    with pytest.raises(DecodeError, match=r"column id of shop\.t has the Arrow type list"):
        encode(odd)


def test_metadata_of_one_and_of_many_names() -> None:
    assert metadata_bytes(["a"]) == b"\x01\x01\x00\x01a"
    assert metadata_bytes([f"{n:0300d}" for n in range(2)])[0] == 0b0100_0001
