"""Connections to a MySQL or MariaDB server, and what its errors mean.

Wire format: MySQL 8.0 internals manual, "Client/Server Protocol" (handshake and authentication are PyMySQL's).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from databus.core.connections import Connection
from databus.core.errors.config import ConfigError
from databus.core.errors.source import (
    OffsetInvalidError,
    OffsetPurgedError,
    ServerIdTakenError,
    SourceAccessError,
    SourceDivergedError,
    SourceError,
    SourceUnavailableError,
)
from databus.tls import CLIENT_REFUSED, FAILED, TLS_REQUIRED, TlsFault, TlsFiles, fault_of

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0

_ACCESS = {1044, 1045, 1130, 1142, 1143, 1251, 1370, 1698, 1862, 3118}
_PRIVILEGE = {1227}
_UNAVAILABLE = {
    0,
    1040,
    1053,
    1077,
    1152,
    1158,
    1159,
    1160,
    1161,
    1203,
    1205,
    1226,
    1317,
    1927,
    2002,
    2003,
    2006,
    2013,
    2055,
    3169,
}
_DUMP_REFUSED = 1236
_ID_TAKEN = 4052  # MariaDB, ER_SLAVE_SAME_ID
_PURGED_WORDS = ("purged", "could not find first log file name", "could not find gtid state", "could not open log file")
_LOGIN_REFUSED = 1045
_TYPES = ("", "mysql", "mariadb")
"""Types of connections of which an error does not name the type."""

_SECURE_TRANSPORT_REQUIRED = 3159


class ServerConnection:
    """Server connection: queries, and the raw socket for a dump.

    Errors of the server come out as the package's own; the password appears in none of them.
    """

    def __init__(self, connection: Connection):
        """Connect and log in.

        Raises:
            SourceUnavailableError: nobody answers.
            SourceAccessError: the server refuses the login.
            ConfigError: the TLS options in `extra` cannot be used.
        """
        import pymysql

        self.conn_id = connection.conn_id
        self.place = f"{connection.host or 'localhost'}:{connection.port or 3306}"
        try:
            # Replication needs private members of the connection that the type stubs do not know.
            self._mysql: Any = pymysql.connect(
                **client_options(connection),
                user=connection.login or None,
                password=connection.password.get_secret_value(),
                connect_timeout=float(connection.extra.get("connect_timeout", CONNECT_TIMEOUT_S)),
                read_timeout=READ_TIMEOUT_S,
                write_timeout=READ_TIMEOUT_S,
                charset="utf8mb4",
                autocommit=True,
            )
        except (pymysql.err.MySQLError, OSError, RuntimeError) as error:
            raise self._not_connected(error, connection) from None

    @property
    def thread_id(self) -> int:
        """The server's number of this connection, as KILL takes it."""
        return int(self._mysql.thread_id())

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; may block up to READ_TIMEOUT_S."""
        return self._run(lambda cursor: cursor.execute(sql, values or None))[1]

    def query_named(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Run one statement and return its rows by lower-case column name."""
        names, rows = self._run(lambda cursor: cursor.execute(sql, values or None))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def variables(self, *names: str) -> dict[str, str]:
        """Return the global variables of these names that the server knows."""
        marks = ", ".join(["%s"] * len(names))
        rows = self.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", *names)
        return {str(name).lower(): str(value) for name, value in rows}

    def send_command(self, payload: bytes) -> socket.socket:
        """Send one command packet of less than 16 MiB and return the socket its answer comes from."""
        import pymysql

        if len(payload) >= 0xFFFFFF:
            raise SourceError(f"a command of {len(payload)} bytes does not fit into one packet")
        try:
            # PyMySQL has no public way to send a raw command; these two are what its own replication users call.
            self._mysql._write_bytes(len(payload).to_bytes(4, "little") + payload)  # noqa: SLF001
            found: socket.socket = self._mysql._sock  # noqa: SLF001
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._translated(error) from None
        return found

    def close(self) -> None:
        """Say goodbye and close; safe to call twice and on a broken connection."""
        if self._mysql.open:
            try:
                self._mysql.close()
            except Exception:  # noqa: BLE001 - the goodbye packet may meet a dead socket, which is closed then all the same
                self._mysql._force_close()  # noqa: SLF001

    def cut(self) -> None:
        """Close the socket without a word: the answer still under way is not wanted."""
        self._mysql._force_close()  # noqa: SLF001

    def interrupt(self) -> None:
        """End the connection from another thread than the one that uses it: its call fails at once.

        The server learns of it when it next writes to the connection.
        """
        with contextlib.suppress(OSError, AttributeError):  # closed meanwhile
            self._mysql._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001

    def _run(self, execute: Callable[[Any], object]) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        import pymysql

        try:
            with self._mysql.cursor() as cursor:
                execute(cursor)
                names = [str(column[0]).lower() for column in cursor.description or ()]
                return names, list(cursor.fetchall())
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._translated(error) from None

    def _not_connected(self, error: Exception, connection: Connection) -> SourceError | ConfigError:
        """Return the named cause of a connection that did not come about; later, TLS errors are just a lost line."""
        code, text = error_number(error), connection.redacted(error_text(error))
        context = _tls(self.conn_id, connection.extra)
        fault = _tls_fault(text, error, shows_certificate=context is not None and _shows_certificate(connection.extra))
        if fault is not None:
            return SourceAccessError(
                f"{self.conn_id} ({self.place}): {fault.what}: {text}",
                hint=fault.hint.format(ca="ssl_ca", cert="ssl_cert and ssl_key"),
                code=fault.code,
            )
        found = self._translated(error)
        if connection.conn_type not in _TYPES:
            found.message += f"; the connection is of type {connection.conn_type!r}, the source needs 'mysql'"
            found.hint = f"Name another conn_id in the flow, or correct the connection's type. {found.hint}".strip()
        if code == _LOGIN_REFUSED and context is None:
            found.hint += " The account, or the server, may also demand TLS: set ssl_ca in the connection's extra."
        return found

    def _translated(self, error: Exception) -> SourceError | ConfigError:
        code, text = error_number(error), error_text(error)
        return server_error(code, text, f"{self.conn_id} ({self.place})")


def server_error(code: int, text: str, where: str) -> SourceError:
    """Turn an error number and text of the server or of PyMySQL into an error of this package.

    Args:
        code: MySQL error number (Server and Client Error Message Reference); 0 for a lost connection.
        text: the server's words.
        where: connection, and position if one is being read.
    """
    message = f"{where}: {text} (MySQL error {code})"
    if code == _DUMP_REFUSED:
        return _dump_refused(message, text)
    if code == _ID_TAKEN:
        return _server_id_taken(message)
    if code in _ACCESS:
        return SourceAccessError(message, hint="Check login, password and the host the account is for (SHOW GRANTS).")
    if code in _PRIVILEGE:
        return SourceAccessError(
            message,
            hint="GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the account; on MariaDB also BINLOG MONITOR.",
        )
    if code in _UNAVAILABLE:
        return SourceUnavailableError(
            message, hint="Check that the server runs and is reachable from here; then retry."
        )
    return SourceError(message)


def _server_id_taken(message: str) -> ServerIdTakenError:
    return ServerIdTakenError(
        message,
        hint="Another reader took this server id; the next attempt uses another. Keep the ids of replicas and other "
        "tools apart from first_server_id to last_server_id of the ZooKeeper connection.",
    )


def _dump_refused(message: str, text: str) -> SourceError:
    low = text.lower()
    if any(words in low for words in _PURGED_WORDS):
        return OffsetPurgedError(
            message,
            hint="The server deleted this part of its log: decide on a new snapshot, or skip the gap knowingly.",
        )
    if "more gtids than" in low:
        return SourceDivergedError(
            message, hint="The server lacks transactions that were read elsewhere: it is another history."
        )
    if "server_uuid/server_id" in low or "same server" in low:
        return _server_id_taken(message)
    return OffsetInvalidError(
        message,
        hint="The position is not the start of an event of this log; take one from SHOW BINARY LOGS or a checkpoint.",
    )


def error_number(error: Exception) -> int:
    """Return the MySQL error number that an exception of PyMySQL carries, 0 without one."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) and not isinstance(error, OSError) else 0


def error_text(error: Exception) -> str:
    """Return the words of an exception of PyMySQL without the number."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def client_options(connection: Connection) -> dict[str, Any]:
    """Return PyMySQL's arguments that say where the server is and how TLS is done.

    Raises:
        ConfigError: the TLS options in `extra` cannot be used.
    """
    extra = connection.extra
    options: dict[str, Any] = {}
    if extra.get("unix_socket"):
        options["unix_socket"] = str(extra["unix_socket"])
    else:
        options["host"] = connection.host or "localhost"
        options["port"] = connection.port or 3306
    context = _tls(connection.conn_id, extra)
    if context is not None:
        options["ssl"] = context
    else:
        options["ssl_disabled"] = True
    return options


def _tls(conn_id: str, extra: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Build the TLS context that `extra` asks for.

    Keys: ssl_mode (disabled, required, verify_ca, verify_identity; MySQL's words), ssl_ca, ssl_cert, ssl_key,
    ssl_key_password; or Airflow's `ssl` dict with ca, cert, key. A CA without a mode means verify_identity.
    """
    files = {**dict(extra.get("ssl") or {}), **{k[4:]: v for k, v in extra.items() if k.startswith("ssl_")}}
    mode = str(files.get("mode", "verify_identity" if files else "disabled")).lower()
    if mode == "disabled":
        return None
    if mode not in ("required", "verify_ca", "verify_identity"):
        raise ConfigError(
            f"{conn_id}: ssl_mode {mode!r} is not known", hint="Known: disabled, required, verify_ca, verify_identity."
        )
    return TlsFiles(
        ca=str(files.get("ca") or ""),
        certificate=str(files.get("cert") or ""),
        key=str(files.get("key") or ""),
        key_password=str(files.get("key_password") or ""),
        verify=mode != "required",
        check_host=mode == "verify_identity",
    ).context(conn_id)


def _shows_certificate(extra: Mapping[str, Any]) -> bool:
    return bool(extra.get("ssl_cert") or dict(extra.get("ssl") or {}).get("cert"))


def _tls_fault(text: str, error: Exception, *, shows_certificate: bool) -> TlsFault | None:
    """Return the fault behind an error of connecting, None when it is not about TLS."""
    if error_number(error) == _SECURE_TRANSPORT_REQUIRED or "insecure transport" in text:
        return TLS_REQUIRED
    if not isinstance(error, ssl.SSLError) and "SSL" not in text:
        return None
    fault = fault_of(text) or FAILED
    # A server that does not trust the client's certificate may close the connection without an alert.
    return CLIENT_REFUSED if fault is FAILED and shows_certificate else fault
