"""Two simple sinks: lines of a file, and rows of SQLite with the marker in their transaction."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from databus import SimpleSink
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import SinkFencedError, SinkUnavailableError
from databus.sinks.simple_rows import SimpleRows


class LinesSink(SimpleSink):
    """Rows as lines of a file."""

    kind: ClassVar[str] = "lines"
    path: str

    def ping(self) -> None:
        if not Path(self.path).parent.exists():
            raise SinkUnavailableError(f"no folder of {self.path}", hint="Make it.")

    def write(self, rows: SimpleRows) -> WriteReceipt:
        with Path(self.path).open("a") as file:
            file.writelines(f"{row.to_json()}\n" for row in rows)
        return rows.receipt()

    def lines(self) -> list[dict[str, Any]]:
        """Return all rows that are there."""
        path = Path(self.path)
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class SqliteSink(LinesSink):
    """Rows into SQLite, with the marker in the same transaction."""

    kind: ClassVar[str] = "sqlite"

    def last_marker(self, writer: str) -> str | None:
        with closing(self._open()) as connection:
            return next((row[0] for row in connection.execute("SELECT text FROM m WHERE writer=?", (writer,))), None)

    def write(self, rows: SimpleRows) -> WriteReceipt:
        with closing(self._open()) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            there = connection.execute("SELECT text FROM m WHERE writer=?", (rows.writer,)).fetchone()
            if (there and there[0]) != rows.previous:
                raise SinkFencedError("the marker is another")
            connection.executemany("INSERT INTO r VALUES (?)", ((row.to_json(),) for row in rows))
            connection.execute("INSERT OR REPLACE INTO m VALUES (?, ?)", (rows.writer, rows.marker))
        return rows.receipt()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("CREATE TABLE IF NOT EXISTS r (line TEXT)")
        connection.execute("CREATE TABLE IF NOT EXISTS m (writer TEXT PRIMARY KEY, text TEXT)")
        return connection

    def lines(self) -> list[dict[str, Any]]:
        """Return all rows that are there."""
        with closing(self._open()) as connection:
            return [json.loads(line) for (line,) in connection.execute("SELECT line FROM r ORDER BY rowid")]
