"""Shape of a mock source: types, sizes, shares of operations, keys and their skew, phases of the rate."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from databus.core.batching import Batching
from databus.core.errors import ConfigError
from databus.core.positions.offsets import SequenceOffset
from databus.sources.mock.declared import read_columns
from databus.sources.mock.draws import Draw
from databus.sources.mock.log import log_of
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.sources.mock.values import values
from databus.testing.contract.source import SourceContract
from tests.unit.sources.mock_tables import Tables, images
from tests.unit.sources.test_mock import MockSubject

EVERY_TYPE = {
    "i8": "tinyint", "u8": "tinyint unsigned", "i16": "smallint", "u16": "smallint unsigned", "i24": "mediumint",
    "u24": "mediumint unsigned", "i32": "int", "u32": "int unsigned", "i64": "bigint", "u64": "bigint unsigned",
    "f": "float", "d": "double", "n": "decimal(12,2)", "n38": "decimal(38,30)", "b9": "bit(9)", "y": "year",
    "day": "date", "at": "datetime(3)", "zone": "timestamp(6)", "took": "time(2)", "c": "char(5)", "v": "varchar(60)",
    "bin": "binary(4)", "vb": "varbinary(9)", "t": "text", "lt": "longtext", "bl": "mediumblob",
    "e": "enum('a','it''s','ü')", "s": "set('x','y','z')", "j": "json",
}  # fmt: skip
EXPECTED = {
    "u8": ("tinyint unsigned", "smallint", pa.uint8()), "u24": ("mediumint unsigned", "int", pa.uint32()),
    "u64": ("bigint unsigned", "decimal(20,0)", pa.uint64()),
    "n38": ("decimal(38,30)", "decimal(38,30)", pa.decimal128(38, 30)),
    "b9": ("bit(9)", "bigint", pa.uint64()), "y": ("year", "int", pa.int16()), "c": ("char(5)", "string", pa.string()),
    "zone": ("timestamp(6)", "timestamp", pa.timestamp("us", "UTC")), "took": ("time(2)", "string", pa.duration("us")),
    "bin": ("binary(4)", "binary", pa.binary()), "lt": ("longtext", "string", pa.string()),
    "e": ("enum", "string", pa.string()), "s": ("set", "string", pa.string()), "j": ("json", "string", pa.string()),
}  # fmt: skip


class TestContractWithKeys(SourceContract):
    @pytest.fixture
    def subject(self) -> MockSubject:
        tables = ("shop.orders", "shop.items", "shop.notes")
        return MockSubject(
            Mock(rows=203, tables=tables, rows_per_transaction=7, operations=(1, 3, 1), keys=9, skew=1.2, table_skew=1)
        )


class TestContractInPhases(SourceContract):
    @pytest.fixture
    def subject(self) -> MockSubject:
        tables = ("shop.orders", "shop.items")
        return MockSubject(Mock(rows=90, tables=tables, rows_per_transaction=3, phases=((0.5, 6), (1, 0), (0.1, 200))))


class TestContractOfEveryType(SourceContract):
    @pytest.fixture
    def subject(self) -> MockSubject:
        return MockSubject(Mock(rows=80, rows_per_transaction=4, columns=EVERY_TYPE, sizes={"t": 300, "j": 90}))


def test_types_are_those_of_the_decoder() -> None:
    (version,) = log_of(Mock(rows=1, columns=EVERY_TYPE)).tables[0].versions
    told = {c.name: (c.type, c.spark_type) for c in version.schema.columns}
    arrow = {c.name: c.arrow for c in version.columns}
    assert list(told) == ["id", *EVERY_TYPE]
    assert {name: (*told[name], arrow[name]) for name in EXPECTED} == EXPECTED
    bits = np.arange(400, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for column, declared in zip(version.columns, read_columns(EVERY_TYPE), strict=True):
        found = values(declared.type, bits, bits % np.uint64(4) == 0)
        found.validate(full=True)
        assert found.type == column.arrow, column.name
        assert found.null_count == 100
        assert len(found.unique()) > (3 if column.name in ("e", "s") else 5), column.name


def bounds(kind: str, size: int = 0) -> list[Any]:
    declared = read_columns({"x": kind})[1].type
    bits = np.array([0, 2**64 - 1, 2**63, 2**32 - 1, 12345678901234567890], np.uint64)
    found: list[Any] = values(declared, bits, np.zeros(5, np.bool_), size).to_pylist()
    return found


def test_values_are_within_their_type() -> None:
    assert (min(bounds("mediumint")), max(bounds("mediumint unsigned"))) == (-1, 2**24 - 1)
    assert max(bounds("bit(9)")) == 2**9 - 1
    assert all(1901 <= year <= 2155 for year in bounds("year"))
    assert all(abs(took) <= timedelta(hours=838) and took.microseconds % 10_000 == 0 for took in bounds("time(2)"))
    assert all(zone >= datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC) for zone in bounds("timestamp"))
    assert {len(b) for b in bounds("binary(4)")} == {4}
    assert all(len(text) <= 5 for text in bounds("char(5)"))
    assert {len(text) for text in bounds("text", 300)} == {300}
    assert {len(text) for text in bounds("json", 300)} == {300}
    assert all(abs(n) < Decimal(100) for n in bounds("decimal(4,2)"))


@pytest.mark.parametrize("operations", [(6, 3, 1), (1, 0, 0), (1, 9, 1), (3, 7, 2), (5, 0, 5)])
def test_growing_tables_add_up(operations: tuple[int, int, int]) -> None:
    cycles = 30
    found = Tables(Mock(rows=cycles * sum(operations), operations=operations, rows_per_transaction=7))
    assert [found.ops[op] for op in "cud"] == [cycles * n for n in operations]
    assert len(found.rows["shop.orders"]) == cycles * (operations[0] - operations[2])


@pytest.mark.parametrize(("operations", "skew"), [((1, 8, 1), 0.0), ((1, 8, 1), 1.2), ((2, 5, 2), 0.7), ((1, 5, 0), 1)])
def test_keys_come_again_and_add_up(operations: tuple[int, int, int], skew: float) -> None:
    keys, rows = 50, 9_000
    found = Tables(Mock(rows=rows, operations=operations, keys=keys, skew=skew), Batching(max_rows=4_000))
    assert {key for _, key in found.touched} == set(range(keys))
    deletes = operations[2] / sum(operations) * rows
    assert found.ops["d"] == pytest.approx(deletes, rel=0.1, abs=keys)
    assert found.ops["c"] == found.ops["d"] + len(found.rows["shop.orders"])
    if skew:
        shares = [found.touched["shop.orders", key] for key in (0, 9)]
        assert shares[0] / shares[1] == pytest.approx(10**skew, rel=0.15)
    else:
        assert max(found.touched.values()) <= 1.1 * min(found.touched.values())


def test_tables_are_skewed() -> None:
    tables = ("shop.a", "shop.b", "shop.c", "shop.d")
    rows = Counter(row["table"] for _, row in images(Mock(rows=4_000, tables=tables, table_skew=1.0)))
    assert [rows[t] for t in "abcd"] == pytest.approx([1920, 960, 640, 480], rel=0.05)


def test_a_draw_is_known_at_any_place() -> None:
    draw = Draw.skewed(7, 1.0, 40, 3)
    numbers = np.arange(500)
    choice, nth = draw.at(numbers)
    seen: Counter[int] = Counter()
    for number, (one, rank) in enumerate(zip(choice.tolist(), nth.tolist(), strict=True)):
        assert [draw.before(c, number) for c in range(7)] == [seen[c] for c in range(7)]
        assert rank == seen[one]
        seen[one] += 1
    assert draw.place(choice, nth).tolist() == numbers.tolist()


def test_phases_make_bursts_and_pauses() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    spec = Mock(rows=70, rows_per_transaction=5, phases=((2, 10), (3, 0), (1, 15)), since=since)
    source = MockSource(spec)
    expected = [0.5, 1, 1.5, 2, 5 + 1 / 3, 5 + 2 / 3, 6, 6.5, 7, 7.5, 8, 11 + 1 / 3, 11 + 2 / 3, 12]
    for number, seconds in enumerate(expected, 1):
        assert log_of(spec).commit_ms(number) == pytest.approx(since.timestamp() * 1000 + seconds * 1000, abs=1)
    for when, number in [(0.0, 0), (2.0, 3), (2.001, 4), (4.9, 4), (5.4, 5), (6.001, 7), (99, 14)]:
        assert source.offset_at(since + timedelta(seconds=when)) == SequenceOffset(number)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"x": "decimal(39,2)"}}, "38 digits"),
        ({"columns": {"x": "geometry"}}, "unknown type"),
        ({"columns": {"x": "int NOT NULL"}}, "take NULL"),
        ({"columns": {"x": "datetime(7)"}}, "6 fractional digits"),
        ({"columns": {"ID": "int"}}, "key"),
        ({"columns": {"a": "int", "A": "int"}}, "twice"),
        ({"tables": ("a.b", "a.b")}, "twice"),
        ({"sizes": {"x": 4}}, "no column 'x'"),
        ({"sizes": {"weight": 4}}, "no length"),
        ({"columns": {"x": "varchar(9)"}, "sizes": {"x": 10}}, "1 to 9, not 10"),
        ({"columns": {"x": "json"}, "sizes": {"x": 3}}, "24 to"),
        ({"operations": (0, 1, 0)}, "one insert at least"),
        ({"operations": (1, 1, 2)}, "no more deletes"),
        ({"operations": (2, 1, 1), "keys": 5}, "as many deletes as inserts"),
        ({"skew": 1.0}, "give keys="),
        ({"phases": ((1, 0),)}, "has rows"),
        ({"phases": ((0, 5),)}, "seconds > 0"),
        ({"phases": ((1, 5),), "rows_per_second": 1}, "give one of them"),
    ],
)
def test_bad_shapes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Mock(**{"rows": 10} | options)


def test_what_came_later_is_stored_only_where_it_says_something() -> None:
    assert not {"keys", "operations", "faults", "sizes"} & Mock(rows=1).to_json().keys()
    spec = Mock(rows=9, keys=3, operations=(1, 1, 1), sizes={"status": 5}, phases=((1.0, 2.0),))
    stored = {name: value for name, value in spec.to_json().items() if name != "kind"}
    assert Mock.from_stored(stored) == spec
