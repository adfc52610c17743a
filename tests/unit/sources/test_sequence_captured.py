"""Rows made of a trigger's images: their types, and images that cannot be a row."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus import SequenceTable
from databus.core.connections import Connection
from databus.core.errors import ConfigError, DecodeError, SequenceTableError
from databus.core.positions.offsets import SequenceOffset
from databus.formats.literals import JsonNumber as Number
from databus.formats.literals import loads_written, written
from databus.sources.sequence_table.captured import CapturedTable, image_value
from databus.sources.simple import Table
from databus.testing.contract import SourceContract
from databus.testing.contract.simple_sink import FixedConnections, context
from databus.testing.contract.source import EVERYTHING, rows_of

COLUMNS = {"id": "bigint", "state": "varchar", "amount": "decimal(12,2)"}
LOG = """CREATE TABLE orders_log (id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL, op CHAR(1) NOT NULL,
    before JSON, after JSON)"""
ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, state VARCHAR(20), amount DECIMAL(12,2))"
AT = "2024-11-27 12:00:00.250000"
DIGITS = "1234567890123456789012345678.0123456789"
NEW = {"id": 1, "state": "new", "amount": 1.5}
PAID = {"id": 1, "state": "paid", "amount": 1.5}


def table(*, grows: bool = True, key: tuple[str, ...] = ("id",)) -> CapturedTable:
    return CapturedTable("public.orders_log", Table("public.orders", COLUMNS, key), grows)


class File:
    """An SQLite file with a table and its log."""

    begin = SequenceOffset(0)

    def __init__(self, path: Path, create: str = ORDERS):
        self.path = path
        self.sql(LOG, create)

    def sql(self, *statements: str, given: tuple[Any, ...] = ()) -> None:
        with sqlite3.connect(self.path) as connection:
            for statement in statements:
                connection.execute(statement, given)
        connection.close()

    def log(self, before: Any, after: Any) -> None:
        images = [None if image is None else json.dumps(image) for image in (before, after)]
        self.sql("INSERT INTO orders_log (created_at, op, before, after) VALUES (?, 'x', ?, ?)", given=(AT, *images))

    def open(self, **options: Any) -> Any:
        spec = SequenceTable(
            conn_id="file", table="main.orders_log", changes_of="main.orders", lag_window=timedelta(milliseconds=1),
            **options,
        )  # fmt: skip
        connection = Connection(conn_id="file", conn_type="sqlite", host=str(self.path))
        return spec.open(FixedConnections([connection]), context("orders"))

    def grow(self) -> None:
        for number in range(40):
            row = {"id": number, "state": "new", "amount": 1}
            self.log(None, row)
            self.log(row, row | {"state": "paid"})
            self.log(row | {"state": "paid"}, None)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "shop.db")


@pytest.fixture
def opened(file: File) -> Iterator[Any]:
    source = file.open()
    yield source
    source.close()


class TestContract(SourceContract):
    counts_lag = False
    knows_times = False

    @pytest.fixture
    def subject(self, file: File) -> File:
        return file


def test_images_are_changes_of_the_table_under_its_key(file: File, opened: Any) -> None:
    file.log(None, NEW)
    file.log(NEW, PAID)
    file.log(PAID, None)
    plan = opened.plan(SequenceOffset(0), EVERYTHING)
    assert [(each.full_name, each.primary_key) for each in plan.tables] == [("main.orders", ("id",))]
    rows = rows_of(opened, plan)
    assert [(row["op"], row["table"], row["place"]) for row in rows] == [
        ("c", "orders", 1), ("u", "orders", 2), ("d", "orders", 3),
    ]  # fmt: skip
    (split,) = opened.splits(plan, 1)
    texts = [row for batch in split.read_text({}) for row in batch.select(["before", "after"]).to_pylist()]
    images = [tuple(text and json.loads(text) for text in (row["before"], row["after"])) for row in texts]
    assert images == [(None, NEW), (NEW, PAID), (PAID, None)]
    assert {row["key"] for row in rows} == {b'{"id":1}'}


def test_columns_are_chosen_and_the_key_is_one_of_them(file: File) -> None:
    file.log(None, NEW)
    source = file.open(columns=("id", "amount"))
    plan = source.plan(SequenceOffset(0), EVERYTHING)
    assert [column.name for column in plan.tables[0].columns] == ["id", "amount"]
    (finding,) = file.open(columns=("amount",)).preflight(None)
    assert "leaves out id, which is of the key of main.orders" in finding.message


@pytest.mark.parametrize(
    ("create", "said"),
    [
        ("CREATE TABLE other (id INTEGER)", "there is no table main.orders"),
        ("CREATE TABLE orders (id BIGINT)", "no primary key"),
        ("CREATE TABLE orders (id BIGINT PRIMARY KEY, photo BLOB)", "photo of main.orders has the type"),
    ],
)
def test_a_table_that_cannot_be_followed_is_named(tmp_path: Path, create: str, said: str) -> None:
    source = File(tmp_path / "bad.db", create).open()
    (finding,) = source.preflight(None)
    assert (finding.code, bool(finding.hint)) == ("source_table_unfit", True)
    assert said in finding.message


def test_a_log_without_images_is_named(file: File) -> None:
    file.sql("ALTER TABLE orders_log DROP COLUMN before")
    (finding,) = file.open().preflight(None)
    assert "has no column before" in finding.message
    assert "databus outbox install" in finding.hint


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("int", "true", 1),
        ("decimal(38,10)", DIGITS, Decimal(DIGITS)),
        ("decimal(20,0)", "18446744073709551615", Decimal(2**64 - 1)),
        ("double", "0.1", 0.1),
        ("double", '"Infinity"', float("inf")),
        ("varchar", '"é\\u0000\\""', 'é\0"'),
        ("varchar", "1.10", "1.10"),
        ("varchar", '{"b": [1.10, null, true], "a": "é"}', '{"b": [1.10, null, true], "a": "é"}'),
        ("date", '"2026-01-02"', date(2026, 1, 2)),
        ("datetime(6)", '"2026-01-02T03:04:05.12+02:00"', datetime.fromisoformat("2026-01-02T01:04:05.120000")),
        ("datetime(6)", '"2026-01-02 03:04:05.000001"', datetime.fromisoformat("2026-01-02T03:04:05.000001")),
        ("datetime(6)", "1767323045.000001", datetime.fromisoformat("2026-01-02T03:04:05.000001")),
        ("varchar", "null", None),
    ],
)  # fmt: skip
def test_values_of_images_have_the_types_of_the_table(kind: str, text: str, value: Any) -> None:
    given = loads_written(text)
    found = image_value(kind, given)
    assert found == value
    assert type(found) is type(value)


def no_text(document: Any) -> bool:
    return not isinstance(document, str)


LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(st.text(), each)).filter(no_text))
def test_a_document_is_the_same_document_as_text(document: Any) -> None:
    text = json.dumps(document, ensure_ascii=False)
    assert written(loads_written(text)) == text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "x"), ("int", {}), ("date", "0000-00-00"), ("datetime(6)", Number("0")), ("datetime(6)", "infinity"),
        ("decimal(12,2)", "NaN"), ("double", True), ("date", Number("5")), ("bigint", Number("1.5")),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named_with_row_and_column(kind: str, value: Any) -> None:
    captured = CapturedTable("public.orders_log", Table("public.orders", {"x": kind}, ()), grows=True)
    with pytest.raises(DecodeError, match=r"row 7 of public.orders_log: .*public.orders has for x") as caught:
        captured.image(written({"x": value}), 7)
    assert "public.orders_log" in caught.value.hint


@pytest.mark.parametrize("text", ["", "[]", "1", '{"id":'])
def test_an_image_that_is_no_object_is_named(text: str) -> None:
    with pytest.raises(DecodeError, match=r"row 7 of public\.orders_log"):
        table().image(text, 7)


def test_a_column_that_was_added_later_is_null_where_images_are_whole() -> None:
    assert table().image('{"id": 1, "state": "new"}', 7) == {"id": 1, "state": "new", "amount": None}
    for refusing, text in (
        (table(grows=False), '{"id": 1, "state": "new"}'),
        (table(), '{"id": 1, "state": "new", "price": 2}'),  # it may be the former name of amount
        (table(), '{"state": "new", "amount": 2}'),
    ):
        with pytest.raises(SequenceTableError, match=r"row 7 of public\.orders_log") as caught:
            refusing.image(text, 7)
        assert "databus outbox install" in caught.value.hint


def test_a_column_that_was_dropped_is_left_out() -> None:
    image = table(grows=False).image('{"id": 1, "state": "new", "amount": 2, "old": 3}', 7)
    assert image == {"id": 1, "state": "new", "amount": Decimal(2)}


def test_a_row_without_images_is_refused(file: File, opened: Any) -> None:
    file.log(None, None)
    with pytest.raises(DecodeError, match="neither a row before nor one after"):
        rows_of(opened, opened.plan(SequenceOffset(0), EVERYTHING))


@pytest.mark.parametrize("changes_of", ["orders", "main.orders_log"])
def test_the_captured_table_is_another_one_named_with_its_schema(changes_of: str) -> None:
    with pytest.raises(ConfigError, match="changes_of"):
        SequenceTable(conn_id="x", table="main.orders_log", changes_of=changes_of)


def test_the_option_is_left_out_of_what_is_stored_where_it_is_not_set() -> None:
    assert "changes_of" not in SequenceTable(conn_id="x", table="a.b").to_json()
    stored = SequenceTable(conn_id="x", table="a.b", changes_of="a.c").to_json()
    assert stored["changes_of"] == "a.c"
