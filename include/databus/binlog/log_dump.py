"""Decode a server's log over a connection of its own: transactions are collected until they end, then decoded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from databus.binlog.capture import TableCapture
from databus.binlog.dump import Dump
from databus.binlog.events import EventType
from databus.binlog.log_file import Change, LogFile
from databus.binlog.log_places import start_request
from databus.binlog.log_walk import FileStart, LogWalk, Stretch
from databus.binlog.schema_ids import SchemaIds
from databus.binlog.segments import segment_name
from databus.core.connections import Connection

_IN_MEMORY_BYTES = 64 << 20
"""A transaction longer than this is collected in a temporary file."""


class LogDump:
    """A running dump that is decoded as transactions end; the position is at 0 until the server named its file.

    Attributes:
        file: log file being read.
        position: file position after the last transaction that came out.
        transactions: transactions that came out.
        event_counts: int64[256], events per type.
        bytes_read: log bytes of the transactions that came out.
        server_version: version of the server that wrote the log.
    """

    def __init__(
        self,
        connection: Connection,
        start: str,
        *,
        follow: bool = False,
        tables: TableCapture,
        server_id: int = 0,
        piece_bytes: int,
    ) -> None:
        """Find the place and ask for the dump; arguments as for `read_server`."""
        self._tables, self._piece_bytes = tables, piece_bytes
        request = start_request(connection, start, follow=follow, server_id=server_id)
        self._walk = LogWalk(tables, f"{connection.host}: {start}")
        self._dump = Dump(connection, request)
        self._schema_ids = SchemaIds()
        self.file, self.position = request.file, request.pos
        self.transactions = self.bytes_read = 0
        self.event_counts: npt.NDArray[np.int64] = np.zeros(256, np.int64)
        self.server_version = ""

    def close(self) -> None:
        """End the dump; safe to call twice."""
        self._dump.close()

    def __iter__(self) -> Iterator[Change]:
        """Yield changes until the head of the log, or for ever.

        Raises:
            SourceError: the server refused or cut the connection.
            DecodeError: an event is damaged, unknown or unsupported.
        """
        held: _Held | None = None
        with self._dump as dump, _Spool() as spool:
            for events in dump.batches():
                for piece in self._walk.walk(events):
                    if isinstance(piece, FileStart):
                        held = _Held(spool, piece)
                        self.file, self.position = piece.name, piece.pos
                        self.event_counts[EventType.FORMAT_DESCRIPTION] += 1
                    elif held is not None:
                        yield from self._take(held, piece)

    def _take(self, held: _Held, piece: Stretch) -> Iterator[Change]:
        last = int(piece.offsets[-1]) if len(piece.offsets) else 0
        if last:
            held.append(piece.events[:last])
            yield from self._decoded(held, piece)
            held.begin(int(piece.transactions.end_pos[-1]))
        held.append(piece.events[last:])
        if not piece.open:
            self.position = piece.pos + len(piece.events)

    def _decoded(self, held: _Held, piece: Stretch) -> Iterator[Change]:
        log = LogFile(
            held.rewound(),
            segment_name(self.file, held.start_pos),
            tables=self._tables,
            schema_ids=self._schema_ids,
            piece_bytes=self._piece_bytes,
        )
        self.server_version = log.server_version
        yield from log
        counts = log.event_counts.copy()
        counts[EventType.FORMAT_DESCRIPTION] -= 1
        self.event_counts += counts
        self.transactions += log.transactions
        self.bytes_read += log.position - held.start_pos
        self.position = int(piece.transactions.end_pos[-1])


class _Spool(tempfile.SpooledTemporaryFile[bytes]):
    def __init__(self) -> None:
        super().__init__(max_size=_IN_MEMORY_BYTES, prefix="databus-")


class _Held:
    """The events since the last decoded transaction, as a segment."""

    def __init__(self, spool: _Spool, file: FileStart) -> None:
        self._spool, self._description = spool, file.description
        self.begin(file.pos)

    def begin(self, pos: int) -> None:
        """Let go of what is held; what comes next lies at this file position."""
        self.start_pos = pos
        self._spool.seek(0)
        self._spool.truncate()
        self._spool.write(self._description)

    def append(self, events: npt.NDArray[np.uint8]) -> None:
        self._spool.write(np.ascontiguousarray(events).tobytes())

    def rewound(self) -> BinaryIO:
        self._spool.seek(0)
        return cast("BinaryIO", self._spool)
