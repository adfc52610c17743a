"""The dump of a server's log: requested once, received in bulk, handed on as whole events.

Wire format: MySQL 8.0 source documentation, "COM_BINLOG_DUMP", "COM_BINLOG_DUMP_GTID"; MariaDB Knowledge Base,
"COM_BINLOG_DUMP" and "Replica Registration" (@mariadb_slave_capability 4 = understands GTID events,
@slave_connect_state = GTID position to start after).
"""

from __future__ import annotations

import contextlib
import secrets
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels.framing import (
    BAD_STATUS,
    END_OF_LOG,
    F_COUNT,
    F_PACKET,
    F_READ,
    F_WRITTEN,
    FULL,
    NEXT_FILE,
    SERVER_ERROR,
    last_boundary,
    unframe,
)
from databus.binlog.log.events import HEADER_BYTES, MAGIC
from databus.binlog.log.mapped import IN_MEMORY_BYTES, release, spooled
from databus.binlog.log.transactions.gtid_codec import encode_gtid_set
from databus.binlog.server.wire import READ_TIMEOUT_S, ServerConnection, server_error
from databus.core.connections import Connection
from databus.core.errors.source import OffsetInvalidError, SourceError, SourceUnavailableError
from databus.core.positions.gtid import MysqlGtidSet

RECEIVE_BYTES = 4 << 20
"""Size of the receive buffer: one `recv_into` takes up to this much."""

HEARTBEAT_S = 1.0
"""Interval of an idle server's heartbeats; a dump silent for DEAD_AFTER_S is dead."""
DEAD_AFTER_S = 30.0

_EVENTS_BYTES = RECEIVE_BYTES + (1 << 20)
_COM_BINLOG_DUMP = 0x12
_COM_BINLOG_DUMP_GTID = 0x1E
_NON_BLOCKING = 0x01
_SEND_ANNOTATE_ROWS = 0x02  # MariaDB: without it the dump leaves these events out, and positions have holes
_THROUGH_GTID = 0x04
_POSITION_32 = 0xFFFFFFFF
_FIRST_RANDOM_SERVER_ID = 1 << 30


@dataclass(frozen=True)
class DumpRequest:
    """Dump request: where a dump starts and how it ends.

    Attributes:
        file: log file; "" when `gtids` decides.
        pos: position of the first event to send, at least 4.
        flavor: "mysql" or "mariadb".
        follow: True waits for the log to grow, False ends at its head.
        gtids: transactions the reader has, in the server's text form; None to start by file and position.
        server_id: replication server id, unique among the server's readers; 0 takes a random high one.
        server: server_uuid (MariaDB: server_id in text form) that must answer; "" for any. An address may lead to
            another server after a failover, where file and position mean something else.
    """

    file: str
    pos: int
    flavor: str
    follow: bool = False
    gtids: str | None = None
    server_id: int = 0
    server: str = ""


@dataclass(frozen=True)
class Events:
    """Whole events of one log file, one after the other, in a buffer that is valid until the next is asked for.

    Heartbeats are left out. The first events of a file are a made-up ROTATE, which names it, and its
    FORMAT_DESCRIPTION.

    Attributes:
        buffer: uint8 array.
        end: bytes of it that are filled.
        waited: the server had nothing to send within the time allowed; `end` may be 0.
        repeated: what was received before; nothing has arrived now.
    """

    buffer: npt.NDArray[np.uint8]
    end: int
    waited: bool = False
    repeated: bool = False

    @property
    def arrived(self) -> bool:
        """Return whether the server has just sent any of it."""
        return self.end > 0 and not self.waited and not self.repeated


class Dump:
    """Binlog dump that is running. Closing it also ends the server's dump thread."""

    def __init__(self, connection: Connection, request: DumpRequest, spool: Path | None = None):
        """Connect and ask for the dump.

        Args:
            connection: the server.
            request: where to start and how to end.
            spool: folder for an event that is too large for memory; None for the system's temporary folder.

        Raises:
            SourceUnavailableError, SourceAccessError: connecting failed.
        """
        self._connection = connection
        self._request, self._spool = request, spool
        self._server = ServerConnection(connection)
        self._closed = False
        try:
            self._configure()
            self._socket = self._server.send_command(_command(request))
        except BaseException:
            self._server.cut()
            raise
        self._stream = np.empty(RECEIVE_BYTES, np.uint8)
        self._start = self._end = 0
        self._events = np.empty(_EVENTS_BYTES, np.uint8)
        self._filled = 0
        self._state = np.zeros(F_COUNT, np.int64)
        self._ended = False

    def batches(self, deadline: Callable[[], float] | None = None) -> Iterator[Events]:
        """Yield whole events until the head of the log is reached (`follow=False`), or for ever.

        Memory is bounded: an event over 64 MiB is collected in an unnamed temporary file, which the buffer then maps.

        Args:
            deadline: gives the monotonic time until which a following dump waits; asked before each receive. When it
                passes, an `Events` with `waited=True` is yielded and the caller decides.

        Raises:
            SourceUnavailableError: the connection was lost, the server fell silent, or ended a following dump: MySQL
                does so in good order when it shuts down or the dump is killed.
            OffsetPurgedError, OffsetInvalidError, SourceAccessError: the server refused the dump.
        """
        while not self._ended:
            waited = not self._receive(deadline)
            yield from self._unframe_all(waited=waited)
        if self._request.follow:
            raise self._lost("the server ended it: it shuts down, or the dump was killed")

    def close(self) -> None:
        """Close the socket and end the server's dump thread; safe to call twice.

        A dump thread notices a closed socket only when it next has something to send, so it is killed by number.
        """
        if self._closed:
            return
        self._closed = True
        thread = self._server.thread_id
        self._server.cut()
        if not self._ended:
            with contextlib.suppress(SourceError):  # it ended by itself, or the server is gone
                control = ServerConnection(self._connection)
                try:
                    control.query(f"KILL {thread}")
                finally:
                    control.close()

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _configure(self) -> None:
        self._check_server()
        # Each event keeps the CRC32 that its file has, so that segments are byte for byte the log.
        names = ["@master_binlog_checksum", "@source_binlog_checksum"]
        if self._request.flavor == "mariadb":
            names = names[:1]
            self._server.query("SET @mariadb_slave_capability = 4")
            if self._request.gtids is not None:
                self._server.query("SET @slave_connect_state = %s", self._request.gtids)
                self._server.query("SET @slave_gtid_strict_mode = 0")
        else:
            # MySQL ends an older dump of the same uuid; a random one never meets another reader.
            mine = str(uuid.uuid4())
            self._server.query("SET @slave_uuid = %s, @replica_uuid = %s", mine, mine)
        for name in names:
            self._server.query(f"SET {name} = 'CRC32'")
            period = name.replace("binlog_checksum", "heartbeat_period")
            self._server.query(f"SET {period} = {int(HEARTBEAT_S * 1e9)}")

    def _check_server(self) -> None:
        wanted = self._request.server
        name = "server_id" if self._request.flavor == "mariadb" else "server_uuid"
        if wanted and (found := str(self._server.query(f"SELECT @@GLOBAL.{name}")[0][0])) != wanted:
            raise another_server(self._where(), wanted, found)

    def _receive(self, deadline: Callable[[], float] | None) -> bool:
        """Fill the receive buffer with what is there, waiting for a byte; False when the deadline passed first."""
        if self._start:
            rest = self._end - self._start
            self._stream[:rest] = self._stream[self._start : self._end].copy()
            self._start, self._end = 0, rest
        allowed = DEAD_AFTER_S if self._request.follow else READ_TIMEOUT_S
        left = allowed if deadline is None else max(0.0, min(allowed, deadline() - time.monotonic()))
        try:
            self._socket.settimeout(left or 1e-6)
            got = self._socket.recv_into(self._stream[self._end :].data)
        except TimeoutError:
            if left < allowed:
                return False
            raise self._lost(f"the server was silent for {allowed:.0f} s") from None
        except (OSError, ValueError) as error:
            raise self._lost(str(error)) from None
        if got == 0:
            raise self._lost("the server closed the connection")
        self._end += got
        return True

    def _unframe_all(self, *, waited: bool) -> Iterator[Events]:
        yielded = False
        while True:
            before = self._filled
            status = unframe(self._stream, self._start, self._end, self._events, self._filled, self._state)
            self._start, self._filled = int(self._state[F_READ]), int(self._state[F_WRITTEN])
            if len(self._events) > IN_MEMORY_BYTES:
                release(self._events[before : self._filled])
            whole = int(last_boundary(self._events, self._filled))
            if whole:
                yielded = True
                yield Events(self._events, whole)
                rest = self._events[whole : self._filled].copy()
                if len(self._events) > IN_MEMORY_BYTES:
                    self._events = np.empty(max(_EVENTS_BYTES, 2 * len(rest)), np.uint8)
                self._events[: len(rest)] = rest
                self._filled = len(rest)
            elif status == FULL:
                self._grow()
            if status == END_OF_LOG:
                self._ended = True
            elif status in (SERVER_ERROR, BAD_STATUS):
                raise self._refused(status)
            if status not in (FULL, NEXT_FILE):
                break
        if waited and not yielded:
            yield Events(self._events, 0, waited=True)

    def _grow(self) -> None:
        size = int.from_bytes(self._events[9:13].tobytes(), "little") if self._filled >= HEADER_BYTES else 0
        room = max(min(len(self._events) * 2, IN_MEMORY_BYTES), size + (1 << 20))
        bigger = spooled(room, self._spool) if room > IN_MEMORY_BYTES else np.empty(room, np.uint8)
        bigger[: self._filled] = self._events[: self._filled]
        self._events = bigger

    def _refused(self, status: int) -> SourceError:
        at, length = self._start, int(self._state[F_PACKET])
        packet = self._stream[at + 4 : min(self._end, at + 4 + length)].tobytes()
        if status == BAD_STATUS:
            return SourceUnavailableError(
                f"{self._where()}: a packet of {length} bytes starts with "
                f"{packet[:1].hex()}: the stream is out of step",
                hint="A proxy between here and the server may alter the stream; the "
                "next attempt starts at the checkpoint.",
            )
        code = int.from_bytes(packet[1:3], "little")
        text = packet[3:].decode("utf-8", "replace")
        return server_error(code, text[6:] if text.startswith("#") else text, self._where())

    def _lost(self, why: str) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"{self._where()}: dump lost: {why}", hint="The next attempt starts at the checkpoint; nothing was skipped."
        )

    def _where(self) -> str:
        request = self._request
        start = f"GTID {request.gtids}" if request.gtids is not None else f"{request.file}:{request.pos}"
        return f"{self._server.conn_id} ({self._server.place}) from {start}"


def another_server(place: str, former: str, found: str) -> SourceUnavailableError:
    """Return the error for an address that leads to another server than before."""
    return SourceUnavailableError(
        f"{place}: server {found} answers, where server {former} was",
        hint="A failover behind the same address: the next attempt finds the checkpoint's place by GTID.",
    )


def _command(request: DumpRequest) -> bytes:
    flags = 0 if request.follow else _NON_BLOCKING
    server_id = request.server_id or _FIRST_RANDOM_SERVER_ID + secrets.randbelow(1 << 30)
    name = request.file.encode()
    if request.flavor == "mariadb":
        if request.gtids is None and request.pos > _POSITION_32:
            raise OffsetInvalidError(
                f"MariaDB cannot start a dump at {request.file}:{request.pos}, past 4 GiB, without a GTID"
            )
        position = len(MAGIC) if request.gtids is not None else request.pos
        return struct.pack("<BIHI", _COM_BINLOG_DUMP, position, flags | _SEND_ANNOTATE_ROWS, server_id) + name
    if request.gtids is None and request.pos <= _POSITION_32:
        return struct.pack("<BIHI", _COM_BINLOG_DUMP, request.pos, flags, server_id) + name
    # Only this command has a position of 64 bits; an empty set excludes nothing.
    gtids = encode_gtid_set(MysqlGtidSet.parse(request.gtids or ""))
    head = struct.pack("<BHII", _COM_BINLOG_DUMP_GTID, flags | _THROUGH_GTID, server_id, len(name))
    return head + name + struct.pack("<QI", request.pos, len(gtids)) + gtids
