"""Places in a server's log, in words: where a dump starts."""

from __future__ import annotations

from typing import Any, Literal

from databus.binlog.log.events import CHECKSUM_BYTES, HEADER_BYTES, MAGIC, EventType, parse_header
from databus.binlog.server.dump import Dump, DumpRequest
from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.errors.source import OffsetInvalidError, SourceError, SourceSettingError

GTID_PREFIX = "gtid:"
_FIRST = len(MAGIC)
_HEAD_STATEMENTS = ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")  # MySQL 8.2 and later; before, and MariaDB
_NO_SUCH_STATEMENT = "(MySQL error 1064)"
_GTID_TYPES = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}


def start_request(connection: Connection, start: str, *, follow: bool, server_id: int) -> DumpRequest:
    """Return the request for a start in words: "earliest", "latest", "FILE:POS", "gtid:SET".

    Raises:
        OffsetInvalidError: the words name no place.
        SourceSettingError: the server writes no log.
        SourceUnavailableError, SourceAccessError: the server cannot be asked.
    """
    server = ServerConnection(connection)
    try:
        version = server.variables("version").get("version", "")
        flavor: Literal["mysql", "mariadb"] = "mariadb" if "mariadb" in version.lower() else "mysql"
        if start.startswith(GTID_PREFIX):
            file, pos = _first_missing(connection, server, flavor, start[len(GTID_PREFIX) :])
        else:
            file, pos = _named(server, start)
    finally:
        server.close()
    return DumpRequest(file, pos, flavor, follow, server_id=server_id)


def _named(server: ServerConnection, start: str) -> tuple[str, int]:
    if start == "earliest":
        return _files(server)[0], _FIRST
    if start == "latest":
        return _head(server)
    file, _, pos = start.rpartition(":")
    if file and pos.isdigit():
        return file, int(pos)
    raise OffsetInvalidError(
        f"start {start!r} names no place", hint='Known: "earliest", "latest", "FILE:POS", "gtid:SET".'
    )


def _files(server: ServerConnection) -> list[str]:
    rows = server.query("SHOW BINARY LOGS")
    if not rows:
        raise SourceSettingError(f"{server.place}: the server writes no binary log", hint="Start it with --log-bin.")
    return [str(row[0]) for row in rows]


def _head(server: ServerConnection) -> tuple[str, int]:
    rows = _head_rows(server)
    if not rows:
        raise SourceSettingError(f"{server.place}: the server writes no binary log", hint="Start it with --log-bin.")
    return str(rows[0][0]), int(rows[0][1])


def _head_rows(server: ServerConnection) -> list[tuple[Any, ...]]:
    for statement in _HEAD_STATEMENTS[:-1]:
        try:
            return server.query(statement)
        except SourceError as error:
            if _NO_SUCH_STATEMENT not in error.message:
                raise
    return server.query(_HEAD_STATEMENTS[-1])


def _first_missing(
    connection: Connection, server: ServerConnection, flavor: Literal["mysql", "mariadb"], gtids: str
) -> tuple[str, int]:
    """Return where the first transaction lies that a set lacks; the head when it lacks none.

    The server leaves the others out of such a dump, so that it cannot be checked for holes: only its start is used.
    """
    file = ""
    with Dump(connection, DumpRequest("", _FIRST, flavor, gtids=gtids)) as dump:
        for batch in dump.batches():
            at = 0
            while at < batch.end:
                header = parse_header(batch.buffer[at : at + HEADER_BYTES].tobytes())
                if header.event_type == EventType.ROTATE and header.log_pos == 0:
                    name = batch.buffer[at + 27 : at + header.size_bytes].tobytes()
                    file = next(f for f in _files(server) if name[: len(f)] == f.encode() and _fits(name, f))
                elif header.event_type in _GTID_TYPES:
                    return file, header.log_pos - header.size_bytes
                at += header.size_bytes
    return _head(server)


def _fits(name: bytes, file: str) -> bool:
    """Return whether a name in a ROTATE event is this file's, which a checksum may follow."""
    return len(name) - len(file.encode()) in (0, CHECKSUM_BYTES)
