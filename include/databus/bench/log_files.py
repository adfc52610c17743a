"""Log files that a real server wrote for a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from databus.sandbox import Sandbox
from databus.sandbox.accounts import ROOT


@dataclass(frozen=True)
class WrittenLog:
    """Log file written for a benchmark.

    Attributes:
        path: the file; the server has closed it.
        rows: row changes that were made while it was written.
        server: name of the server in the sandbox.
    """

    path: Path
    rows: int
    server: str


class LogWriter:
    """Makes a server write row changes into log files of their own."""

    def __init__(self, sandbox: Sandbox, server: str) -> None:
        self.server = server
        self.host, port = sandbox.address(server).split(":")
        self.port = int(port)
        self.connection = pymysql.connect(
            host=self.host,
            port=self.port,
            user=ROOT.user,
            password=ROOT.password.get_secret_value(),
            autocommit=True,
            charset="utf8mb4",
        )

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def write(self, work: Callable[[Any], int], *, checksum: bool = True) -> WrittenLog:
        """Let `work` make row changes, in a log file that holds nothing else; it returns how many."""
        self.run(f"SET GLOBAL binlog_checksum = {'CRC32' if checksum else 'NONE'}")  # begins a file if it changes
        self.run("FLUSH BINARY LOGS")
        name = str(self.run("SHOW MASTER STATUS")[0][0])
        rows = work(self.connection)
        self.run("FLUSH BINARY LOGS")
        ((_, base),) = self.run("SHOW VARIABLES LIKE 'log_bin_basename'")
        return WrittenLog(Path(base).with_name(name), rows, self.server)


@contextmanager
def log_writer(sandbox: Sandbox, server: str) -> Iterator[LogWriter]:
    """Connect to a server of the sandbox."""
    writer = LogWriter(sandbox, server)
    try:
        yield writer
    finally:
        writer.run("SET GLOBAL binlog_checksum = CRC32")
        writer.connection.close()
