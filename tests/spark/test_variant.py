"""The encoder's VARIANTs as Spark itself reads them."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from databus.rows.frames.changes import FrameChanges
from databus.testing.table_batches import Unrepresentable, batch, table

pytestmark = pytest.mark.spark

LONG = "-" + "9" * 28 + "." + "9" * 10
CASES: list[tuple[str, Any, str, Any]] = [
    ("tinyint", -128, "tinyint", -128),
    ("smallint", 32767, "smallint", 32767),
    ("int", -(2**31), "int", -(2**31)),
    ("bigint", -(2**63), "bigint", -(2**63)),
    ("bigint", 2**63 - 1, "bigint", 2**63 - 1),
    ("int unsigned", 2**32 - 1, "bigint", 2**32 - 1),
    ("bigint unsigned", 2**63, "decimal(20,0)", Decimal(2**63)),
    ("bigint unsigned", 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
    ("bigint unsigned", 7, "decimal(20,0)", Decimal(7)),
    ("decimal(9,9)", Decimal("-0.123456789"), "decimal(9,9)", Decimal("-0.123456789")),
    ("decimal(12,2)", Decimal("9999999999.99"), "decimal(12,2)", Decimal("9999999999.99")),
    ("decimal(18,18)", Decimal("0.000000000000000001"), "decimal(18,18)", Decimal("0.000000000000000001")),
    ("decimal(30,20)", Decimal("0.00000000000000000001"), "decimal(30,20)", Decimal("0.00000000000000000001")),
    ("decimal(38,0)", Decimal("9" * 38), "decimal(38,0)", Decimal("9" * 38)),
    ("decimal(38,10)", Decimal(LONG), "decimal(38,10)", Decimal(LONG)),
    ("double", 0.1, "double", 0.1),
    ("double", -5e-324, "double", -5e-324),
    ("float", 1.5, "float", 1.5),
    ("varchar(10)", "", "string", ""),
    ("text", "Заказ №1 🚚 \x00\"'\\", "string", "Заказ №1 🚚 \x00\"'\\"),
    ("text", "x" * 63, "string", "x" * 63),
    ("text", "y" * 70_000, "string", "y" * 70_000),
    ("varchar(10)", Unrepresentable(b"\xff\x80"), "binary", bytearray(b"\xff\x80")),
    ("blob", b"\x00\xff\x80", "binary", bytearray(b"\x00\xff\x80")),
    ("date", dt.date(2024, 2, 29), "date", dt.date(2024, 2, 29)),
    ("date", Unrepresentable("0000-00-00"), "string", "0000-00-00"),
    ("datetime(6)", dt.datetime(1000, 1, 1), "string", "1000-01-01T00:00:00.000000"),
    (
        "datetime(6)",
        dt.datetime(2024, 1, 31, 10, 0, 0, 123456),
        "timestamp_ntz",
        dt.datetime(2024, 1, 31, 10, 0, 0, 123456),
    ),
    ("timestamp(3)", dt.datetime(2024, 1, 31, 10, tzinfo=dt.UTC), "string", "2024-01-31T10:00:00.000Z"),
    ("time(2)", -dt.timedelta(hours=838, minutes=59, seconds=58, milliseconds=990), "string", "-838:59:58.99"),
    ("year", 2024, "int", 2024),
]


def test_every_type_comes_back_exactly(changes_of: Callable[..., FrameChanges]) -> None:
    columns = {"id": "int"} | {f"c{n}": kind for n, (kind, *_) in enumerate(CASES)}
    row = {"id": 1} | {f"c{n}": value for n, (_, value, *_) in enumerate(CASES)}
    rows = changes_of(batch(table("shop.types", columns), [(None, row)])).rows

    found = rows.selectExpr(*[f"variant_get(after, '$.c{n}', '{kind}')" for n, (_, _, kind, _) in enumerate(CASES)])

    for (kind, value, _, expected), got in zip(CASES, found.collect()[0], strict=True):
        assert got == expected, (kind, value)


def test_an_instant_is_the_same_instant_in_any_session_zone(changes_of: Callable[..., FrameChanges]) -> None:
    schema = table("shop.t", {"id": "int", "at": "timestamp(6)"})
    at = dt.datetime(2024, 7, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
    changes = changes_of(batch(schema, [(None, {"id": 1, "at": at})]))

    micros = changes.rows.select(changes.column("at", schema)).selectExpr("unix_micros(*)").collect()[0][0]

    assert micros == int(at.timestamp()) * 1_000_000 + 1


def test_absent_differs_from_null(changes_of: Callable[..., FrameChanges]) -> None:
    schema = table("shop.t", {"id": "int", "a": "int", "b": "int"})
    rows = changes_of(batch(schema, [({"id": 1}, {"a": None})])).rows

    assert rows.selectExpr("to_json(before)", "to_json(after)").collect()[0] == ('{"id":1}', '{"a":null}')


@pytest.mark.parametrize("count", [1, 30, 31, 255, 300])
def test_wide_tables_are_searched_by_spark(changes_of: Callable[..., FrameChanges], count: int) -> None:
    # U+1F69A sorts before U+FFEE in UTF-16, after it in UTF-8.
    names = [f"{'￮🚚'[n % 2]}{n}" for n in range(count)]
    schema = table("shop.wide", {"id": "int"} | dict.fromkeys(names, "int"))
    rows = changes_of(batch(schema, [(None, {"id": -1} | {name: n for n, name in enumerate(names)})])).rows

    found = rows.selectExpr(*[f"variant_get(after, \"$['{name}']\", 'int')" for name in names]).collect()[0]

    assert list(found) == list(range(count))


def test_it_equals_what_spark_parses_from_json(spark: Any, changes_of: Callable[..., FrameChanges]) -> None:
    schema = table("shop.t", {"id": "int", "name": "text", "amount": "decimal(5,2)", "note": "text"})
    row = {"id": 300, "name": "é", "amount": Decimal("1.25"), "note": None}
    rows = changes_of(batch(schema, [(None, row)])).rows
    text = json.dumps(row, default=float)

    ours = rows.selectExpr("to_json(after)", "schema_of_variant(after)").collect()[0]
    theirs = spark.createDataFrame([(text,)], ["j"]).selectExpr(
        "to_json(parse_json(j))", "schema_of_variant(parse_json(j))"
    )

    assert ours == theirs.collect()[0]
