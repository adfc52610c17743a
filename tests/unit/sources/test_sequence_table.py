"""`SequenceTable` keeps the source contract on SQLite, by `lag_window`; what a table lacks is refused by name."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databus import SequenceTable
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors import (
    ConfigError,
    LateNumberError,
    OffsetInvalidError,
    OffsetPurgedError,
    SequenceTableError,
)
from databus.core.findings import Level
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.sources.sequence_table import numbered_log
from databus.testing.contract import SourceContract
from databus.testing.contract.simple_sink import FixedConnections, context
from databus.testing.contract.source import EVERYTHING, IMPATIENT, rows_of

OUTBOX = """CREATE TABLE outbox (id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL, topic VARCHAR(20), payload TEXT,
    amount DECIMAL(12,2), day DATE, ready BOOLEAN, weight FLOAT)"""
AT = "2024-11-27 12:00:00.250000"


class File:
    """An SQLite file with an outbox."""

    def __init__(self, path: Path, create: str = OUTBOX):
        self.path = path
        self.sql(create)

    def sql(self, *statements: str) -> list[Any]:
        with sqlite3.connect(self.path) as connection:
            found = [connection.execute(statement).fetchall() for statement in statements]
        connection.close()
        return found[-1]

    def insert(self, *numbers: int, at: str = AT) -> None:
        values = ", ".join(f"({n}, '{at}', 't', 'é{n}', 1.10, '2026-01-02', 1, 0.5)" for n in numbers)
        self.sql(f"INSERT INTO outbox VALUES {values}")

    def open(self, flow: str = "orders", **options: Any) -> Any:
        given = {"lag_window": timedelta(milliseconds=1)} | options
        spec = SequenceTable(conn_id="file", table="main.outbox", **given)
        connection = Connection(conn_id="file", conn_type="sqlite", host=str(self.path))
        return spec.open(FixedConnections([connection]), context(flow))

    # --- the contract's subject ---

    begin = SequenceOffset(0)

    def grow(self) -> None:
        (last,) = self.sql("SELECT COALESCE(MAX(id), 0) FROM outbox")[0]
        self.insert(*range(last + 1, last + 121, 2))


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


def test_rows_are_inserts_with_the_types_of_the_table(file: File, opened: Any) -> None:
    file.insert(7)
    plan = opened.plan(SequenceOffset(0), EVERYTHING)
    (row,) = rows_of(opened, plan)
    assert (row["op"], row["database"], row["table"], row["place"]) == ("c", "main", "outbox", 7)
    assert row["event_id"] == "file:sequence_table/file/main.outbox:7:0:0"
    assert plan.watermark == datetime(2024, 11, 27, 12, 0, 0, 250000, tzinfo=UTC)
    (split,) = opened.splits(plan, 4)
    (text,) = split.read_text({})
    assert json.loads(text["after"][0].as_py()) == {
        "id": 7, "created_at": "2024-11-27T12:00:00.250000", "topic": "t", "payload": "é7", "amount": 1.1,
        "day": "2026-01-02", "ready": 1, "weight": 0.5,
    }  # fmt: skip


def test_columns_are_chosen(file: File) -> None:
    file.insert(1)
    source = file.open(columns=("payload", "id"))
    (table,) = source.plan(SequenceOffset(0), EVERYTHING).tables
    assert [column.name for column in table.columns] == ["payload", "id"]
    source.close()


def test_a_row_waits_for_twice_the_lag_window_however_short_a_run_is(file: File) -> None:
    """Its time may be that of its transaction's beginning, and smaller numbers may be taken until that one's end."""
    now = datetime.now(UTC)
    for number, minutes in ((1, 130), (2, 125), (3, 100), (4, 30)):
        file.insert(number, at=f"{now - timedelta(minutes=minutes):%Y-%m-%d %H:%M:%S.%f}")
    source = file.open(lag_window=timedelta(hours=1))
    assert source.plan(SequenceOffset(0), IMPATIENT).range.end == SequenceOffset(2)
    assert source.plan(SequenceOffset(2), IMPATIENT) is None
    assert source.lag(SequenceOffset(2)).seconds > 0
    assert not source.lag(SequenceOffset(2)).caught_up
    source.close()


def test_of_two_clocks_the_earlier_one_counts(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2024, 11, 27, 12, 0, 30, tzinfo=UTC)
    monkeypatch.setattr(numbered_log, "datetime", SimpleNamespace(now=at.astimezone))
    file.insert(1)
    source = file.open(lag_window=timedelta(seconds=15))
    assert source.plan(SequenceOffset(0), IMPATIENT) is None
    monkeypatch.setattr(numbered_log, "datetime", SimpleNamespace(now=(at + timedelta(seconds=1)).astimezone))
    assert source.plan(SequenceOffset(0), IMPATIENT).rows == 1
    source.close()


def test_a_row_that_came_behind_the_place_is_told(file: File, opened: Any) -> None:
    file.insert(1, 2, 4)
    first = opened.plan(SequenceOffset(0), Batching(max_rows=2, max_wait=timedelta(seconds=2)))
    second = opened.plan(first.range.end, EVERYTHING)
    assert (first.range.end, second.range.end) == (SequenceOffset(2), SequenceOffset(4))
    file.insert(3, 5)
    with pytest.raises(LateNumberError, match="1 rows came into") as caught:
        opened.plan(second.range.end, EVERYTHING)
    assert "Rewind the flow to 0" in caught.value.hint
    with pytest.raises(LateNumberError):  # as long as the run goes on
        opened.plan(second.range.end, EVERYTHING)
    again = opened.plan(SequenceOffset(0), Batching(max_rows=4, max_wait=timedelta(seconds=2)))
    assert (again.range.end, again.rows) == (SequenceOffset(4), 4)
    assert opened.plan(again.range.end, EVERYTHING).rows == 1


def test_numbers_that_begin_again_are_refused(file: File, opened: Any) -> None:
    file.insert(1, 2)
    file.sql("DELETE FROM outbox WHERE id = 2")
    for ask in (
        lambda: opened.plan(SequenceOffset(2), IMPATIENT),
        lambda: opened.reopen(OffsetRange(SequenceOffset(0), SequenceOffset(2))),
    ):
        with pytest.raises(OffsetInvalidError, match="has come to 1"):
            ask()
    (finding,) = opened.preflight(SequenceOffset(2))
    assert (finding.level, finding.code) == (Level.ERROR, "source_offset_invalid")


@pytest.mark.parametrize(
    ("create", "said"),
    [
        ("CREATE TABLE other (id INTEGER)", "there is no table main.outbox"),
        ("CREATE TABLE outbox (n INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL)", "has no column id"),
        ("CREATE TABLE outbox (id TEXT PRIMARY KEY NOT NULL, created_at TIMESTAMP NOT NULL)", "no whole number"),
        ("CREATE TABLE outbox (id INTEGER UNIQUE, created_at TIMESTAMP NOT NULL)", "allows NULL in id"),
        ("CREATE TABLE outbox (id INTEGER NOT NULL, created_at TIMESTAMP NOT NULL)", "id without an index"),
        ("CREATE TABLE outbox (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)", "has no column created_at"),
        ("CREATE TABLE outbox (id INTEGER PRIMARY KEY, created_at TIMESTAMP)", "no time, or may be NULL"),
        ("CREATE TABLE outbox (id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL, x BLOB)", "which rows cannot"),
    ],
)
def test_what_a_table_lacks_is_named_with_the_way_out(tmp_path: Path, create: str, said: str) -> None:
    source = File(tmp_path / "bad.db", create).open()
    (finding,) = source.preflight(None)
    assert (finding.level, finding.code) == (Level.ERROR, "source_table_unfit")
    assert said in finding.message
    assert finding.hint
    with pytest.raises(SequenceTableError, match=said):
        source._spec.tables_read()
    source.close()


def test_an_index_that_is_not_unique_is_named(tmp_path: Path) -> None:
    bad = File(tmp_path / "bad.db", "CREATE TABLE outbox (id INTEGER NOT NULL, created_at TIMESTAMP NOT NULL)")
    bad.sql("CREATE INDEX by_id ON outbox (id)")
    (finding,) = bad.open().preflight(None)
    assert "not known to be unique" in finding.message


def test_a_number_below_one_is_named(file: File, opened: Any) -> None:
    file.insert(0, 1)
    (finding,) = opened.preflight(None)
    assert "numbers begin at 1" in finding.message


def test_a_table_that_goes_away_is_named(file: File, opened: Any) -> None:
    file.insert(1)
    plan = opened.plan(SequenceOffset(0), EVERYTHING)
    file.sql("DROP TABLE outbox")
    with pytest.raises(SequenceTableError, match="no such table"):
        rows_of(opened, plan)


def test_a_server_without_a_rule_needs_a_lag_window(file: File) -> None:
    with pytest.raises(ConfigError, match="'sqlite'") as caught:
        file.open(lag_window=None)
    assert "lag_window=timedelta(" in caught.value.hint


def test_a_driver_that_is_not_there_is_named(file: File) -> None:
    spec = SequenceTable(conn_id="odd", table="a.b", lag_window=timedelta(seconds=1))
    source = spec.open(FixedConnections([Connection(conn_id="odd", conn_type="nosuch", password="hush")]), context("f"))
    (finding,) = source.preflight(None)
    assert "'nosuch'" in finding.message
    assert "hush" not in str(finding)


@pytest.mark.parametrize("table", ["outbox", "a.b.c", ".b"])
def test_a_table_is_named_with_its_schema(table: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form"):
        SequenceTable(conn_id="x", table=table)


def test_splits_travel_without_what_is_open(file: File, opened: Any) -> None:
    file.insert(1)
    (split,) = opened.splits(opened.plan(SequenceOffset(0), EVERYTHING), 1)
    copy = pickle.loads(pickle.dumps(split))
    assert [batch.num_rows for batch in copy.read()] == [1]
    assert "hush" not in repr(split)
    assert SequenceTable.login_in_splits


class TestCleaning:
    MARKS = "CREATE TABLE databus_cleaned (log_table TEXT PRIMARY KEY, cleaned_by TEXT NOT NULL, place TEXT NOT NULL)"

    def test_only_what_was_released_is_deleted(self, file: File) -> None:
        file.sql(self.MARKS)
        source = file.open(clean=True)
        file.insert(*range(1, 7))
        first = source.plan(SequenceOffset(0), Batching(max_rows=2, max_wait=timedelta(seconds=2)))
        second = source.plan(first.range.end, Batching(max_rows=2, max_wait=timedelta(seconds=2)))
        source.discard(first)
        assert file.sql("SELECT COUNT(*) FROM outbox") == [(6,)]
        source.release(first)
        source.release(first)
        assert file.sql("SELECT id FROM outbox") == [(3,), (4,), (5,), (6,)]
        assert [row["place"] for row in rows_of(source, source.reopen(second.range))] == [3, 4]
        assert source.earliest_offset() == SequenceOffset(2)
        source.close()

    def test_a_row_that_came_behind_the_place_is_kept_and_told(self, file: File) -> None:
        file.sql(self.MARKS)
        source = file.open(clean=True)
        file.insert(1, 2, 4)
        first = source.plan(SequenceOffset(0), EVERYTHING)
        source.release(first)
        assert file.sql("SELECT id FROM outbox") == []
        file.insert(3, 5)
        with pytest.raises(LateNumberError, match="1 rows came into") as caught:
            source.plan(first.range.end, EVERYTHING)
        assert "new numbers" in caught.value.hint
        source.release(source.reopen(OffsetRange(SequenceOffset(4), SequenceOffset(5))))
        assert file.sql("SELECT id FROM outbox") == [(3,)]
        source.close()

    def test_a_row_that_came_before_the_cleaning_is_kept_and_told(
        self, file: File, caplog: pytest.LogCaptureFixture
    ) -> None:
        file.sql(self.MARKS)
        source = file.open(clean=True)
        file.insert(1, 2, 4)
        first = source.plan(SequenceOffset(0), EVERYTHING)
        file.insert(3)
        source.release(first)
        assert "are not cleaned" in caplog.text
        assert file.sql("SELECT COUNT(*) FROM outbox") == [(4,)]
        file.insert(5)
        with pytest.raises(LateNumberError, match="1 rows came into"):
            source.plan(first.range.end, EVERYTHING)
        source.close()

    def test_batches_that_were_planned_shorter_and_not_cleaned_are_cleaned_with_the_next_one(self, file: File) -> None:
        file.sql(self.MARKS)
        source = file.open(clean=True)
        file.insert(1, 2, 4)
        source.discard(source.plan(SequenceOffset(0), EVERYTHING))
        first = source.plan(SequenceOffset(0), Batching(max_rows=2, max_wait=timedelta(seconds=2)))
        source.release(source.plan(first.range.end, EVERYTHING))
        assert file.sql("SELECT id FROM outbox") == []
        file.insert(3, 6)
        with pytest.raises(LateNumberError):
            source.plan(SequenceOffset(4), EVERYTHING)
        source.close()

    def test_rows_of_which_nothing_is_known_stay(self, file: File) -> None:
        file.sql(self.MARKS)
        file.insert(1, 2, 3)
        source = file.open(clean=True)
        source.release(source.plan(SequenceOffset(2), EVERYTHING))
        assert file.sql("SELECT id FROM outbox") == [(1,), (2,)]
        source.close()

    def test_a_range_that_was_cleaned_is_a_named_gap(self, file: File) -> None:
        file.sql(self.MARKS)
        source = file.open(clean=True)
        file.insert(1, 2)
        plan = source.plan(SequenceOffset(0), EVERYTHING)
        source.release(plan)
        for ask in (lambda: source.reopen(plan.range), lambda: rows_of(source, plan)):
            with pytest.raises(OffsetPurgedError, match="were cleaned up to 2") as caught:
                ask()
            assert caught.value.missing == OffsetRange(SequenceOffset(0), SequenceOffset(2))
        assert source.plan(plan.range.end, IMPATIENT) is None  # all rows are gone, and the numbers were there
        assert source.lag(plan.range.end).caught_up
        source.close()

    def test_without_its_table_nothing_is_deleted_and_preflight_says_which(
        self, file: File, caplog: pytest.LogCaptureFixture
    ) -> None:
        source = file.open(clean=True)
        file.insert(1)
        (finding,) = source.preflight(None)
        assert finding.hint.startswith("CREATE TABLE main.databus_cleaned (log_table")
        source.release(source.plan(SequenceOffset(0), EVERYTHING))
        assert "are not cleaned" in caplog.text
        assert file.sql("SELECT COUNT(*) FROM outbox") == [(1,)]
        file.sql(finding.hint)
        assert source.preflight(None)[0].level is Level.OK
        source.close()

    def test_a_second_flow_is_not_let_clean(self, file: File, caplog: pytest.LogCaptureFixture) -> None:
        file.sql(self.MARKS)
        one, other = file.open(clean=True), file.open("others", clean=True)
        file.insert(1, 2)
        one.release(one.plan(SequenceOffset(0), Batching(max_rows=1, max_wait=timedelta(seconds=2))))
        (finding,) = other.preflight(None)
        assert "are cleaned by contract/orders" in finding.message
        other.release(other.plan(SequenceOffset(1), EVERYTHING))
        assert "are cleaned by contract/orders" in caplog.text
        assert file.sql("SELECT id FROM outbox") == [(2,)]
        one.close()
        other.close()
