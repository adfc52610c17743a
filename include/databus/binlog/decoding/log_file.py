"""Decode one log file from start to end with bounded memory, however long the file or a transaction in it is."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.decode import DecodedEvents, TableFilter, every_table
from databus.binlog.decoding.piecewise import decode_pieces
from databus.binlog.decoding.table_batch import SchemaIds, TableBatch, TableEvent, Transactions
from databus.binlog.kernels.walk import BAD_POSITION, R_TRANSACTION
from databus.binlog.log.events import (
    FLAG_IN_USE,
    HEADER_BYTES,
    MAGIC,
    EventType,
    FormatDescription,
    parse_format_description,
    parse_header,
)
from databus.binlog.log.mapped import is_mapped, release
from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.log.walk import Walk, XaEvent, XaPhase
from databus.binlog.log.walk_faults import walk_fault
from databus.binlog.log.walker import Walker
from databus.binlog.schema_history.definitions import Definitions
from databus.core.errors.source import DecodeError

Bytes = npt.NDArray[np.uint8]

Change = tuple[TableBatch | TableEvent, Transactions]
"""Decoded batch or event, and the transactions that its `transaction` points into."""

Prepared = Literal["inside", "elsewhere"]
"""Places of the rows of XA COMMITs, as in `decode_events`."""

PIECE_BYTES = 16 << 20
"""Bytes of a file that are walked and decoded at a time, unless one event is larger."""

_MOST_EXPANDED = 4
"""No further compressed event of a piece is expanded once the expanded ones take so many times its size."""
_SEGMENT_NAME = re.compile(r"(?P<file>.+\.\d+)\.(?P<pos>\d{20})\.events")
_MAX_DESCRIPTION_BYTES = 4096
_ENCRYPTED_MAGIC = b"\xfdbin"
_DECRYPTED = (
    "Read the log through the server's dump protocol, which decrypts it: from the server, or a copy that mysqlbinlog "
    "or mariadb-binlog made with --read-from-remote-server --raw."
)


@dataclasses.dataclass(frozen=True, eq=False)
class LoggedTransaction:
    """The events of one transaction, with what lies between it and the one before.

    Attributes:
        events: raw bytes.
        mapped: what they are a part of.
        file: log file.
        pos: file position of the first of them.
        log_format: format of the events.
    """

    events: Bytes
    mapped: Bytes
    file: str
    pos: int
    log_format: FormatDescription


class LogFile:
    """Reads a log file, or a segment: the same bytes without the 4-byte magic, from any transaction on.

    Rows come in log order per table; between two statements (TRUNCATE, DDL) the tables of a piece follow one another.
    Nothing of a transaction comes out before its end was seen: one that the edge of a piece cuts is walked again.

    Attributes:
        file: name of the log file.
        start: file position of the first event after the FORMAT_DESCRIPTION event.
        transactions: transactions read so far.
        position: file position after the last of them.
        bytes_read: bytes up to the place read so far.
        server_version: version of the server that wrote the log.
        checksum: whether its events end with a CRC32.
    """

    def __init__(  # noqa: PLR0913 - what the bytes do not say of themselves
        self,
        data: Bytes,
        name: str,
        *,
        tables: TableFilter = every_table,
        schema_ids: SchemaIds | None = None,
        piece_bytes: int = PIECE_BYTES,
        prepared: Prepared = "inside",
        first_phases: dict[str, LoggedTransaction] | None = None,
        definitions: Callable[[str], Definitions | None] = lambda _: None,
    ) -> None:
        """Read the head of the file.

        Args:
            data: the file, as a rule mapped.
            name: file name; that of a segment also says where it lies in its log file.
            tables: which tables' rows are wanted.
            schema_ids: numbers for the schemas met.
            piece_bytes: how much to decode at a time.
            prepared: where the rows of XA COMMITs are. "inside": at an XA PREPARE before them; "elsewhere": they are
                left out when it lies before the file.
            first_phases: xid → XA transactions prepared before the file; those of this file are added and taken out.
            definitions: given the server's flavor returns what TABLE_MAP events leave open; None where the log says it
                all.

        Raises:
            DecodeError: this is no log file.
        """
        segment = _SEGMENT_NAME.fullmatch(name)
        self.file = segment["file"] if segment else name
        self._data, self._tables, self._schema_ids = data, tables, schema_ids or SchemaIds()
        self._piece_bytes, self._prepared = piece_bytes, prepared
        self._first_phases = {} if first_phases is None else first_phases
        magic = data[: len(MAGIC)].tobytes() == MAGIC
        begin = len(MAGIC) if magic else 0
        description = self._description(begin)
        self._format = parse_format_description(description, f"{self.file}:{len(MAGIC)}")
        if magic and parse_header(description).log_pos not in (0, begin + len(description)):
            raise walk_fault(BAD_POSITION, EventType.FORMAT_DESCRIPTION, len(description), f"{self.file}:{len(MAGIC)}")
        self.server_version, self.checksum = self._format.server_version, self._format.checksum
        self._in_use = bool(parse_header(description).flags & FLAG_IN_USE)
        self._description_bytes = len(description)
        self.bytes_read = begin + len(description)
        if magic:
            self._refuse_encrypted()
        start = len(MAGIC) + len(description)
        if segment:
            start = int(segment["pos"])
        elif not magic:
            start = self._position_of_first() or start
        self._definitions = definitions(self._format.flavor)
        self._walker = Walker(self.file, start, format=self._format, definitions=self._definitions)
        self._walker.counts[EventType.FORMAT_DESCRIPTION] += 1
        self._open_since: tuple[int, int] | None = None
        self.start = self.position = start
        self.transactions = 0

    @property
    def begins_file(self) -> bool:
        """Return whether nothing of the log file lies before it."""
        return self.start == len(MAGIC) + self._description_bytes

    @property
    def prepared(self) -> Mapping[str, LoggedTransaction]:
        """Return xid → XA transactions that are prepared and not yet resolved at the place read so far."""
        return self._first_phases

    @property
    def event_counts(self) -> npt.NDArray[np.int64]:
        """Events per type, int64[256], of what has been read so far."""
        return self._walker.counts

    def __iter__(self) -> Iterator[Change]:
        """Decode the file; once.

        Raises:
            DecodeError: an event is damaged, unknown or unsupported, or the file ends inside an event or a transaction,
                or the XA PREPARE of an XA COMMIT lies before the file; every transaction before it has been yielded.
        """
        size, most = self._piece_bytes, _MOST_EXPANDED * self._piece_bytes
        while self.bytes_read < len(self._data):
            at, pos = self.bytes_read, self._walker.position
            walk, fault = self._walker.walk_until_fault(self._data[at : at + size], most)
            yield from self._ended(walk, at, pos)
            if fault is not None:
                raise fault
            self._note_open(walk, at, pos)
            self.bytes_read = at + walk.consumed_bytes
            left = len(self._data) - at
            if walk.consumed_bytes:
                size = self._piece_bytes
            elif size < left:
                needed = _event_bytes(self._data[at:])
                size = needed if needed > size else 2 * size
            else:
                raise self._cut(f"an event, {left} bytes of which are there")
            release(self._data)
        if self._open_since is not None:
            raise self._cut("a transaction")
        self.position = self._walker.position

    def close(self) -> None:
        """Let the file go; safe to call twice."""
        self._data = self._data[:0].copy()

    def _ended(self, walk: Walk, at: int, pos: int) -> Iterator[Change]:
        """Decode the transactions that ended, cut at statements, which concern all rows after them, and XA phases."""
        count = len(walk.transactions)
        phases = {event.transaction: event for event in walk.xa if event.transaction < count}
        alone = {s.transaction for s in walk.statements if s.transaction < count} | phases.keys()
        if self._open_since is not None and count:
            alone |= {0}
        for first, last in itertools.pairwise(sorted({0, count, *alone, *(t + 1 for t in alone)})):
            if first in phases:
                yield from self._phase(phases[first], walk, at, pos)
            elif first == 0 and self._open_since is not None:
                yield from self._by_pieces(self._logged(walk, 0, at, pos))
            else:
                yield from self._inside(walk, first, last)
            self.transactions += last - first
            self.position = int(walk.transactions.end_pos[last - 1])

    def _inside(self, walk: Walk, first: int, last: int) -> Iterator[Change]:
        """Decode transactions that lie in the piece as a whole."""
        low, high = np.searchsorted(walk.rows[:, R_TRANSACTION], (first, last)).tolist()
        if low == high:
            return
        statements = [
            dataclasses.replace(s, row_event=s.row_event - low)
            for s in walk.statements
            if first <= s.transaction < last
        ]
        some = dataclasses.replace(walk, rows=walk.rows[low:high], statements=statements)
        for item in DecodedEvents(self._walker, some, self._tables, self._schema_ids):
            yield item, walk.transactions

    def _phase(self, event: XaEvent, walk: Walk, at: int, pos: int) -> Iterator[Change]:
        if event.phase is XaPhase.PREPARE:
            logged = self._logged(walk, event.transaction, at, pos)
            if not is_mapped(self._data):  # so that not all of the buffer stays for one transaction of it
                events = logged.events.copy()
                logged = dataclasses.replace(logged, events=events, mapped=events)
            self._first_phases[event.xid] = logged
            return
        first_phase = self._first_phases.pop(event.xid, None)
        if event.phase is XaPhase.ROLLBACK:
            return
        place = CommitPlace.of(walk.transactions, event.transaction)
        if first_phase is not None:
            yield from self._by_pieces(first_phase, place)
        elif self._prepared == "inside":
            raise DecodeError(
                f"{self.file}:{place.start_pos}: XA COMMIT {event.xid} belongs to an XA PREPARE that lies before what "
                "is read",
                hint='Read from a place before the XA PREPARE, or leave such rows out: prepared="elsewhere".',
            )

    def _by_pieces(self, logged: LoggedTransaction, commit: CommitPlace | None = None) -> Iterator[Change]:
        for piece in decode_pieces(
            logged.events,
            file=logged.file,
            base_pos=logged.pos,
            tables=self._tables,
            schema_ids=self._schema_ids,
            definitions=self._definitions,
            forget=lambda: release(logged.mapped),
            log_format=logged.log_format,
            commit=commit,
            piece_bytes=self._piece_bytes,
        ):
            for item in piece:
                yield item, piece.transactions

    def _logged(self, walk: Walk, index: int, at: int, pos: int) -> LoggedTransaction:
        """Return a transaction that ended in a walk from offset `at` on, which lies at `pos` of the log file."""
        begin, begin_pos = (at, pos) if self._open_since is None else self._open_since
        if index:
            begin = at + int(walk.transaction_offsets[index - 1])
            begin_pos = int(walk.transactions.end_pos[index - 1])
        end = at + int(walk.transaction_offsets[index])
        return LoggedTransaction(self._data[begin:end], self._data, self.file, begin_pos, self._format)

    def _note_open(self, walk: Walk, at: int, pos: int) -> None:
        """Note where the transaction begins that the next piece goes on with."""
        if not walk.open:
            self._open_since = None
        elif len(walk.transactions):
            self._open_since = at + int(walk.transaction_offsets[-1]), int(walk.transactions.end_pos[-1])
        elif self._open_since is None:
            self._open_since = at, pos

    def _cut(self, inside: str) -> DecodeError:
        """Return the error for a log that ends inside an event or a transaction."""
        hint = "The file was cut short, or is still being written."
        if self._in_use:
            hint = "The server has the file open: read it again later."
        return DecodeError(f"{self.file}:{self._walker.position}: the log ends inside {inside}", hint=hint)

    def _refuse_encrypted(self) -> None:
        """Refuse a file whose events are encrypted: what follows START_ENCRYPTION does not say where it lies.

        A copy of a dump (mariadb-binlog --raw) has that event too, and the others in the clear.
        """
        at = self.bytes_read
        size = _event_bytes(self._data[at:])
        if not size or self._data[at + 4] != EventType.START_ENCRYPTION:
            return
        head = self._data[at + size : at + size + HEADER_BYTES].tobytes()
        if len(head) < HEADER_BYTES:
            return
        header = parse_header(head)
        if header.log_pos != at + size + header.size_bytes:
            raise DecodeError(f"{self.file}:{at + size}: the events from here on are encrypted", hint=_DECRYPTED)

    def _description(self, at: int) -> bytes:
        if self._data[: len(_ENCRYPTED_MAGIC)].tobytes() == _ENCRYPTED_MAGIC:
            raise DecodeError(f"{self.file}:0: this log file of MySQL is encrypted", hint=_DECRYPTED)
        size = _event_bytes(self._data[at:])
        if not size or self._data[at + 4] != EventType.FORMAT_DESCRIPTION or size > _MAX_DESCRIPTION_BYTES:
            raise DecodeError(
                f"{self.file}:0: this is no log file of MySQL or MariaDB",
                hint="It must begin with the bytes fe 62 69 6e, or with a FORMAT_DESCRIPTION event.",
            )
        return self._data[at : at + size].tobytes()

    def _position_of_first(self) -> int:
        """Return where the first event after the FORMAT_DESCRIPTION event says that it lies; 0 without one."""
        head = self._data[self.bytes_read : self.bytes_read + HEADER_BYTES].tobytes()
        header = parse_header(head) if len(head) == HEADER_BYTES else None
        return header.log_pos - header.size_bytes if header is not None and header.log_pos else 0


def _event_bytes(events: Bytes) -> int:
    """Return the size that the first event says that it has; 0 when its header is not all there."""
    head = events[:HEADER_BYTES].tobytes()
    return parse_header(head).size_bytes if len(head) == HEADER_BYTES else 0
