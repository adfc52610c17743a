"""Rows that a snapshot reads per CPU-second of its process, beside PyMySQL's unbuffered cursor in the same session.

`python -m databus.bench.decoding.table_reads --rows 1000000`, from a checkout: it starts servers of its own. The rows
are the 12 columns of `databus.bench.orders`; a reading's time is the least of several.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from databus.bench import orders
from databus.bench.decoding.decode import cpu_seconds
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.processes import fresh_servers
from databus.binlog.schema_history.definition import TableName
from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.errors.batch import ReconciliationError

_STEP = 5_000
_REPEATS = 3


def fill(writer: LogWriter, rows: int) -> int:
    """Make the orders table with about so many rows, past the log; return how many."""
    orders.create(writer.connection)
    writer.run("SET SESSION sql_log_bin = 0")
    filled = 0
    for first in range(1, rows + 1, _STEP):
        filled += orders.insert(writer.connection, first, _STEP)
    writer.run("SET SESSION sql_log_bin = 1")
    return filled


def measure(writer: LogWriter, rows: int, library_rows: int) -> dict[str, float]:
    """Return the figures of one server."""
    from databus.sources.mysql.server import MysqlServer
    from databus.sources.mysql.snapshot.logged_table import logged_table
    from databus.sources.mysql.snapshot.table_reader import read_table
    from databus.sources.mysql.tables.information_schema import MysqlColumns

    filled = fill(writer, rows)
    connection = Connection(conn_id="bench", conn_type="mysql", host=writer.host, port=writer.port, login="root")
    control = MysqlServer(connection)
    table = logged_table(MysqlColumns(control).definitions(["bench"])[TableName("bench", "orders")], control.flavor)
    control.close()
    schema = table.to_schema(0)

    def read(condition: str) -> int:
        opened = ServerConnection(connection)
        found = sum(len(batch) for batch in read_table(opened, table, condition, schema))
        opened.close()
        return found

    read("id < 1000")  # compiles
    seconds, wall = _least(lambda: read(""), filled)
    library, _ = _least(lambda: _by_pymysql(writer, connection, library_rows), library_rows, repeats=1)
    return {
        "rows": filled,
        "rows_per_cpu_second": filled / seconds,
        "rows_per_second": filled / wall,
        "pymysql_rows_per_cpu_second": library_rows / library,
        "ratio_to_pymysql": filled / seconds / (library_rows / library),
    }


def _least(read: Callable[[], int], expected: int, repeats: int = _REPEATS) -> tuple[float, float]:
    """Return the least CPU time and the least time of a reading.

    Raises:
        ReconciliationError: it gives another number of rows.
    """
    cpu, wall = [], []
    for _ in range(repeats):
        found: list[int] = []
        began = time.perf_counter()
        cpu.append(cpu_seconds(lambda found=found: found.append(read())))  # type: ignore[misc]
        wall.append(time.perf_counter() - began)
        if found != [expected]:
            raise ReconciliationError(f"{found[0]} rows were read, {expected} are there")
    return min(cpu), min(wall)


def _by_pymysql(writer: LogWriter, connection: Connection, rows: int) -> int:
    import pymysql
    from pymysql.cursors import SSCursor

    found = 0
    with (
        pymysql.connect(host=writer.host, port=writer.port, user=connection.login, charset="utf8mb4") as opened,
        opened.cursor(SSCursor) as cursor,
    ):
        cursor.execute("SELECT * FROM bench.orders LIMIT %s", (rows,))
        while page := cursor.fetchmany(10_000):
            found += len(page)
    return found


def main(argv: list[str]) -> None:
    """Measure and print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="databus.bench.decoding.table_reads")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--library-rows", type=int, default=100_000)
    parser.add_argument("--servers", nargs="+", default=["mysql"], choices=("mysql", "mariadb"))
    options = parser.parse_args(argv)
    say: Callable[[str], Any] = lambda text: sys.stderr.write(f"{text}\n")  # noqa: E731
    with fresh_servers(options.servers, say, 22_400) as sandbox:
        for server in options.servers:
            say(f"{server} makes {options.rows:,} rows")
            with log_writer(sandbox, server) as writer:
                figures = measure(writer, options.rows, options.library_rows)
            sys.stdout.write(
                json.dumps({"server": server, **{k: float(f"{v:.4g}") for k, v in figures.items()}}) + "\n"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
