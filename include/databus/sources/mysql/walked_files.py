"""Log files of a server as a walk sees them: when each was begun, and the GTIDs executed before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import HEADER_BYTES, MAGIC, EventType, parse_header
from databus.binlog.log.transactions.gtid_codec import decode_gtid_set
from databus.binlog.server.dump import Dump, DumpRequest
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import FileStart, WalkedStretch
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.server import MysqlServer, ServerLogFile

FIRST_POSITION = len(MAGIC)
NO_TABLES = TableCapture(("re:",))
OpenDump = Callable[[DumpRequest], Dump]


class WalkedFiles:
    """Log files of one server, read by dumps."""

    def __init__(self, server: MysqlServer, open_dump: OpenDump, flow: str):
        self._server = server
        self._open_dump = open_dump
        self._flow = flow

    def is_deleted(self, offset: BinlogOffset) -> bool:
        """Return whether an offset lies in a file before the first that the server still has; reads no file."""
        earliest = self._server.log_files()[0]
        return of_one_log(offset, earliest) and offset.file_number < earliest.number

    def file_start(self, file: ServerLogFile) -> BinlogOffset:
        """Return the start of a file with the GTIDs executed before it."""
        return self._begin(file)[0]

    def _begin(self, file: ServerLogFile) -> tuple[BinlogOffset, WalkedStretch | None]:
        """Return the start of a file, and its first events; None where there are none yet."""
        first, created_s = None, 0
        for piece in self.read(file.name):
            if isinstance(piece, WalkedStretch):
                first = piece
                break
            created_s = piece.created_s if piece.name == file.name else created_s
        offset = BinlogOffset(file.name, FIRST_POSITION, "", self._server.flavor, self._server.identity)
        return self._with_gtids(offset, previous_gtids(first) if first else "", created_s), first

    def _with_gtids(self, offset: BinlogOffset, gtids: str, created_s: int) -> BinlogOffset:
        if self._server.flavor == "mariadb":
            gtids = self._server.gtids_at(offset.file, offset.pos)
        return replace(offset, gtids=gtids, created_s=created_s)

    def read(self, file: str) -> Iterator[FileStart | WalkedStretch]:
        """Walk the log from the start of a file to its head."""
        walk = LogWalk(NO_TABLES, f"{file}:{FIRST_POSITION}", passes_statements=True)
        with self._open_dump(DumpRequest(file, FIRST_POSITION, self._server.flavor)) as dump:
            for batch in dump.batches():
                yield from walk.walk(batch)

    def created_s(self, file: ServerLogFile) -> int:
        """Return when the server began a file, in seconds of the epoch."""
        return next(p.created_s for p in self.read(file.name) if isinstance(p, FileStart))


def previous_gtids(piece: WalkedStretch) -> str:
    """Return the GTID set that a MySQL file's first event says was executed before it; "" where there is none."""
    if len(piece.events) <= HEADER_BYTES or piece.events[4] != EventType.PREVIOUS_GTIDS:
        return ""
    size = parse_header(piece.events[:HEADER_BYTES].tobytes()).size_bytes
    return str(decode_gtid_set(piece.events[HEADER_BYTES:size].tobytes()))


def of_one_log(offset: BinlogOffset, file: ServerLogFile) -> bool:
    """Return whether an offset's file and another have names of one log."""
    return offset.file.rpartition(".")[0] == file.name.rpartition(".")[0]
