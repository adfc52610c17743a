"""Database of a sequence table: its engine, made when it is first used, and what errors of its driver mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from databus.core.connections import Connection
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.errors.source import SequenceTableError, SourceAccessError, SourceError, SourceUnavailableError
from databus.core.packages import require

CONNECT_TIMEOUT_S = 10
DRIVERS = {"postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_TLS_OF_POSTGRES = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "application_name",
    "target_session_attrs",
)
_ACCESS = {1044, 1045, 1130, 1142, 1143, 1227, 1370, 1698, "42501", "28000", "28P01", "3D000"}
_GONE = {1049, 1146, "42P01", "3F000"}
_COLUMN = {1054, "42703"}
_BROKEN = {1040, 1053, 1205, 1317, 1927, 2002, 2003, 2006, 2013}
_GONE_WORDS = ("no such table", "does not exist")


@dataclass(eq=False)
class SqlDatabase:
    """Server of a connection. It pickles without what is open; a copy keeps nothing open between two sessions.

    Attributes:
        connection: the connection; not printed.
        table: table that errors name.
        kept: whether connections are kept until `close`.
    """

    connection: Connection = field(repr=False)
    table: str
    kept: bool = True
    _engine: sa.Engine | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.connection, self.table, False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlDatabase) and (self.connection, self.table) == (other.connection, other.table)

    __hash__ = None  # type: ignore[assignment]

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name of the kind of server, e.g. "postgresql"; "mariadb" only where that is the type."""
        return self._driver.partition("+")[0]

    @contextmanager
    def session(self, *, writes: bool = False) -> Iterator[sa.Connection]:
        """Give a connection in which each statement is a transaction, or all are one that is committed at the end.

        Raises:
            SourceUnavailableError: nobody answers, or the line was cut.
            SourceAccessError: the login or a right is refused.
            SequenceTableError: the table or one of its columns is gone.
            SourceError: any other refusal.
        """
        try:
            with self._opened().connect() as session:
                if writes:
                    with session.begin():
                        yield session
                else:
                    yield session.execution_options(isolation_level="AUTOCOMMIT")
        except DatabusError:
            raise
        except sa.exc.SQLAlchemyError as error:
            raise self._named(error) from None

    def close(self) -> None:
        """Close what is open; safe to call twice."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @property
    def _driver(self) -> str:
        return DRIVERS.get(self.connection.conn_type, self.connection.conn_type)

    def _opened(self) -> sa.Engine:
        if self._engine is None:
            if self.connection.conn_type in DRIVERS:
                require((self.connection.conn_type,), f"connection {self.connection.conn_id}")
            try:
                self._engine = self._made()
            except (sa.exc.ArgumentError, ImportError, ValueError) as error:
                raise ConfigError(
                    f"connection {self.connection.conn_id} of type {self.connection.conn_type!r} cannot be used: "
                    f"{self.connection.redacted(str(error))}",
                    hint="Its type is postgres, mysql, or the name of a driver of SQLAlchemy that is installed, e.g. "
                    "mssql+pyodbc.",
                ) from None
        return self._engine

    def _made(self) -> sa.Engine:
        of, extra = self.connection, self.connection.extra
        arguments: dict[str, Any] = {}
        if self.dialect == "mysql":
            from databus.binlog.server.wire import client_options

            arguments = {
                **client_options(of),
                "connect_timeout": CONNECT_TIMEOUT_S,
                "charset": "utf8mb4",
                "init_command": "SET time_zone = '+00:00'",
            }
        elif self.dialect == "postgresql":
            arguments = {name: extra[name] for name in _TLS_OF_POSTGRES if name in extra}
            arguments |= {"connect_timeout": CONNECT_TIMEOUT_S, "options": "-c TimeZone=UTC"}
        url = sa.URL.create(
            self._driver,
            username=of.login or None,
            password=of.password.get_secret_value() or None,
            host=None if self.dialect == "sqlite" else of.host or None,
            port=of.port,
            database=(of.host if self.dialect == "sqlite" else of.db_schema) or None,
        )
        pool = sa.QueuePool if self.kept else sa.NullPool
        return sa.create_engine(url, connect_args=arguments, pool_pre_ping=self.kept, poolclass=pool)

    def _named(self, error: sa.exc.SQLAlchemyError) -> SourceError:
        cause = getattr(error, "orig", None)
        first = next(iter(getattr(cause, "args", ())), None)
        code = first if isinstance(first, int) else getattr(cause, "sqlstate", None)
        text = self.connection.redacted(" ".join(str(cause or error).split()))
        message = f"{self.connection.conn_id}, table {self.table}: {text}"
        if code in _ACCESS or "authentication failed" in text:
            return SourceAccessError(message, hint=f"Correct the login, or GRANT SELECT ON {self.table} to it.")
        if code in _GONE or (code is None and any(words in text for words in _GONE_WORDS)) or "no such table" in text:
            return SequenceTableError(message, hint="Create the table, or correct `table` and the connection's schema.")
        if code in _COLUMN or "no such column" in text:
            return SequenceTableError(message, hint="Correct `number`, `time`, `transaction` or `columns`.")
        lost = isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError)) or code in _BROKEN
        if lost or getattr(error, "connection_invalidated", False):
            return SourceUnavailableError(message, hint="Check that the server runs and is reachable; then retry.")
        return SourceError(message)
