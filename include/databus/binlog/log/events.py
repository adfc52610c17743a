"""Event types, the common header and the FORMAT_DESCRIPTION event of the binary log.

Wire format: MySQL 8.0 source documentation, "Replication Protocol: Binlog Event"; MariaDB Knowledge Base, "Replication
Protocol".
"""

from __future__ import annotations

import enum
import struct
import zlib
from dataclasses import dataclass

from databus.core.errors.source import DecodeError

HEADER_BYTES = 19
CHECKSUM_BYTES = 4
MAGIC = b"\xfebin"
"""First four bytes of a log file; positions count from there, so the first event is at 4."""

FLAG_ARTIFICIAL = 0x20
"""The event was made up by the server for the dump and is not in the file."""

FLAG_RELAY_LOG = 0x40
"""The FORMAT_DESCRIPTION event is a relay log's: a replica's copy of its source's events."""

FLAG_IGNORABLE = 0x80
"""A reader that does not know the event's type may pass over it."""

FLAG_OF_SESSION = 0x04
"""Only the session that made the statement can run it (LOG_EVENT_THREAD_SPECIFIC_F): it has used a temporary table."""

FLAG_IN_USE = 0x01
"""The log file is open for writing, or was when the server died."""

_HEADER = struct.Struct("<IBIIIH")


class EventType(enum.IntEnum):
    """Type byte of an event; 160 and above are MariaDB's."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171


BETWEEN_TYPES = frozenset(
    {
        EventType.STOP,
        EventType.ROTATE,
        EventType.PREVIOUS_GTIDS,
        EventType.TRANSACTION_CONTEXT,
        EventType.BINLOG_CHECKPOINT,
        EventType.GTID_LIST,
        EventType.START_ENCRYPTION,
    }
)
"""Types that change no row and no table, and that servers write between transactions only.

START_ENCRYPTION is met in a dump, which comes decrypted."""

FLAGGED_TYPES = frozenset({EventType.IGNORABLE, EventType.ROWS_QUERY})
"""Types that change no row and no table, and that servers mark as ignorable."""

PASSED_OVER_TYPES = frozenset({EventType.VIEW_CHANGE, EventType.ANNOTATE_ROWS})
"""Types that change no row and no table, wherever they stand."""

ROWS_TYPES = frozenset(
    {
        EventType.WRITE_ROWS_V1,
        EventType.UPDATE_ROWS_V1,
        EventType.DELETE_ROWS_V1,
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
    }
)

_STATEMENT = (
    "It belongs to statement-based logging: set binlog_format=ROW for every session and start after this event."
)
REFUSED_TYPES: dict[int, tuple[str, str]] = {
    EventType.INCIDENT: (
        "the server says that events were lost here",
        "Take a new snapshot of the tables from this server.",
    ),
    EventType.INTVAR: ("an auto-increment value for a statement", _STATEMENT),
    EventType.RAND: ("a random seed for a statement", _STATEMENT),
    EventType.USER_VAR: ("a user variable for a statement", _STATEMENT),
    EventType.BEGIN_LOAD_QUERY: ("file contents for a LOAD DATA statement", _STATEMENT),
    EventType.APPEND_BLOCK: ("file contents for a LOAD DATA statement", _STATEMENT),
    EventType.EXECUTE_LOAD_QUERY: ("a LOAD DATA statement", _STATEMENT),
    EventType.DELETE_FILE: ("the end of a LOAD DATA statement", _STATEMENT),
}
"""What a known event that cannot be decoded is, and what to do about it."""

STATEMENT_TYPES = frozenset(kind for kind, (_, hint) in REFUSED_TYPES.items() if hint == _STATEMENT)
"""Events of statements that are logged as they were said, beside the statement's own QUERY event."""

VALUE_TYPES = frozenset({EventType.INTVAR, EventType.RAND, EventType.USER_VAR})
"""Those that only hold values for the statement behind them."""


_KNOWN_TYPES = frozenset(EventType)


def type_name(event_type: int) -> str:
    """Return the type's name with its number, e.g. "XA_PREPARE (38)"."""
    try:
        return f"{EventType(event_type).name} ({event_type})"
    except ValueError:
        return f"unknown type ({event_type})"


def refuse(event_type: int, where: str) -> DecodeError:
    """Return the error for an event that cannot be passed over.

    Args:
        event_type: the type byte.
        where: "file:position" of the event.
    """
    if event_type in REFUSED_TYPES:
        meaning, hint = REFUSED_TYPES[event_type]
        return DecodeError(f"{where}: event {type_name(event_type)} is {meaning}", hint=hint)
    return DecodeError(
        f"{where}: event {type_name(event_type)} is not one this decoder understands",
        hint="The log is damaged, encrypted, or of a newer server. Compare with mysqlbinlog at this position.",
    )


@dataclass(frozen=True)
class EventHeader:
    """The 19 bytes before every event's body.

    Attributes:
        timestamp_s: seconds since the epoch when the statement began.
        event_type: type byte.
        server_id: server that wrote the event first.
        size_bytes: length with header and checksum.
        log_pos: low 32 bits of the file position after the event; 0 in made-up events.
        flags: bit set.
    """

    timestamp_s: int
    event_type: int
    server_id: int
    size_bytes: int
    log_pos: int
    flags: int


def parse_header(data: bytes | memoryview, offset: int = 0) -> EventHeader:
    """Read the header at an offset; the caller has checked that 19 bytes are there."""
    timestamp, kind, server, size, log_pos, flags = _HEADER.unpack_from(data, offset)
    return EventHeader(timestamp, kind, server, size, log_pos, flags)


def is_ignorable(header: EventHeader) -> bool:
    """Return whether an event of a type that is not known here may be passed over, as the server's own replicas do."""
    return bool(header.flags & FLAG_IGNORABLE) and header.event_type not in _KNOWN_TYPES


@dataclass(frozen=True)
class FormatDescription:
    """Format description: what a FORMAT_DESCRIPTION event says about the events after it.

    Attributes:
        server_version: e.g. "8.0.31" or "10.11.19-MariaDB-log".
        flavor: "mysql" or "mariadb".
        checksum: whether each event ends with a CRC32.
        post_header_bytes: length of the fixed part of each event type, indexed by type − 1.
    """

    server_version: str
    flavor: str
    checksum: bool
    post_header_bytes: bytes

    @property
    def checksum_bytes(self) -> int:
        """Bytes at the end of each event that are its checksum."""
        return CHECKSUM_BYTES if self.checksum else 0


def parse_format_description(event: bytes, where: str) -> FormatDescription:
    """Read a whole FORMAT_DESCRIPTION event (header included).

    Raises:
        DecodeError: it is another event, cut short, a relay log's, of another log version, or names an unknown
            checksum.
    """
    if len(event) < HEADER_BYTES + 57 + 5 or event[4] != EventType.FORMAT_DESCRIPTION:
        found = type_name(event[4]) if len(event) > 4 else "nothing"
        raise DecodeError(
            f"{where}: a FORMAT_DESCRIPTION event must come first, found {found}",
            hint="Pass a log file without its 4-byte magic, or a segment, whole.",
        )
    header = parse_header(event)
    if header.size_bytes != len(event):
        raise DecodeError(
            f"{where}: event {type_name(event[4])} states a size of {header.size_bytes} bytes, "
            f"of which {len(event)} are there",
            hint="The file was cut short or damaged at rest: copy it from the server again.",
        )
    binlog_version = int.from_bytes(event[19:21], "little")
    version = event[21:71].split(b"\0", 1)[0].decode("ascii", "replace")
    if binlog_version != 4 or event[75] != HEADER_BYTES:
        raise DecodeError(f"{where}: binlog version {binlog_version} of server {version} is not version 4")
    # Servers since MySQL 5.6.1 and MariaDB 5.3 end this event with the algorithm and always a CRC32 of itself.
    algorithm = event[-5]
    if algorithm not in (0, 1):
        raise DecodeError(
            f"{where}: server {version} uses the unknown checksum algorithm {algorithm}",
            hint="Known are NONE (0) and CRC32 (1); a server older than MySQL 5.6 is not supported.",
        )
    if algorithm == 1:
        # An open log file is marked in the flags without a new checksum. Without checksums the server may send this
        # event altered as well.
        closed = event[:17] + bytes([event[17] & ~FLAG_IN_USE]) + event[18:-4]
        if zlib.crc32(closed) != int.from_bytes(event[-4:], "little"):
            raise DecodeError(
                f"{where}: event {type_name(event[4])} does not match its CRC32: "
                "the log was damaged at rest or on the way"
            )
    if header.flags & FLAG_RELAY_LOG:
        raise DecodeError(
            f"{where}: this is a relay log, a replica's copy of its source's events, whose positions are the source's",
            hint="Read the source's binary log; or the replica's own, which it writes with log_replica_updates=ON "
            "(log_slave_updates on MariaDB).",
        )
    post = event[76:-5]
    if len(post) >= EventType.TABLE_MAP and post[EventType.TABLE_MAP - 1] != 8:
        raise DecodeError(f"{where}: server {version} writes TABLE_MAP events with 4-byte ids, which is not supported")
    flavor = "mariadb" if "mariadb" in version.lower() or len(post) >= EventType.MARIADB_GTID else "mysql"
    return FormatDescription(version, flavor, algorithm == 1, post)
