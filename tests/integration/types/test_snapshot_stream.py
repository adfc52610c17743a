"""Rows of a snapshot's SELECT as they stream: sizes of rows and results, memory, and answers that end before time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import MAX_IMAGES
from databus.binlog.log.tablemap import TableMap
from databus.binlog.server.wire import ServerConnection
from databus.core.errors.source import SourceError, SourceUnavailableError
from databus.sources.mysql.snapshot.logged_table import logged_table
from databus.sources.mysql.snapshot.table_reader import read_table
from tests.integration.test_decode_real import Server
from tests.integration.types.test_snapshot_cells import connection_of, definition_of, read, values_of

pytestmark = pytest.mark.integration

PACKET = 0xFFFFFF


@pytest.fixture
def opened(server: Server) -> Iterator[ServerConnection]:
    opened = ServerConnection(connection_of(server))
    yield opened
    opened.close()


@pytest.fixture
def roomy(server: Server) -> Iterator[Server]:
    """A session that may write values of 64 MB."""
    ((_, before),) = server.run("SHOW GLOBAL VARIABLES LIKE 'max_allowed_packet'")
    server.run(f"SET GLOBAL max_allowed_packet={64 << 20}")
    mine = Server(server.name, f"{server.connection.host}:{server.connection.port}")
    yield mine
    mine.connection.close()
    server.run(f"SET GLOBAL max_allowed_packet={before}")


def numbers(server: Server, table: str, rows: int, body: str = "v VARCHAR(30)", value: str = "CONCAT('v', n)") -> None:
    """Make a table of rows (n, value); the value is an expression of n, "" if computed."""
    names = "n, v" if value else "n"
    server.run("DROP TABLE IF EXISTS cells." + table)
    server.run(f"CREATE TABLE cells.{table} (n INT PRIMARY KEY, {body})")
    server.run("SET SESSION cte_max_recursion_depth=1000000" if server.name == "mysql" else "SELECT 1")
    server.run("SET SESSION max_recursive_iterations=1000000" if server.name == "mariadb" else "SELECT 1")
    server.run(
        f"INSERT INTO cells.{table} ({names}) WITH RECURSIVE s (n) AS "
        f"(SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {rows - 1}) SELECT n{value and ','} {value} FROM s"
    )


def described(server: Server, table: str) -> TableMap:
    return logged_table(definition_of(server, table), server.name)


def test_results_of_every_size(server: Server) -> None:
    rows = 2 * MAX_IMAGES + 5
    numbers(server, "sizes", rows)
    table = described(server, "sizes")
    assert read(server, table, "n < 0") == []
    (one,) = read(server, table, "n = 3")
    assert one.images.to_pylist() == [{"n": 3, "v": "v3"}]
    whole = read(server, table)
    assert [len(b) for b in whole] == [MAX_IMAGES, MAX_IMAGES, 5]
    assert [n for b in whole for n in b.ordinal.tolist()] == list(range(rows))
    found, _ = values_of(whole)
    assert found.column("n").to_pylist() == list(range(rows))
    assert found.column("v").to_pylist() == [f"v{n}" for n in range(rows)]
    assert [len(b) for b in read(server, table, "n < 10", most_images=4)] == [4, 4, 2]


def test_wide_tables_and_rows_of_null(server: Server) -> None:
    body = ",".join(f"c{n} {('INT', 'VARCHAR(20)', 'DATETIME(3)', 'DECIMAL(20,4)')[n % 4]}" for n in range(300))
    server.run("DROP TABLE IF EXISTS cells.wide")
    server.run(f"CREATE TABLE cells.wide (n INT PRIMARY KEY, {body}) ROW_FORMAT=DYNAMIC")
    for number in range(3):
        filled = ",".join(f"c{n}" for n in range(300) if n % 3 == number)
        server.run(f"INSERT INTO cells.wide (n, {filled}) VALUES ({number}{',20240101' * 100})")
    server.run("INSERT INTO cells.wide (n) VALUES (3)")
    (batch,) = read(server, described(server, "wide"))
    empty = [sum(value is None for value in row.values()) for row in batch.images.to_pylist()]
    assert empty == [200, 200, 200, 300]
    assert batch.images.column("c4").to_pylist() == [None, 20240101, None, None]


def test_rows_of_several_packets(roomy: Server) -> None:
    """Around the largest packet, far above it, and with small ones in between."""
    sizes = [5, PACKET - 10, PACKET - 11, PACKET - 9, 17 << 20, 7, 2 * PACKET - 15, 2 * PACKET - 14, 2 * PACKET - 13, 9]
    roomy.run("DROP TABLE IF EXISTS cells.huge")
    roomy.run("CREATE TABLE cells.huge (n INT PRIMARY KEY, b LONGBLOB)")
    for number, size in enumerate(sizes):
        roomy.run(f"INSERT INTO cells.huge VALUES ({number}, REPEAT(CHAR({65 + number}), {size}))")
    batches = read(roomy, described(roomy, "huge"))
    values = [(n, v) for b in batches for n, v in zip(*(c.to_pylist() for c in b.images.columns), strict=True)]
    assert [(n, len(v), v == bytes([65 + n]) * len(v)) for n, v in values] == [
        (n, s, True) for n, s in enumerate(sizes)
    ]


LOBS = int(os.environ.get("DATABUS_TEST_LOBS", "60"))
"""Rows of 4 MB that one result gives."""


def test_memory_holds_a_few_rows(roomy: Server, record_property: Any) -> None:
    """Rows of 4 MB, which the server computes as it reads, in any number: below 64 MB more than an empty result."""
    roomy.run("SET SESSION sql_log_bin = 0")  # the log would hold what is computed
    numbers(
        roomy,
        "lobs",
        LOBS,
        "b LONGBLOB AS (REPEAT(CHAR(65 + n % 26), 3000000)) VIRTUAL, t LONGTEXT AS (REPEAT('é', 500000)) VIRTUAL",
        "",
    )
    argv = [sys.executable, "-m", "tests.integration.types.snapshot_memory", roomy.name, str(roomy.connection.port)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    record_property("peak_mb", found["peak_mb"])
    assert (found["rows"], found["bytes"]) == (LOBS, LOBS * 4_000_000)
    assert 0 < found["peak_mb"] - found["mb_before"] < 64, found
    if LOBS > 60:
        print(found)  # noqa: T201


def test_errors_within_an_answer(server: Server, opened: ServerConnection) -> None:
    """A query and a connection are killed; each is an outage, to be tried again elsewhere."""
    numbers(server, "long_answer", 200_000, "v VARCHAR(200)", "REPEAT('x', 200)")
    table = described(server, "long_answer")
    for kind in ("QUERY", "CONNECTION"):
        mine = ServerConnection(connection_of(server))
        thread = mine.thread_id
        rows = read_table(mine, table, "", table.to_schema(0), most_images=100)
        next(rows)
        server.run(f"KILL {kind} {thread}")
        with pytest.raises(SourceUnavailableError) as caught:
            list(rows)
        assert "reading cells.long_answer" in caught.value.message
        assert not mine._mysql.open


def test_a_caller_that_stops_early(server: Server, opened: ServerConnection) -> None:
    numbers(server, "long_answer", 200_000, "v VARCHAR(200)", "REPEAT('x', 200)")
    table = described(server, "long_answer")
    rows: Any = read_table(opened, table, "", table.to_schema(0), most_images=100)
    next(rows)
    assert opened._mysql.open
    rows.close()
    assert not opened._mysql.open  # what is left of the answer is not taken for another
    with pytest.raises(SourceError):
        opened.query("SELECT 1")


def test_a_table_changed_since_the_view(server: Server, opened: ServerConnection) -> None:
    numbers(server, "altered", 5)
    table = described(server, "altered")
    opened.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    opened.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    server.run("ALTER TABLE cells.altered MODIFY v VARCHAR(31) CHARACTER SET latin1, ALGORITHM=COPY")
    with pytest.raises(SourceError, match="1412"):
        list(read_table(opened, table, "", table.to_schema(0)))


def test_a_column_that_is_another_by_now(server: Server) -> None:
    numbers(server, "replaced", 5)
    table = described(server, "replaced")
    server.run("ALTER TABLE cells.replaced DROP v, ADD v INT")
    with pytest.raises(SourceError, match="column v"):
        read(server, table)
    server.run("ALTER TABLE cells.replaced DROP v")
    with pytest.raises(SourceError, match="1054"):
        read(server, table)


def test_rows_of_a_consistent_view(server: Server, opened: ServerConnection) -> None:
    """The settings that reading needs leave the view as it is, and what a session limits cuts nothing."""
    numbers(server, "seen", 10)
    table = described(server, "seen")
    opened.query("SET SESSION sql_select_limit = 3, sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES'")
    opened.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    server.run("DELETE FROM cells.seen WHERE n < 5")
    for _ in range(2):
        batches = list(read_table(opened, table, 'v <> "v9"', table.to_schema(0)))
        assert values_of(batches)[0].column("n").to_pylist() == list(range(9))


def test_parallel_readers(server: Server) -> None:
    numbers(server, "shared", 50_000)
    table = described(server, "shared")
    found: dict[int, int] = {}

    def run(part: int) -> None:
        found[part] = sum(len(b) for b in read(server, table, f"n % 2 = {part}"))

    threads = [threading.Thread(target=run, args=(part,)) for part in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: 25_000, 1: 25_000}
