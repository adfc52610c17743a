"""Server facts of MySQL or MariaDB and its log: flavor, identity, log files, head, clock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from databus.binlog.server.dump import another_server
from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.errors.source import SourceError, SourceSettingError, SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset, Offset, offset_of

T = TypeVar("T")
Flavor = Literal["mysql", "mariadb"]
HEAD_STATEMENTS = ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS", "SHOW BINLOG STATUS")
"""MySQL 8.2 renamed the statement and 8.4 dropped the old name; MariaDB 10.5 has its own."""

_IDENTITY = ("server_uuid", "server_id")
_FACTS = ("version", "lower_case_table_names", *_IDENTITY)


@dataclass(frozen=True)
class ServerLogFile:
    """Log file of the server.

    Attributes:
        name: file name.
        size_bytes: its length, which is the position after its last event.
    """

    name: str
    size_bytes: int

    @property
    def number(self) -> int:
        """Number of the file."""
        return int(self.name.rpartition(".")[2])


class MysqlServer:
    """Asks a server over one control connection, which is opened when first needed and again after it was lost."""

    def __init__(self, connection: Connection, flavor: Literal["auto", "mysql", "mariadb"] = "auto"):
        self.connection = connection
        self._wanted_flavor = flavor
        self._open: ServerConnection | None = None
        self._facts: dict[str, str] | None = None
        self._head_statement: str | None = None

    @property
    def place(self) -> str:
        """conn_id with host and port, for messages."""
        return f"{self.connection.conn_id} ({self.connection.host or 'localhost'}:{self.connection.port or 3306})"

    @property
    def flavor(self) -> Flavor:
        """Whose server it is, as its version says unless the flow says otherwise."""
        if self._wanted_flavor != "auto":
            return self._wanted_flavor
        return "mariadb" if "mariadb" in self._fact("version").lower() else "mysql"

    @property
    def version(self) -> str:
        """Version in the server's words."""
        return self._fact("version")

    @property
    def identity(self) -> str:
        """`server_uuid` of MySQL, `server_id` of MariaDB in text form."""
        return self._fact("server_uuid" if self.flavor == "mysql" else "server_id")

    @property
    def folds_names(self) -> bool:
        """Return whether names of databases and tables are lower case in row events, and as typed in statements."""
        self._fact("version")  # asks once
        return (self._facts or {}).get("lower_case_table_names", "0") != "0"

    def binlog(self, offset: Offset) -> BinlogOffset:
        """Return an offset as one of a binlog.

        Raises:
            OffsetInvalidError: it is of another kind.
        """
        return offset_of(BinlogOffset, offset, "a binlog", "Reset the flow's checkpoint.", self.place)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement; a connection that an idle timeout closed is opened again once."""
        return self._asking(lambda server: server.query(sql, *values))

    def query_named(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Run a statement and return its rows by lower-case column name; reconnects as `query` does."""
        return self._asking(lambda server: server.query_named(sql, *values))

    def variables(self, *names: str) -> dict[str, str]:
        """Return the global variables of these names that the server knows."""
        return self._asking(lambda server: server.variables(*names))

    def log_files(self) -> list[ServerLogFile]:
        """Return the files of the log, oldest first.

        Raises:
            SourceSettingError: the server writes none.
            SourceAccessError: REPLICATION CLIENT (MariaDB: BINLOG MONITOR) is missing.
        """
        try:
            rows = self.query("SHOW BINARY LOGS")
        except SourceError as error:
            if "1381" in error.message:
                raise self._no_log() from None
            raise
        return [ServerLogFile(str(row[0]), int(row[1])) for row in rows]

    def head(self) -> BinlogOffset:
        """Return the end of the log with the GTIDs executed there.

        Raises:
            SourceSettingError: the server writes no log.
            SourceAccessError: a grant is missing.
        """
        row = self._head_row()
        file, pos = str(row["file"]), int(row["position"])
        gtids = str(row.get("executed_gtid_set") or "").replace("\n", "")
        if self.flavor == "mariadb":
            gtids = self.gtids_at(file, pos)
        return BinlogOffset(file, pos, gtids, self.flavor, self.identity)

    def end_of_log(self) -> BinlogOffset:
        """Return the end of the log by file and position, without GTIDs: those executed lag behind it.

        Raises:
            SourceSettingError, SourceAccessError: as `head`.
        """
        row = self._head_row()
        return BinlogOffset(str(row["file"]), int(row["position"]), "", self.flavor, self.identity)

    def gtids_at(self, file: str, pos: int) -> str:
        """Return MariaDB's GTID position at a place of its log; "" when it does not know."""
        found = self.query("SELECT BINLOG_GTID_POS(%s, %s)", file, pos)[0][0]
        return str(found or "")

    def now(self) -> datetime:
        """Return the server's clock."""
        return datetime.fromtimestamp(float(self.query("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]), UTC)

    def close(self) -> None:
        """Close the control connection; safe to call twice."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _head_row(self) -> dict[str, Any]:
        known = HEAD_STATEMENTS if self._head_statement is None else (self._head_statement,)
        self._head_statement, rows = ask_known(self.query_named, known)
        if not rows:
            raise self._no_log()
        return rows[0]

    def _fact(self, name: str) -> str:
        if self._facts is None:
            self._facts = self.variables(*_FACTS)
        if name not in self._facts:
            raise SourceSettingError(
                f"{self.place}: the server has no variable {name}",
                hint="Check the flavor option: mysql, mariadb or auto.",
            )
        return self._facts[name]

    def _asking(self, ask: Callable[[ServerConnection], T]) -> T:
        if self._open is not None:
            with contextlib.suppress(SourceUnavailableError):
                return ask(self._open)
            self._open.cut()
        self._open = None
        self._open = ServerConnection(self.connection)
        self._check_same_server(self._open)
        return ask(self._open)

    def _check_same_server(self, opened: ServerConnection) -> None:
        """Refuse to go on when the address leads to another server since: what was asked so far was of the former."""
        if self._facts is None:
            return
        former, self._facts = self._facts, opened.variables(*_FACTS)
        for name in _IDENTITY:
            if former.get(name) != self._facts.get(name):
                raise another_server(self.place, former.get(name, "?"), self._facts.get(name, "?"))

    def _no_log(self) -> SourceSettingError:
        return SourceSettingError(
            f"{self.place}: the server writes no binary log",
            hint="Start it with --log-bin (MySQL 8.0 does by default; skip-log-bin turns it off) and a server-id.",
        )


def ask_known(
    ask: Callable[[str], list[dict[str, Any]]], statements: Sequence[str]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the first of some statements that the server knows, and its rows."""
    for name in statements[:-1]:
        try:
            return name, ask(name)
        except SourceError as error:
            if "(MySQL error 1064)" not in error.message:
                raise
    return statements[-1], ask(statements[-1])


def grants_by_scope(rows: list[tuple[Any, ...]]) -> Mapping[str, set[str]]:
    """Read SHOW GRANTS: scope as the server writes it ("*.*", "`shop`.*") → upper-case privileges."""
    found: dict[str, set[str]] = {}
    for (text,) in rows:
        head, on, tail = str(text).partition(" ON ")
        if not on or not head.startswith("GRANT "):
            continue
        scope = tail.split(" TO ", 1)[0].strip()
        found.setdefault(scope, set()).update(p.strip().split("(")[0].strip().upper() for p in head[6:].split(","))
    return found
