"""Reading the records by plain SQL: a command that looks a few rows up would wait longer for SQLAlchemy to load.

What this cannot open by itself (a URL with more than the plain parts, tables to be made or migrated) it leaves to
`RecordStore`, and goes on with its connection.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

from databus.core.errors.batch import RecordingError
from databus.records.database import (
    BOUNDS,
    BUSY_TIMEOUT_MS,
    CHECK_IT,
    SCHEMA_TABLE,
    SCHEMA_VERSION,
    VERSION_TABLE,
    revision,
)

Select = Callable[..., list[dict[str, Any]]]
"""Takes a statement with :name for each of its values, and the values by name; returns the rows."""

_SQLITE = re.compile(r"sqlite:///(?P<path>[^?#:]+)")
_POSTGRESQL = re.compile(
    r"postgresql(?:\+psycopg)?(?P<rest>://[\w.%-]+(?::(?P<password>[\w.~%!*-]*))?@[\w.-]+(?::\d+)?/[\w.%-]+"
    r"(?:\?(?!host=|.*&host=)[\w.=&%/-]*)?)"
)
"""URLs that SQLAlchemy and libpq read alike."""

_PASSWORD = re.compile(r"(?<!^)(?<=[^/]):(?!//).*@")
_VALUE = re.compile(r":(\w+)")
_SNAPSHOT = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}


class RecordReader:
    """Reads a records store; for one thread. Opening it does no I/O.

    Args:
        url: as `RecordStore` takes it. Tables that are missing or old are made or migrated by the first use.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = ExitStack()
        self._connection: Any = None
        self._kind = "sqlite"

    def __repr__(self) -> str:
        return f"RecordReader({_PASSWORD.sub(':***@', self._url)})"

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._connection = None
        self._stack.close()

    @contextmanager
    def snapshot(self) -> Iterator[Select]:
        """Yield what reads rows, all as they stood at the first read.

        Raises:
            ConfigError: not a URL of SQLite or PostgreSQL.
            RecordingError: the database refused, cannot be reached, or is newer than this code.
        """
        if self._connection is None:
            self._open()
        self._run(_SNAPSHOT[self._kind])
        try:
            yield self._select
        finally:
            self._run("COMMIT")

    def _select(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        cursor = self._run(statement, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _run(self, statement: str, values: dict[str, Any] | None = None) -> Any:
        if self._kind == "postgresql":
            statement = _VALUE.sub(r"%(\1)s", statement)
        try:
            return self._connection.execute(statement, values or {})
        except self._refusals() as error:
            away = type(error).__name__ in {"OperationalError", "InterfaceError"}
            raise RecordingError(f"{self!r}: {str(error).strip()}", hint=CHECK_IT, retryable=away) from error

    def _refusals(self) -> tuple[type[Exception], ...]:
        if self._kind == "sqlite":
            return (sqlite3.Error,)
        import psycopg

        return (psycopg.Error,)

    def _open(self) -> None:
        connection = self._plain()
        if connection is not None and self._is_newest(connection):
            self._connection = self._stack.enter_context(_closing(connection))
            return
        if connection is not None:
            connection.close()
        # Slower, rare, and with errors that say what to do.
        from databus.records.store import RecordStore

        store = self._stack.enter_context(RecordStore(self._url))
        with store.transaction():
            pass
        lent = self._stack.enter_context(_closing(store.engine.raw_connection()))
        self._kind = "sqlite" if store.sqlite else "postgresql"
        self._connection = lent.driver_connection
        if store.sqlite:
            self._connection.isolation_level = None
        else:
            self._connection.autocommit = True

    def _plain(self) -> Any:
        """Return a connection; None where the URL is not a plain one or nobody answers."""
        if match := _SQLITE.fullmatch(self._url):
            self._kind = "sqlite"
            try:
                return sqlite3.connect(match["path"], timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)
            except sqlite3.Error:
                return None
        if match := _POSTGRESQL.fullmatch(self._url):
            self._kind = "postgresql"
            import psycopg

            bounds = {name: value for name, value in BOUNDS["postgresql"].items() if f"{name}=" not in match["rest"]}
            try:
                return psycopg.connect(f"postgresql{match['rest']}", autocommit=True, **bounds)
            except psycopg.Error:
                return None
        return None

    def _is_newest(self, connection: Any) -> bool:
        try:
            revisions = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall()  # noqa: S608 - constants
            versions = connection.execute(f"SELECT max(version) FROM {SCHEMA_TABLE}").fetchall()  # noqa: S608
        except self._refusals():
            return False
        return bool(revisions == [(revision(SCHEMA_VERSION),)] and versions == [(SCHEMA_VERSION,)])


@contextmanager
def _closing(connection: Any) -> Iterator[Any]:
    try:
        yield connection
    finally:
        connection.close()


def json_of(value: Any) -> Any:
    """Return what a JSON column holds: text on SQLite, read already by PostgreSQL's driver."""
    return json.loads(value) if isinstance(value, str) else value


def time_of(value: Any) -> datetime | None:
    """Return an aware UTC time: text without a zone on SQLite, a time of the session's zone on PostgreSQL."""
    stored = datetime.fromisoformat(value) if isinstance(value, str) else value
    if stored is None:
        return None
    return stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored.astimezone(UTC)
