"""Follow a dump through transactions and files: what ends where, and how many rows of which table lie in between."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from databus.binlog.capture import TableCapture
from databus.binlog.captured_tables import CapturedTables
from databus.binlog.dump import Events
from databus.binlog.events import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    MAGIC,
    EventType,
    parse_format_description,
    parse_header,
    refuse,
    type_name,
)
from databus.binlog.kernels.walk import R_TRANSACTION
from databus.binlog.statements import StatementKind
from databus.binlog.table_batch import Transactions
from databus.binlog.walker import LoggedStatement, Walker
from databus.core.errors import DecodeError, OffsetInvalidError
from databus.core.tables import TableSchema

Ints = npt.NDArray[np.int64]

# What may follow the end of a transaction. Anything else at the start of a dump says that it starts inside one.
_BETWEEN_TRANSACTIONS = frozenset(
    {
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.GTID_TAGGED,
        EventType.MARIADB_GTID,
        EventType.ROTATE,
        EventType.STOP,
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_LIST,
        EventType.BINLOG_CHECKPOINT,
        EventType.INCIDENT,
        EventType.VIEW_CHANGE,
    }
)


@dataclass(frozen=True)
class FileStart:
    """The log goes on in this file; what follows lies in it.

    Attributes:
        name: log file.
        pos: position of the next event.
        description: the file's FORMAT_DESCRIPTION event, which every segment of the file starts with.
        checksum: whether its events end with a CRC32.
        created_s: when the server began the file, seconds since the epoch; 0 when the dump does not start at its
            beginning.
    """

    name: str
    pos: int
    description: bytes
    checksum: bool
    created_s: int


@dataclass(frozen=True, eq=False)
class Stretch:
    """Events of one file that were walked, and the transactions that ended in them.

    Attributes:
        events: the raw bytes; valid until the next batch is walked.
        pos: file position of the first of them.
        transactions: the transactions that ended.
        offsets: int64[n], offset in `events` after each transaction.
        row_transactions: int64[e], index of the transaction of each captured rows event; n for the one still open.
        row_schemas: int64[e], `schema_id` of its table.
        row_counts: int64[e], its row changes.
        table_events: indices of transactions that truncate a captured table or change definitions.
        open: whether a transaction has begun and not ended.
    """

    events: npt.NDArray[np.uint8]
    pos: int
    transactions: Transactions
    offsets: Ints
    row_transactions: Ints
    row_schemas: Ints
    row_counts: Ints
    table_events: tuple[int, ...]
    open: bool


class LogWalk:
    """Walks the batches of one dump in order.

    Sizes, checksums, positions without holes and the nesting of transactions are checked on the way; what does not
    add up stops the walk with its position.
    """

    def __init__(self, capture: TableCapture, start: str):
        """Prepare for a dump that was asked to start at a transaction boundary.

        Args:
            capture: tables whose rows are counted.
            start: where the dump starts, for messages.
        """
        self._capture = capture
        self._start = start
        self._tables = CapturedTables(capture)
        self._file, self._pos = "", 0
        self._walker: Walker | None = None
        self._description = b""
        self._first = True
        self._open = False

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """Schemas of the captured tables met so far; `schema_id` is the index."""
        return self._tables.schemas

    def walk(self, batch: Events) -> Iterator[FileStart | Stretch]:
        """Walk one batch of whole events of one file.

        Raises:
            OffsetInvalidError: the place the dump starts at is inside an event or a transaction.
            DecodeError: a later event is damaged, unknown, or not supported.
        """
        events = batch.buffer[: batch.end]
        at = 0
        while at < len(events):
            started = self._open_file(events, at)
            if started is None:
                break
            at += started.size_bytes
            if started.file is not None:
                yield started.file
        if at < len(events):
            yield self._stretch(events[at:])

    def _stretch(self, events: npt.NDArray[np.uint8]) -> Stretch:
        if self._walker is None:
            raise refuse(int(events[4]) if len(events) > 4 else 0, f"{self._file}:{self._pos}")
        if self._first:
            self._check_start(self._walker, events)
        pos = self._walker.position
        walk = self._walker.walk(events)
        if walk.consumed_bytes != len(events):
            raise DecodeError(f"{self._file}:{self._walker.position}: an event has an impossible size")
        self._open = walk.open
        schemas, counts = self._tables.count(events, walk.rows, walk.slots, f"{self._file}")
        captured = schemas >= 0
        return Stretch(
            events,
            pos,
            walk.transactions,
            walk.transaction_offsets,
            walk.rows[captured, R_TRANSACTION],
            schemas[captured],
            counts[captured],
            tuple(sorted({s.transaction for s in walk.statements if self._concerns(s)})),
            walk.open,
        )

    def _concerns(self, logged: LoggedStatement) -> bool:
        """Whether a statement may change a captured table; one that names none or several may."""
        statement = logged.statement
        if not statement.table:
            return statement.kind in (StatementKind.TRUNCATE, StatementKind.DEFINITION)
        return self._capture(statement.database or logged.query.database, statement.table)

    def _open_file(self, events: npt.NDArray[np.uint8], at: int) -> _Opening | None:
        """Read the made-up ROTATE event that names a file, or its FORMAT_DESCRIPTION event; None at any other."""
        header = parse_header(events[at : at + HEADER_BYTES].tobytes())
        size = header.size_bytes
        if header.event_type not in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            return None  # not copied: it may be a row of a GiB
        event = events[at : at + size].tobytes()
        if header.event_type == EventType.ROTATE and header.log_pos == 0:
            if self._open:
                raise DecodeError(
                    f"{self._file}: the log file ends inside a transaction",
                    hint="The server crashed while writing it. Compare the tables with "
                    "SELECT, then start at the next file.",
                )
            self._pos = int.from_bytes(event[19:27], "little")
            self._file = event[27 : len(event) - _checksum_bytes(event)].decode()
            self._walker = None
            return _Opening(size, None)
        if header.event_type == EventType.FORMAT_DESCRIPTION and self._walker is None:
            description = parse_format_description(event, f"{self._file}:{self._pos}")
            # Asked for a place further on, the server sends this event with position 0, because it does not lie there.
            self._pos += size if header.log_pos != 0 and self._pos == len(MAGIC) else 0
            self._walker = Walker(self._file, self._pos, format=description)
            return _Opening(size, FileStart(self._file, self._pos, event, description.checksum, header.timestamp_s))
        return None

    def _check_start(self, walker: Walker, events: npt.NDArray[np.uint8]) -> None:
        """Look at the first event on its own: a fault there says that the place is wrong, not the log."""
        self._first = False
        kind = int(events[4])
        if kind not in _BETWEEN_TRANSACTIONS:
            raise self._bad_start(f"the event there is {type_name(kind)}, which lies inside a transaction")
        size = parse_header(events[:HEADER_BYTES].tobytes()).size_bytes
        try:
            Walker(walker.file, walker.base_pos, format=walker.format).walk(events[:size])
        except DecodeError as error:
            raise self._bad_start(error.message) from None

    def _bad_start(self, why: str) -> OffsetInvalidError:
        return OffsetInvalidError(
            f"{self._start} is not the start of a transaction: {why}",
            hint="Take a position from a checkpoint, or from SHOW BINLOG EVENTS (the Pos of a Gtid event).",
        )


@dataclass(frozen=True)
class _Opening:
    """An event at the start of a file: its size, and the file once it is known."""

    size_bytes: int
    file: FileStart | None


def _checksum_bytes(event: bytes) -> int:
    """Return how many bytes of checksum end an event of which nothing has said yet whether it has one."""
    stored = int.from_bytes(event[-CHECKSUM_BYTES:], "little")
    return CHECKSUM_BYTES if zlib.crc32(event[:-CHECKSUM_BYTES]) == stored else 0
