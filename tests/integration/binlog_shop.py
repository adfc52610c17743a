"""A database of one test's own on a MySQL or MariaDB server, and binlog sources that read it."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import COMMAND, ER

from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset
from databus.core.settings import Settings
from databus.sources.mysql.source import MysqlBinlogSource
from databus.sources.mysql.spec import MysqlBinlog
from tests.contract.source_contract import EVERYTHING, Row, changes, rows_of
from tests.integration.statements import drop_database, run_sql

_NUMBERS = itertools.count(1)


def fields(variant: dict[str, bytes] | None) -> dict[str, Any] | None:
    """Return a VARIANT object as Spark reads it."""
    from pyspark.sql.types import VariantVal

    return None if variant is None else json.loads(VariantVal(variant["value"], variant["metadata"]).toJson())


class Connections:
    """One connection under any id."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def get(self, conn_id: str) -> Connection:
        return self._connection


class Shop:
    """A database of one test's own on one server, and sources that read it."""

    def __init__(self, flavor: str, address: str, folder: Path, decoder: str):
        host, port = address.split(":")
        self.flavor, self.folder, self.decoder = flavor, folder, decoder
        self.keep = ""
        self.connection = Connection(conn_id="shop", conn_type="mysql", host=host, port=int(port), login="root")
        self.name = f"s{os.getpid()}_{next(_NUMBERS)}"
        self._sql = self._session()
        self.sql(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.begin = self.open(start="latest").start_offset()
        self._grown = 0

    def reconnect(self) -> None:
        """Go on in a new session."""
        self._sql.close()
        self._sql = self._session()

    def _session(self) -> pymysql.connections.Connection[Any]:
        host, port = self.connection.host, int(self.connection.port or 0)
        return pymysql.connect(host=host, port=port, user="root", autocommit=True, charset="utf8mb4")

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        return run_sql(self._sql, *statements)

    def connect(self) -> pymysql.connections.Connection[Any]:
        """Return one more connection to the database; the caller closes it."""
        return pymysql.connect(
            host=str(self.connection.host), port=int(self.connection.port or 0), user="root", database=self.name,
            charset="utf8mb4",
        )  # fmt: skip

    def send(self, statement: str) -> None:
        """Begin a statement without waiting for it; `receive` waits."""
        self._sql._execute_command(COMMAND.COM_QUERY, statement)  # type: ignore[attr-defined]

    def receive(self) -> None:
        """Wait for the statement that `send` began."""
        self._sql._read_query_result()  # type: ignore[attr-defined]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def transaction(self, *statements: str) -> None:
        self.sql("BEGIN", *statements, "COMMIT")

    def end_xa(self, how: str, xid: str) -> None:
        """Commit or roll back what another session prepared, as soon as the server has let go of that session."""
        deadline = time.monotonic() + 20
        while True:
            try:
                self.sql(f"XA {how} {xid}")
            except pymysql.err.MySQLError as error:
                if error.args[0] != ER.XAER_NOTA or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def open(self, tables: tuple[str, ...] = (), **options: Any) -> MysqlBinlogSource:
        flow, turns = options.pop("flow", self.name), options.pop("dump_turns", None)
        staged = options.pop("staged", "")
        if "start" not in options:
            options.setdefault("snapshot", "never")
        spec = MysqlBinlog(
            conn_id="shop",
            tables=tables or (f"{self.name}.*",),
            decoder=options.pop("decoder", self.decoder),
            **options,
        )
        settings = Settings("test", str(self.folder / "segments"), "", self.keep)
        context = FlowContext(flow, settings, dump_turns=turns, staged=staged)
        source = spec.open(Connections(self.connection), context)
        assert isinstance(source, MysqlBinlogSource)
        return source

    def grow(self) -> None:
        self._grown += 1
        a, b = f"{self.name}.a{self._grown}", f"{self.name}.b{self._grown}"
        self.sql(
            f"CREATE TABLE {a} (id INT PRIMARY KEY, v VARCHAR(20))",
            f"CREATE TABLE {b} (k VARCHAR(9) PRIMARY KEY, n BIGINT)",
        )
        for i in range(20):
            self.transaction(
                f"INSERT INTO {a} VALUES ({i}, 'x{i}')",
                f"INSERT INTO {b} VALUES ('k{i}', {i})",
                f"UPDATE {a} SET v = 'y', id = id + 100 WHERE id = {i}",
                f"DELETE FROM {a} WHERE id = {i - 1 + 100}",
            )
            if i in (5, 11):
                self.sql("FLUSH BINARY LOGS")

    def read(self, after: BinlogOffset | None = None, **options: Any) -> list[Row]:
        source = self.open(**options)
        plan = source.plan(after or self.begin, EVERYTHING)
        assert plan is not None
        rows = rows_of(source, plan)
        assert changes(rows) == plan.rows
        source.release(plan)
        source.close()
        return rows

    def purge_to(self, file: str) -> None:
        """Delete the log files before one."""
        deadline = time.monotonic() + 20
        while self.sql("SHOW BINARY LOGS")[0][0] != file:
            assert time.monotonic() < deadline, file
            self.sql(f"PURGE BINARY LOGS TO '{file}'")  # MariaDB keeps a file until its engines passed a checkpoint

    def dump_threads(self) -> list[int]:
        return [
            int(r[0])
            for r in self.sql("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
        ]

    def drop(self) -> None:
        drop_database(self._sql, self.name)
        self._sql.close()
