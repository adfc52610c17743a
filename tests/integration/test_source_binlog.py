"""The binlog source on real servers: the contract for both decoders, and what only a server's log can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from databus.core.errors import (
    DecodeError,
    SchemaUnknownError,
)
from databus.testing.contract.source import IMPATIENT, SourceContract, changes
from tests.integration.binlog_shop import Shop, fields

pytestmark = pytest.mark.integration


class TestNumbaContract(SourceContract):
    @pytest.fixture
    def subject(self, make_shop: Callable[[str, str], Shop], flavor: str) -> Shop:
        return make_shop(flavor, "numba")


class TestLibraryContract(SourceContract):
    @pytest.fixture
    def subject(self, make_shop: Callable[[str, str], Shop], flavor: str) -> Shop:
        return make_shop(flavor, "library")


@pytest.fixture(params=["numba", "library"])
def either(make_shop: Callable[[str, str], Shop], flavor: str, request: pytest.FixtureRequest) -> Shop:
    return make_shop(flavor, request.param)


def test_images_keys_and_order(either: Shop) -> None:
    shop = either
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARCHAR(9), n INT UNSIGNED)")
    shop.sql(f"CREATE TABLE {shop.name}.u (id INT, w INT)")
    shop.transaction(
        f"INSERT INTO {shop.name}.t VALUES (1, 'a', 4000000000), (2, NULL, 2)",
        f"INSERT INTO {shop.name}.u VALUES (7, 7)",
        f"UPDATE {shop.name}.t SET v = 'é' WHERE id = 1",
        f"UPDATE {shop.name}.t SET id = 3 WHERE id = 2",
        f"DELETE FROM {shop.name}.t WHERE id = 1",
    )
    rows = [r for r in shop.read() if r["op"] != "m"]
    got = [
        (r["op"], r["table"], r["ordinal"], r["part"], r["key"], fields(r["before"]), fields(r["after"])) for r in rows
    ]
    one, accented = {"id": 1, "v": "a", "n": 4000000000}, {"id": 1, "v": "é", "n": 4000000000}
    assert got == [
        ("c", "t", 0, 0, b'{"id":1}', None, one),
        ("c", "t", 1, 0, b'{"id":2}', None, {"id": 2, "v": None, "n": 2}),
        ("c", "u", 2, 0, None, None, {"id": 7, "w": 7}),
        ("u", "t", 3, 0, b'{"id":1}', one, accented),
        ("d", "t", 4, 0, b'{"id":2}', {"id": 2, "v": None, "n": 2}, None),
        ("c", "t", 4, 1, b'{"id":3}', None, {"id": 3, "v": None, "n": 2}),
        ("d", "t", 5, 0, b'{"id":1}', accented, None),
    ]


def test_definitions_come_in_order_and_rows_have_the_columns_of_their_time(either: Shop) -> None:
    shop = either
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))", f"INSERT INTO {table} VALUES (1, 'a')")
    shop.sql(f"ALTER TABLE {table} ADD COLUMN n INT DEFAULT 5", f"INSERT INTO {table} VALUES (2, 'b', 6)")
    shop.sql(f"ALTER TABLE {table} DROP COLUMN v", f"UPDATE {table} SET n = 7 WHERE id = 1", f"TRUNCATE TABLE {table}")
    rows = shop.read()
    got = [
        (r["op"], r["statement"] and r["statement"].split()[0].upper(), fields(r["before"]), fields(r["after"]))
        for r in rows
    ]
    assert got == [
        ("m", "CREATE", None, None),
        ("c", None, None, {"id": 1, "v": "a"}),
        ("m", "ALTER", None, None),
        ("c", None, None, {"id": 2, "v": "b", "n": 6}),
        ("m", "ALTER", None, None),
        ("u", None, {"id": 1, "n": 5}, {"id": 1, "n": 7}),
        ("t", "TRUNCATE", None, None),
    ]
    assert [r["schema_id"] for r in rows] == [-1, 0, -1, 1, -1, 2, -1]
    assert {(r["database"], r["table"]) for r in rows} == {(shop.name, "t")}


def test_absent_is_not_null(either: Shop) -> None:
    shop = either
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT)", "SET SESSION binlog_row_image = 'MINIMAL'")
    shop.sql(
        f"INSERT INTO {table} VALUES (1, 2, NULL)", f"UPDATE {table} SET a = NULL WHERE id = 1", f"DELETE FROM {table}"
    )
    for decoder in ("numba", "library"):
        rows = [r for r in shop.read(decoder=decoder) if r["op"] != "m"]
        assert [(r["op"], r["key"], fields(r["before"]), fields(r["after"]), r["absent"]) for r in rows] == [
            ("c", b'{"id":1}', None, {"id": 1, "a": 2, "b": None}, None),
            ("u", b'{"id":1}', {"id": 1}, {"a": None}, ["id", "b"]),
            ("d", b'{"id":1}', {"id": 1}, None, None),
        ]


def test_a_full_image_lacks_no_column(either: Shop) -> None:
    """Generated columns too, and those that neither image of an update names."""
    shop = either
    table = f"{shop.name}.t"
    shop.sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED, t TEXT,"
        " n INT NOT NULL DEFAULT 7, INDEX (v))",
        f"INSERT INTO {table} (id, a) VALUES (1, 2)",
        f"UPDATE {table} SET a = 3",
    )
    rows = [r for r in shop.read() if r["op"] != "m"]
    assert [(fields(r["after"]), r["absent"]) for r in rows] == [
        ({"id": 1, "a": 2, "v": 3, "s": 4, "t": None, "n": 7}, None),
        ({"id": 1, "a": 3, "v": 4, "s": 5, "t": None, "n": 7}, None),
    ]


def test_both_decoders_agree_on_every_type(shop: Shop) -> None:
    table = f"{shop.name}.t"
    document = ", j JSON" if shop.flavor == "mysql" else ""
    shop.sql(
        f"CREATE TABLE {table} (id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b SMALLINT "
        "UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT,"
        " f FLOAT, g DOUBLE, h DECIMAL(12,2), i DECIMAL(50,5), k CHAR(10), l VARCHAR(300), m "
        "TEXT, n BINARY(6), o VARBINARY(10), p BLOB,"
        " q DATE, r DATETIME(3), s TIMESTAMP(6) NULL, t TIME(2), u TIME, v YEAR, w "
        "ENUM('x','y'), x SET('a','b','c'), y BIT(12),"
        f" z VARCHAR(20) CHARACTER SET latin1{document})"
    )
    value = """, '{"a": [1, 2, "x"], "b": null}'""" if document else ""
    for number in (0, 1, 2**64 - 1):
        shop.sql(
            f"INSERT INTO {table} VALUES ({number}, -5, 65535, -70000, 4000000000, -9000000000, 1.5, 2.25, -12.34,"
            " 123456789012345678901234567890.12345, 'ch', 'vär', 'txt', 'ab', x'00ff', "
            "x'0102', '2024-02-29', '2024-01-02 03:04:05.678',"
            f" '2024-01-02 03:04:05.123456', '12:34:56.78', '-01:02:03', 2024, 'y', 'a,c', b'101010101010', 'é'{value})"
        )
    shop.sql(f"UPDATE {table} SET a = NULL, x = '', h = 99 WHERE id = 1", f"DELETE FROM {table} WHERE id = 0")
    assert shop.read(decoder="library") == shop.read(decoder="numba")


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        ("TIME(1)", "'-00:00:00.5'", "negative TIME"),
        ("YEAR", "0", "YEAR 0000"),
        ("DATE", "'0000-00-00'", "impossible date"),
    ],
)
def test_library_refuses_what_it_gets_wrong(shop: Shop, column: str, value: str, named: str) -> None:
    shop.sql("SET SESSION sql_mode = ''", f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, bad {column})")
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (1, {value})")
    assert changes(shop.read(decoder="numba")) == 1
    with pytest.raises(DecodeError, match=rf"{shop.name}\.t\.bad .*{named}"):
        shop.read(decoder="library")


def test_an_event_over_16_mib_comes_whole(either: Shop) -> None:
    shop, half = either, 9 << 20
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v LONGBLOB)",
        f"INSERT INTO {shop.name}.t VALUES (1, REPEAT('x', {half}))",
    )
    shop.sql(f"UPDATE {shop.name}.t SET v = REPEAT('y', {half})", f"INSERT INTO {shop.name}.t VALUES (2, 'z')")
    rows = [r for r in shop.read() if r["op"] != "m"]
    assert [r["op"] for r in rows] == ["c", "u", "c"]
    before, after = rows[1]["before"]["value"], rows[1]["after"]["value"]
    assert (before.count(b"x" * 1024), after.count(b"y" * 1024)) == (half >> 10, half >> 10)


@contextmanager
def undescribed(shop: Shop) -> Iterator[None]:
    """The server logs rows without their columns' names."""
    before = shop.sql("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    shop.sql("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        yield
    finally:
        shop.sql(f"SET GLOBAL binlog_row_metadata = '{before}'")


def test_rows_without_column_names_have_those_of_their_definition(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, big BIGINT UNSIGNED)")
    begin = shop.open().latest_offset()
    with undescribed(shop):
        shop.sql(f"INSERT INTO {shop.name}.t VALUES (1, 1 << 63)")
    (row,) = shop.read(begin)
    assert (row["key"], fields(row["after"])) == (b'{"id":1}', {"id": 1, "big": 1 << 63})


def test_rows_whose_definition_cannot_be_told_stop_with_their_position(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    begin = shop.open().latest_offset()
    with undescribed(shop):
        shop.sql(f"INSERT INTO {shop.name}.t VALUES (1)")
    shop.sql(f"ALTER TABLE {shop.name}.t RENAME COLUMN id TO other")
    changed = shop.open().latest_offset()
    with pytest.raises(SchemaUnknownError, match=f"rows of {shop.name}.t are logged as") as caught:
        shop.open().plan(begin, IMPATIENT)
    assert f"RENAME COLUMN id TO other (at {changed})" in caught.value.message
    assert "binlog_row_metadata=FULL" in caught.value.hint
    assert shop.open(start=str(changed)).start_offset().pos == changed.pos
