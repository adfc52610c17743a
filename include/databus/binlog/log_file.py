"""Decode one log file from start to end with bounded memory, however long the file or a transaction in it is."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from databus.binlog.decode import DecodedEvents, TableFilter, every_table
from databus.binlog.events import (
    FLAG_IN_USE,
    HEADER_BYTES,
    MAGIC,
    EventType,
    parse_format_description,
    parse_header,
)
from databus.binlog.kernels.walk import R_TRANSACTION
from databus.binlog.log_piece import LogPiece
from databus.binlog.long_transaction import LongTransaction, open_at_end
from databus.binlog.schema_ids import SchemaIds
from databus.binlog.table_batch import TableBatch, TableEvent, Transactions
from databus.binlog.walker import Walk, Walker
from databus.core.errors import DecodeError

Change = tuple[TableBatch | TableEvent, Transactions]
"""What was decoded, and the transactions that its `transaction` points into."""

PIECE_BYTES = 16 << 20
"""How much of a file is held at a time, unless one event is larger."""

_SEGMENT_NAME = re.compile(r"(?P<file>.+\.\d+)\.(?P<pos>\d{20})\.events")
_MAX_DESCRIPTION_BYTES = 4096


class LogFile:
    """Reads a log file, or a segment: the same bytes without the 4-byte magic, from any transaction on.

    Rows come in log order per table; between two statements (TRUNCATE, DDL) the tables of a piece follow one another.
    Nothing of a transaction comes out before its end was seen: one that is longer than a piece is read twice.

    Attributes:
        file: name of the log file.
        transactions: transactions read so far.
        position: file position after the last of them.
        server_version: version of the server that wrote the log.
        checksum: whether its events end with a CRC32.
    """

    def __init__(
        self,
        source: BinaryIO,
        name: str,
        *,
        tables: TableFilter = every_table,
        schema_ids: SchemaIds | None = None,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """Read the head of the file.

        Args:
            source: seekable, at the log's beginning; is not closed.
            name: file name; that of a segment also says where it lies in its log file.
            tables: which tables' rows are wanted.
            schema_ids: numbers for the schemas met.
            piece_bytes: how much to hold at a time.

        Raises:
            DecodeError: this is no log file.
        """
        segment = _SEGMENT_NAME.fullmatch(name)
        self.file = segment["file"] if segment else name
        self._source, self._tables, self._schema_ids = source, tables, schema_ids or SchemaIds()
        self._piece_bytes = piece_bytes
        head = source.read(len(MAGIC))
        magic = head == MAGIC
        description = self._read_description(b"" if magic else head)
        self._format = parse_format_description(description, f"{self.file}:{len(MAGIC)}")
        self.server_version, self.checksum = self._format.server_version, self._format.checksum
        self._in_use = bool(parse_header(description).flags & FLAG_IN_USE)
        self._begin = source.tell()
        start = len(MAGIC) + len(description)
        if segment:
            start = int(segment["pos"])
        elif not magic:
            start = self._position_of_first() or start
        self._walker = Walker(self.file, start, format=self._format)
        self._walker.counts[EventType.FORMAT_DESCRIPTION] += 1
        self.position = start
        self.transactions = 0

    @property
    def event_counts(self) -> npt.NDArray[np.int64]:
        """Events per type, int64[256], of what has been read so far."""
        return self._walker.counts

    @property
    def bytes_read(self) -> int:
        """Bytes up to the place read so far."""
        return self._source.tell()

    def __iter__(self) -> Iterator[Change]:
        """Decode the file; once.

        Raises:
            DecodeError: an event is damaged, unknown or unsupported, or the file ends inside an event or a transaction;
                every transaction before it has been yielded.
        """
        self._source.seek(self._begin)
        piece = LogPiece(self._piece_bytes)
        more = True
        while more:
            more = piece.fill(self._source)
            walk, fault = self._walk(piece)
            if len(walk.transactions):
                yield from self._decoded(piece, walk)
                self.transactions += len(walk.transactions)
                self.position = int(walk.transactions.end_pos[-1])
            if fault is not None:
                raise fault
            if walk.open:
                piece.drop_ended(walk)
            else:
                piece.drop_walked()
            if piece.full and piece.walked and more:
                yield from self._long_transaction(piece)
        if piece.filled:
            hint = "The server has the file open: read it again later." if self._in_use else None
            raise open_at_end(self._walker, piece.filled - piece.walked, hint)
        self.position = self._walker.position

    def _walk(self, piece: LogPiece) -> tuple[Walk, DecodeError | None]:
        """Walk over what is new; at a fault, over the piece up to it, so that what ended before can be decoded."""
        try:
            return piece.walk(self._walker), None
        except DecodeError as error:
            fault = error
        counts, start = self._walker.counts, self._walker.position - piece.walked
        piece.restart(piece.walked + self._walker.offset)
        self._walker = Walker(self.file, start, format=self._format, counts=counts - _counts(piece.bytes()))
        return piece.walk(self._walker), fault

    def _decoded(self, piece: LogPiece, walk: Walk) -> Iterator[Change]:
        """Decode the transactions that ended, cut at statements, which concern all rows after them."""
        statements = {s.transaction for s in walk.statements if s.transaction < len(walk.transactions)}
        cuts = sorted({0, len(walk.transactions), *statements, *(t + 1 for t in statements)})
        number = walk.rows[:, R_TRANSACTION]
        for first, last in itertools.pairwise(cuts):
            low, high = np.searchsorted(number, (first, last)).tolist()
            if low == high:
                continue
            inside = [
                dataclasses.replace(s, row_event=s.row_event - low)
                for s in walk.statements
                if first <= s.transaction < last
            ]
            part = dataclasses.replace(walk, rows=walk.rows[low:high], statements=inside)
            for item in DecodedEvents(piece.walked_bytes(), self._walker, part, self._tables, self._schema_ids):
                yield item, walk.transactions

    def _long_transaction(self, piece: LogPiece) -> Iterator[Change]:
        """Decode a transaction that fills the piece and does not end in it."""
        offset = self._source.tell() - piece.filled
        start = self._walker.position - piece.walked
        counts = self._walker.counts - _counts(piece.walked_bytes())
        piece.clear()
        reading = LongTransaction(self._source, offset, self._piece_bytes)
        # The end is looked for with a walker of its own, so that nothing is counted twice.
        transactions = reading.find_end(Walker(self.file, start, format=self._format))
        self._walker = Walker(self.file, start, format=self._format, counts=counts)
        for item in reading.read(self._walker, transactions, self._tables, self._schema_ids):
            yield item, transactions
        self.transactions += 1
        self.position = int(transactions.end_pos[0])

    def _read_description(self, head: bytes) -> bytes:
        head += self._source.read(HEADER_BYTES - len(head))
        size = parse_header(head).size_bytes if len(head) == HEADER_BYTES else 0
        if len(head) < HEADER_BYTES or head[4] != EventType.FORMAT_DESCRIPTION or size > _MAX_DESCRIPTION_BYTES:
            raise DecodeError(
                f"{self.file}:0: this is no log file of MySQL or MariaDB",
                hint="It must begin with the bytes fe 62 69 6e, or with a FORMAT_DESCRIPTION event.",
            )
        return head + self._source.read(size - HEADER_BYTES)

    def _position_of_first(self) -> int:
        """Return where the first event after the FORMAT_DESCRIPTION event says that it lies; 0 without one."""
        head = self._source.read(HEADER_BYTES)
        header = parse_header(head) if len(head) == HEADER_BYTES else None
        return header.log_pos - header.size_bytes if header is not None and header.log_pos else 0


def _counts(events: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Count events per type in a stretch of whole events."""
    counts, at, view = np.zeros(256, np.int64), 0, events.data
    while at < len(events):
        header = parse_header(view, at)
        counts[header.event_type] += 1
        at += header.size_bytes
    return counts
