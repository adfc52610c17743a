"""Decode a server's log over a connection of its own: transactions are collected until they end, then decoded."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.log_file import Change, LogFile, LoggedTransaction, Prepared
from databus.binlog.decoding.log_files import NO_DEFINITIONS
from databus.binlog.decoding.table_batch import SchemaIds
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import EventType
from databus.binlog.log.mapped import windows
from databus.binlog.schema_history.given import GivenDefinitions
from databus.binlog.segments.segment import segment_name
from databus.binlog.segments.store_space import writing
from databus.binlog.server.dump import Dump
from databus.binlog.server.log_places import start_request
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import FileStart, WalkedStretch
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

    def __init__(  # noqa: PLR0913 - as `read_server`
        self,
        connection: Connection,
        start: str,
        *,
        follow: bool = False,
        tables: TableCapture,
        server_id: int = 0,
        piece_bytes: int,
        prepared: Prepared = "inside",
        definitions: Mapping[str, str] = NO_DEFINITIONS,
    ) -> None:
        """Find the place and ask for the dump; arguments as for `read_server`."""
        self._tables, self._piece_bytes, self._prepared = tables, piece_bytes, prepared
        self._first_phases: dict[str, LoggedTransaction] = {}
        request = start_request(connection, start, follow=follow, server_id=server_id)
        self._definitions = GivenDefinitions(definitions, request.flavor, tables) if definitions else None
        self._walk = LogWalk(tables, f"{connection.host}: {start}", self._definitions)
        self._dump = Dump(connection, request)
        self._schema_ids = SchemaIds()
        self.file, self.position = request.file, request.pos
        self.transactions = self.bytes_read = 0
        self.event_counts: npt.NDArray[np.int64] = np.zeros(256, np.int64)
        self.server_version = ""

    @property
    def prepared(self) -> Collection[str]:
        """XA transactions that are prepared and not resolved."""
        return self._first_phases.keys()

    def close(self) -> None:
        """End the dump; safe to call twice."""
        self._dump.close()

    def __iter__(self) -> Iterator[Change]:
        """Yield changes until the head of the log, or for ever.

        Raises:
            SourceError: the server refused or cut the connection.
            DecodeError: an event is damaged, unknown or unsupported.
        """
        held: _HeldEvents | None = None
        try:
            with self._dump as dump:
                for events in dump.batches():
                    for piece in self._walk.walk(events):
                        if isinstance(piece, FileStart):
                            if held is not None:
                                held.close()
                            held = _HeldEvents(piece.description, piece.pos)
                            self.file, self.position = piece.name, piece.pos
                            self.event_counts[EventType.FORMAT_DESCRIPTION] += 1
                        elif held is not None:
                            yield from self._take(held, piece)
        finally:
            if held is not None:
                held.close()

    def _take(self, held: _HeldEvents, piece: WalkedStretch) -> Iterator[Change]:
        last = int(piece.offsets[-1]) if len(piece.offsets) else 0
        if last:
            held.append(piece.events[:last])
            yield from self._decoded(held, piece)
            held.begin(int(piece.transactions.end_pos[-1]))
        held.append(piece.events[last:])
        if not piece.open:
            self.position = piece.pos + len(piece.events)

    def _decoded(self, held: _HeldEvents, piece: WalkedStretch) -> Iterator[Change]:
        log = LogFile(
            held.data(),
            segment_name(self.file, held.start_pos),
            tables=self._tables,
            schema_ids=self._schema_ids,
            piece_bytes=self._piece_bytes,
            prepared=self._prepared,
            first_phases=self._first_phases,
            definitions=lambda _: self._definitions,
        )
        self.server_version = log.server_version
        yield from log
        counts = log.event_counts.copy()
        counts[EventType.FORMAT_DESCRIPTION] -= 1
        self.event_counts += counts
        self.transactions += log.transactions
        self.bytes_read += log.position - held.start_pos
        self.position = int(piece.transactions.end_pos[-1])


class _HeldEvents:
    """The events since the last decoded transaction, as a segment."""

    def __init__(self, description: bytes, pos: int) -> None:
        self._description = description
        self._spool: BinaryIO | None = None
        self.begin(pos)

    def begin(self, pos: int) -> None:
        """Let go of what is held; what comes next lies at this file position."""
        self.close()
        self.start_pos = pos
        self._parts = [self._description]
        self._size = len(self._description)

    def append(self, events: npt.NDArray[np.uint8]) -> None:
        """Take events; they are copied."""
        self._size += len(events)
        if self._size <= _IN_MEMORY_BYTES:
            self._parts.append(events.tobytes())
            return
        self._spool = self._spool or cast("BinaryIO", tempfile.TemporaryFile(prefix="databus-"))  # noqa: SIM115 - held on
        with writing(tempfile.gettempdir(), len(events)):
            self._spool.write(b"".join(self._parts))
            self._parts = []
            for window in windows(events):
                self._spool.write(window.data)

    def data(self) -> npt.NDArray[np.uint8]:
        """Return what is held; it stays as it is when this lets go of it."""
        if self._spool is None:
            return np.frombuffer(b"".join(self._parts), np.uint8)
        with writing(tempfile.gettempdir(), self._size):
            self._spool.flush()
        mapped: npt.NDArray[np.uint8] = np.memmap(self._spool, np.uint8, mode="r")
        return mapped

    def close(self) -> None:
        """Close the temporary file, if there is one."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
