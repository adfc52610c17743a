"""The records store: one SQL database through SQLAlchemy, SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from databus.core.errors.batch import RecordingError
from databus.core.errors.config import ConfigError
from databus.core.packages import require
from databus.core.private_files import FILE_MODE, private_folder
from databus.records.database import BOUNDS, BUSY_TIMEOUT_MS, CHECK_IT
from databus.records.schema import is_newest, migrate

MIGRATION_TIMEOUT_MS = 60_000
"""Longest wait for another process that makes or migrates the tables."""

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_BUSY_PAUSE_S = 0.02

_SCHEMA_LOCK = 0x64617461_62757301
"""Key of PostgreSQL's advisory lock under which tables are made and migrated ("databus", 1)."""

_INSERT: Mapping[str, Callable[[sa.Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class RecordStore:
    """An engine whose tables are made or migrated by its first use; threads may share it. Opening it does no I/O.

    Args:
        url: SQLAlchemy URL, e.g. "sqlite:////var/lib/databus/records.db" or "postgresql+psycopg://user:pw@host/db".

    Raises:
        ConfigError: not a URL of SQLite or PostgreSQL.
        PackageMissingError: the driver of PostgreSQL is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = _parsed(url)
        bounds = {
            name: value for name, value in BOUNDS[self.url.get_backend_name()].items() if name not in self.url.query
        }
        self.engine = sa.create_engine(self.url, pool_pre_ping=True, connect_args=bounds)
        if self.sqlite:
            sa.event.listen(self.engine, "connect", _tune_sqlite)
        self._ready = False
        self._lock = threading.Lock()

    @property
    def sqlite(self) -> bool:
        """Return whether the store is an SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    def __repr__(self) -> str:
        return f"RecordStore({self.url.render_as_string(hide_password=True)})"

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Yield a connection in a transaction that commits at the end; the first use makes or migrates the tables.

        Raises:
            RecordingError: the database refused or cannot be reached; nothing was stored.
        """
        try:
            self._ensure_tables()
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise self._translated(error) from error

    def upsert(
        self, table: sa.Table, rows: Sequence[Mapping[str, Any]], key: Sequence[str], update: Sequence[str]
    ) -> Any:
        """Return INSERT … ON CONFLICT (key) DO UPDATE of the columns `update`; DO NOTHING without any.

        Without rows these are given to `execute`: then SQLAlchemy compiles the statement once and not each time.
        """
        statement = _INSERT[self.url.get_backend_name()](table)
        statement = statement.values(list(rows)) if rows else statement
        if not update:
            return statement.on_conflict_do_nothing(index_elements=list(key))
        new = {name: getattr(statement.excluded, name) for name in update}
        return statement.on_conflict_do_update(index_elements=list(key), set_=new)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self.engine.dispose()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ensure_tables(self) -> None:
        with self._lock:
            if self._ready:
                return
            if self.sqlite and self.url.database not in (None, "", ":memory:"):
                try:
                    private_folder(Path(str(self.url.database)).parent)
                    if not str(self.url.database).startswith("file:"):
                        # SQLite gives its journals the mode of the file; one that is there stays as it is.
                        with contextlib.suppress(FileExistsError):
                            new = os.open(str(self.url.database), os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
                            os.close(new)
                except OSError as error:
                    raise RecordingError(
                        f"{self!r}: {error}", hint="Set DATABUS_RECORDS_URL to a folder that can be written."
                    ) from error
            with self.engine.connect() as connection:
                newest = is_newest(connection, repr(self))
            if not newest:
                self._migrate()
            self._ready = True

    def _migrate(self) -> None:
        with self.engine.begin() as connection:
            # Two processes may come first at the same time: one makes or migrates the tables, the other finds them.
            if self.sqlite:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {MIGRATION_TIMEOUT_MS}")
                try:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                finally:
                    connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            else:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {MIGRATION_TIMEOUT_MS}")
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
            migrate(connection, repr(self))

    def _translated(self, error: SQLAlchemyError) -> RecordingError:
        # The statement's parameters hold rows: only the driver's own words go into the message.
        text = str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__
        return RecordingError(
            f"{self!r}: {text.strip()}",
            hint=CHECK_IT,
            retryable=isinstance(error, OperationalError | InterfaceError),
        )


def _parsed(url: str) -> sa.URL:
    known = "sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
    try:
        parsed = sa.make_url(url)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError):
        # The text may hold a password: it is not repeated.
        raise ConfigError("DATABUS_RECORDS_URL is not a SQLAlchemy URL", hint=f"Write {known}.") from None
    backend = parsed.get_backend_name()
    if backend not in _INSERT:
        raise ConfigError(f"DATABUS_RECORDS_URL: records cannot be kept in {backend}", hint=f"Write {known}.")
    if backend != "postgresql":
        return parsed
    require(("postgres",), "DATABUS_RECORDS_URL: the records store in PostgreSQL")
    # SQLAlchemy's default driver for PostgreSQL is another one than ours.
    return parsed.set(drivername="postgresql+psycopg")


def _tune_sqlite(connection: Any, _record: Any) -> None:
    """Let readers and one writer work together, and let writers wait for each other (SQLite, "PRAGMA Statements")."""
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _use_wal(cursor: Any) -> None:
    """Switch a file to write-ahead logging: while others do so, SQLite refuses at once, without its busy timeout."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_PAUSE_S)
