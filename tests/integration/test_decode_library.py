"""The decoder against python-mysql-replication, a second oracle; what the library is known to get wrong is named."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from databus.binlog.decoding.table_batch import TableBatch
from databus.sandbox import Sandbox
from tests.integration import decode_oracle
from tests.integration.decode_oracle import Column, columns_for
from tests.integration.test_decode_real import Server, create, write

pytestmark = [
    pytest.mark.integration,
    # The library's own call of PyMySQL; not ours to change.
    pytest.mark.filterwarnings("ignore:'(db|passwd)' is deprecated:DeprecationWarning"),
]

FAILS = {
    "varchar_utf16": "read in the wrong byte order",
    "varchar_utf32": "read in the wrong byte order",
    "varchar_euckr": "read without the characters that the server adds to EUC-KR",
}
"""Columns on which the library raises."""

KNOWN_WRONG = {
    "year_": "YEAR 0 comes as 1900",
    "varchar_ucs2": "text comes as bytes",
    "set_": "SET '' comes as NULL",
    "json_": "documents come as Python objects with strings as bytes",
    "enum_": "a member outside ASCII comes as ''",
    "binary_": "BINARY comes without its trailing zero bytes",
    "timestamp_0": "the zero timestamp comes as 1970-01-01",
    "timestamp_2": "the zero timestamp comes as 1970-01-01",
    "timestamp_6": "the zero timestamp comes as 1970-01-01",
    **{f"time_{n}": "the fraction of a negative TIME has the wrong sign" for n in range(1, 7)},
}
"""Columns that the library reads without complaint, and wrongly."""


@pytest.fixture(scope="module")
def server(databases: Sandbox) -> Iterator[Server]:
    server = Server("mysql", databases.address("mysql"))
    server.run("CREATE DATABASE IF NOT EXISTS types CHARACTER SET utf8mb4")
    yield server
    server.connection.close()


def library_images(server: Server, file: str) -> list[tuple[int, dict[str, Any]]]:
    """Return op and values of each row image as the library reads them."""
    connection = server.connection
    stream = BinLogStreamReader(
        {"host": connection.host, "port": connection.port, "user": "root", "password": ""},
        server_id=4711, log_file=file, log_pos=4, resume_stream=True, only_schemas=["types"],
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )  # fmt: skip
    images: list[tuple[int, dict[str, Any]]] = []
    with closing(stream):
        for event in stream:
            for row in event.rows:
                if isinstance(event, UpdateRowsEvent):
                    images += [(1, row["before_values"]), (1, row["after_values"])]
                else:
                    images.append((0 if isinstance(event, WriteRowsEvent) else 2, row["values"]))
    return images


def alike(value: Any, column: Column) -> Any:
    """Bring our value to the library's type."""
    if value is None:
        return None
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if column.ddl.startswith("BIT"):
        return format(value, "b").zfill(int(column.ddl[4:-1]))
    if column.ddl.startswith("DECIMAL"):
        return Decimal(value)
    if column.ddl.startswith("SET"):
        return set(value.split(",")) if value else set()
    return value.decode("latin-1") if value == b"" else value


def test_the_library_reads_the_same(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # The library fails on a day that its month lacks.
    monkeypatch.setattr(decode_oracle, "ZERO_DATES", ("0000-00-00", "2024-00-00", "2024-12-00"))
    columns = tuple(c for c in columns_for("mysql") if c.name not in FAILS)
    create(server, "everything", columns)
    server.new_log()
    write(server, "everything", columns, random.Random(20))
    file = server.run("SHOW BINARY LOGS")[-1][0]
    theirs = library_images(server, file)
    (batch,) = [x for x in server.decode_log() if isinstance(x, TableBatch)]
    ops = [op for op in batch.op.tolist() for _ in range(2 if op == 1 else 1)]
    assert [op for op, _ in theirs] == ops
    wrong: dict[str, Any] = {}
    for number, column in enumerate(columns, start=1):
        exceptions = batch.exceptions.get(number, {})
        for row, ours in enumerate(batch.images.column(number).to_pylist()):
            # The library gives no value for a date that Python has none for.
            expected = None if row in exceptions else alike(ours, column)
            if expected != theirs[row][1][column.name]:
                wrong.setdefault(column.name, (row, expected, theirs[row][1][column.name]))
    assert {name: first for name, first in wrong.items() if name not in KNOWN_WRONG} == {}
    assert wrong.keys() == KNOWN_WRONG.keys()
    assert len(theirs) > 1500


@pytest.mark.parametrize("name", FAILS)
def test_what_the_library_fails_on_it_still_fails_on(server: Server, name: str) -> None:
    columns = tuple(c for c in columns_for("mysql") if c.name == name)
    create(server, "failing", columns)
    server.new_log()
    r = random.Random(21)
    for number in range(40):
        server.run("INSERT INTO types.failing VALUES (%s, %s)", (number, columns[0].make(r)))
    (batch,) = [x for x in server.decode_log() if isinstance(x, TableBatch)]
    assert not batch.exceptions
    assert batch.images.num_rows == 40
    with pytest.raises(UnicodeError):
        library_images(server, server.run("SHOW BINARY LOGS")[-1][0])
