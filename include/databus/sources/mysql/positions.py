"""Places in a server's log: where a flow starts, what a checkpoint may be, where a time lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import CHECKSUM_BYTES, HEADER_BYTES, MAGIC, EventType, parse_header
from databus.binlog.log.transactions.executed_gtids import ExecutedGtids
from databus.binlog.log.transactions.gtid_codec import decode_gtid_set
from databus.binlog.server.dump import Dump, DumpRequest
from databus.binlog.server.log_walk import FileStart, LogWalk, WalkedStretch
from databus.core.errors import OffsetInvalidError, OffsetPurgedError, SourceDivergedError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.failover.left_log import LeftLog, gtid_list
from databus.sources.mysql.failover.purged_log import purged
from databus.sources.mysql.failover.replaced_log import (
    ReplacedLogCheck,
    beyond_head,
    check_created,
    contradiction,
    lost_end,
    replaced,
)
from databus.sources.mysql.server import MysqlServer, ServerLogFile
from databus.sources.mysql.spec import GTID_PREFIX, file_and_position, parse_time

CLOCK_SLACK = timedelta(seconds=60)
"""A transaction's commit time may lie this far before the creation time of the log file that holds it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_POSITION = len(MAGIC)
_NO_TABLES = TableCapture(("re:",))
_GTID_TYPES = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}
OpenDump = Callable[[DumpRequest], Dump]


class MysqlPositions:
    """Resolves places in one server's log."""

    def __init__(self, server: MysqlServer, open_dump: OpenDump, flow: str):
        self._server = server
        self._open_dump = open_dump
        self._flow = flow

    def named(self, start: str) -> BinlogOffset:
        """Return the place that a flow's `start` names.

        Raises:
            OffsetInvalidError, OffsetPurgedError, SourceDivergedError: it is not in this server's log.
        """
        if start == "latest":
            head = self._server.head()
            return replace(head, created_s=self.created_s(ServerLogFile(head.file, head.pos)))
        if start == "earliest":
            return self.earliest()
        if start.startswith(GTID_PREFIX):
            return self.after_gtids(start[len(GTID_PREFIX) :])
        place = file_and_position(start)
        return self.at_position(*place) if place else self.at_time(parse_time(start))

    def earliest(self) -> BinlogOffset:
        """Return the start of the oldest file."""
        return self.file_start(self._server.log_files()[0])

    def check(self, offset: BinlogOffset) -> None:
        """Refuse a checkpoint that this server's log does not continue, before anything is read.

        Raises:
            SourceDivergedError: it is of another server, or of a log that was replaced.
            OffsetPurgedError: its file was deleted.
            OffsetInvalidError: it lies past the end of its file, or its file never was.
        """
        server = self._server
        if offset.flavor != server.flavor or (offset.server and offset.server != server.identity):
            raise SourceDivergedError(
                f"{server.place}: the checkpoint {offset} is of {offset.flavor} server "
                f"{offset.server}, this is {server.flavor} {server.identity}",
                hint="Point the connection at the former server.",
            )
        files = {f.name: f for f in server.log_files()}
        if offset.file not in files:
            self._missing(offset, list(files.values()))
        if offset.pos > (size := files[offset.file].size_bytes):
            self.check_created(offset)
            if offset.created_s:
                raise lost_end(server.place, offset, size, self._flow)
            self._check_executed(offset)
            raise OffsetInvalidError(
                f"{server.place}: {offset} is past the end of its file, {size}",
                hint="The server lost the end of its log (crash, restored copy), or the checkpoint is "
                "of another one. Compare SHOW BINARY LOGS.",
            )

    def check_history(self, offset: BinlogOffset) -> None:
        """Refuse a checkpoint whose place in this server's log belongs to a log that replaced the one that was read.

        By GTID; when the file was begun is compared where it is read (`ReplacedLogCheck`). Where the checkpoint does
        not say that (an earlier version wrote it), MySQL's file is read up to the place.

        Raises:
            SourceDivergedError: the GTIDs there are of another history.
        """
        if not offset.gtids:
            return
        if self._server.flavor == "mariadb":
            why = contradiction(offset, self._server.gtids_at(offset.file, offset.pos))
        elif (lacking := self._not_executed(offset)).intervals:
            # A dump delivers what is still being committed (semi-sync: until a replica answers): the log has it then.
            lacking = lacking.minus(MysqlGtidSet.parse(self._gtids_before(offset)))
            why = f"this server never executed {lacking}" if lacking.intervals else ""
        else:
            why = "" if offset.created_s else contradiction(offset, self._gtids_before(offset))
        if why:
            raise replaced(self._server.place, offset, why, self._flow)

    def _not_executed(self, offset: BinlogOffset) -> MysqlGtidSet:
        return MysqlGtidSet.parse(offset.gtids).minus(MysqlGtidSet.parse(self._server.head().gtids))

    def check_created(self, offset: BinlogOffset) -> None:
        """Refuse a checkpoint in a file that was begun at another time than the server's file of that name.

        Raises:
            SourceDivergedError: it was.
        """
        if offset.created_s:
            created_s = self.created_s(ServerLogFile(offset.file, offset.pos))
            check_created(self._server.place, offset, (offset.file, created_s), self._flow)

    def _gtids_before(self, offset: BinlogOffset) -> str:
        """Return the GTIDs executed before a place by a MySQL log file, which is read up to it."""
        gtids: ExecutedGtids | None = None
        for piece in self.read(offset.file):
            if isinstance(piece, FileStart):
                if piece.name != offset.file:
                    break
                continue
            if gtids is None:
                gtids = ExecutedGtids(self._server.flavor, _previous_gtids(piece))
            ends = piece.transactions.end_pos
            passed = int(np.searchsorted(ends, offset.pos, side="right"))
            gtids.add(piece.transactions.gtid.slice(0, passed))
            if passed < len(ends):
                break
        return gtids.text() if gtids else ""

    def is_deleted(self, offset: BinlogOffset) -> bool:
        """Tell whether an offset lies in a file before the first that the server still has; reads no file."""
        earliest = self._server.log_files()[0]
        return _of_one_log(offset, earliest) and offset.file_number < earliest.number

    def at_position(self, file: str, pos: int) -> BinlogOffset:
        """Return a place given by file and position, with the GTIDs executed there.

        Reads the file up to the position.

        Raises:
            OffsetPurgedError: the file was deleted.
            OffsetInvalidError: no transaction boundary lies there.
        """
        offset = BinlogOffset(file, pos, "", self._server.flavor, self._server.identity)
        self.check(offset)
        if pos == _FIRST_POSITION:
            return self.file_start(ServerLogFile(file, pos))
        gtids, boundary, behind, created_s = None, False, _FIRST_POSITION, 0
        for piece in self.read(file):
            if isinstance(piece, FileStart):
                if piece.name != file:
                    break
                behind, created_s = piece.pos, piece.created_s
                continue
            if gtids is None:
                gtids = ExecutedGtids(self._server.flavor, _previous_gtids(piece))
            ends = piece.transactions.end_pos
            boundary = boundary or pos in ends or pos in piece.transactions.start_pos or pos == piece.pos
            passed = int(np.searchsorted(ends, pos, side="right"))
            gtids.add(piece.transactions.gtid.slice(0, passed))
            behind = int(ends[-1]) if len(ends) else behind
            if behind >= pos:
                break
        # After the last transaction only the file's closing event may follow.
        if not boundary and not behind < pos == self._size(file):
            raise OffsetInvalidError(
                f"{self._server.place}: {offset} is not the end of a transaction",
                hint=f"Take the Pos of a Gtid event from SHOW BINLOG EVENTS IN '{file}'.",
            )
        return self._with_gtids(offset, gtids.text() if gtids else "", created_s)

    def after_gtids(self, text: str) -> BinlogOffset:
        """Return the place after which exactly the transactions outside a GTID set (MariaDB: position) follow.

        Raises:
            OffsetPurgedError: some of them were deleted from the log.
            SourceDivergedError: the set has transactions that this server never saw.
            OffsetInvalidError: the set has holes that no single place of the log stands for.
        """
        if self._server.flavor == "mariadb":
            MariadbGtidPosition.parse(text)
        else:
            self._check_gtid_set(MysqlGtidSet.parse(text))
        place = self._first_missing(text)
        found = self.named("latest") if place is None else self._before(*place)
        if self._server.flavor == "mysql" and not MysqlGtidSet.parse(found.gtids).contains(MysqlGtidSet.parse(text)):
            raise OffsetInvalidError(
                f"{self._server.place}: transactions of {text} lie on both sides of "
                f"{found}, the first that is not in the set",
                hint="Give a set without holes: what a server's @@gtid_executed was at one moment.",
            )
        return found

    def _before(self, file: str, pos: int) -> BinlogOffset:
        """Return the place before a transaction; before a file's first one its start, at which a range can end."""
        found = self.at_position(file, pos)
        start = self.file_start(ServerLogFile(file, pos))
        return start if start.same_gtids(found) else found

    def at_time(self, when: datetime) -> BinlogOffset:
        """Return the last boundary at which every later transaction committed at or after a time.

        Files are told apart by the time the server began them; within one all commit times are looked at, since they
        do not rise steadily.
        """
        files = self._server.log_files()
        low, high = 0, len(files)
        while low < high:
            middle = (low + high) // 2
            if self.created_s(files[middle]) <= (when + CLOCK_SLACK).timestamp():
                low = middle + 1
            else:
                high = middle
        for file in reversed(files[:low]):
            found = self._last_before(file.name, first_ms_from(when))
            if found is not None:
                return found
        return self.file_start(files[0])

    def first_commit_ms(self, after: BinlogOffset, *, overlaps: bool = False) -> int | None:
        """Return the commit time of the first transaction after a place, None when there is none.

        Args:
            after: the place.
            overlaps: whether transactions behind it may be among those executed before it (a failover).

        Raises:
            SourceDivergedError: the log was replaced since it was read up to the place.
        """
        request = request_after(after, follow=False)
        walk = LogWalk(_NO_TABLES, str(after), passes_statements=True)
        check = ReplacedLogCheck(self._server.place, after, self._flow, overlaps=overlaps)
        with self._open_dump(request) as dump:
            for batch in dump.batches():
                for piece in walk.walk(batch):
                    check.look(piece)
                    if isinstance(piece, WalkedStretch) and len(piece.transactions):
                        return int(piece.transactions.ts_ms[0])
        return None

    def _last_before(self, file: str, when_ms: int) -> BinlogOffset | None:
        found: int | None = None
        created_s = 0
        gtids: ExecutedGtids | None = None
        waiting: ExecutedGtids | None = None
        for piece in self.read(file):
            if isinstance(piece, FileStart):
                if piece.name != file:
                    break
                created_s = piece.created_s
                continue
            if waiting is None:
                waiting = ExecutedGtids(self._server.flavor, _previous_gtids(piece))
            early = np.flatnonzero(piece.transactions.ts_ms < when_ms)
            last = int(early[-1]) + 1 if len(early) else 0
            waiting.add(piece.transactions.gtid.slice(0, last))
            if last:
                found = int(piece.transactions.end_pos[last - 1])
                gtids = ExecutedGtids(self._server.flavor, waiting.text())
            waiting.add(piece.transactions.gtid.slice(last))
        if found is None or gtids is None:
            return None
        offset = BinlogOffset(file, found, "", self._server.flavor, self._server.identity)
        return self._with_gtids(offset, gtids.text(), created_s)

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
        offset = BinlogOffset(file.name, _FIRST_POSITION, "", self._server.flavor, self._server.identity)
        return self._with_gtids(offset, _previous_gtids(first) if first else "", created_s), first

    def _with_gtids(self, offset: BinlogOffset, gtids: str, created_s: int) -> BinlogOffset:
        if self._server.flavor == "mariadb":
            gtids = self._server.gtids_at(offset.file, offset.pos)
        return replace(offset, gtids=gtids, created_s=created_s)

    def read(self, file: str) -> Iterator[FileStart | WalkedStretch]:
        """Walk the log from the start of a file to its head."""
        walk = LogWalk(_NO_TABLES, f"{file}:{_FIRST_POSITION}", passes_statements=True)
        with self._open_dump(DumpRequest(file, _FIRST_POSITION, self._server.flavor)) as dump:
            for batch in dump.batches():
                yield from walk.walk(batch)

    def created_s(self, file: ServerLogFile) -> int:
        """Return when the server began a file, in seconds of the epoch."""
        return next(p.created_s for p in self.read(file.name) if isinstance(p, FileStart))

    def _size(self, file: str) -> int:
        return next(f.size_bytes for f in self._server.log_files() if f.name == file)

    def _check_executed(self, offset: BinlogOffset) -> None:
        if offset.gtids and (why := beyond_head(offset, self._server.head().gtids)):
            raise replaced(self._server.place, offset, why, self._flow)

    def _missing(self, offset: BinlogOffset, files: list[ServerLogFile]) -> None:
        earliest, place = files[0], self._server.place
        if _of_one_log(offset, earliest) and offset.file_number < earliest.number:
            self._check_executed(offset)
            left = self._left(earliest)
            if why := left.contradicts(offset):
                raise replaced(place, offset, why, self._flow)
            raise purged(place, offset, left.start, self._flow)
        has = f"the server has no log file {offset.file}; it has {earliest.name} to {files[-1].name}"
        if offset.gtids or offset.created_s:  # a place that was read, and no words of a person
            raise replaced(place, offset, has, self._flow)
        raise OffsetInvalidError(
            f"{place}: {has}",
            hint="The log was reset (RESET MASTER) or renamed, or the checkpoint is of another server.",
        )

    def _left(self, earliest: ServerLogFile) -> LeftLog:
        """Look at what is left of the log, from its first file on."""
        start, events = self._begin(earliest)
        head = self._server.head().gtids
        if self._server.flavor == "mariadb":
            return LeftLog(start, head, listed=gtid_list(events) if events else None)
        return LeftLog(start, head, purged=self._gtid_purged())

    def _gtid_purged(self) -> str:
        return str(self._server.query("SELECT @@GLOBAL.gtid_purged")[0][0]).replace("\n", "")

    def _check_gtid_set(self, wanted: MysqlGtidSet) -> None:
        executed = MysqlGtidSet.parse(self._server.head().gtids)
        purged = MysqlGtidSet.parse(self._gtid_purged())
        if unknown := wanted.minus(executed).intervals:
            raise SourceDivergedError(
                f"{self._server.place}: this server never executed {MysqlGtidSet(unknown)}",
                hint="It is of another history: check the set.",
            )
        if gone := purged.minus(wanted).intervals:
            raise OffsetPurgedError(
                f"{self._server.place}: {MysqlGtidSet(gone)} was deleted from the log",
                hint="Take a new snapshot, or start at a set that contains @@gtid_purged knowingly.",
            )

    def _first_missing(self, gtids: str) -> tuple[str, int] | None:
        """Ask the server to dump what a set lacks, and return where the first of it lies.

        Events before it may be left out by the server, so positions are taken from the event's own header.
        """
        file = ""
        with self._open_dump(DumpRequest("", _FIRST_POSITION, self._server.flavor, gtids=gtids)) as dump:
            for batch in dump.batches():
                at = 0
                while at < batch.end:
                    header = parse_header(batch.buffer[at : at + HEADER_BYTES].tobytes())
                    if header.event_type == EventType.ROTATE and header.log_pos == 0:
                        name = batch.buffer[at + 27 : at + header.size_bytes].tobytes()
                        file = self._known_file(name)
                    elif header.event_type in _GTID_TYPES:
                        return file, header.log_pos - header.size_bytes
                    at += header.size_bytes
        return None

    def _known_file(self, name: bytes) -> str:
        """Return the log file that a ROTATE event names; a checksum may follow the name."""
        for file in self._server.log_files():
            if name.startswith(file.name.encode()) and len(name) - len(file.name) in (0, CHECKSUM_BYTES):
                return file.name
        raise OffsetInvalidError(f"{self._server.place}: the server dumps {name!r}, which is none of its log files")


def request_after(offset: BinlogOffset, *, follow: bool) -> DumpRequest:
    """Return the request for the log after an offset; past 4 GiB MariaDB can start by GTID only."""
    by_gtid = offset.flavor == "mariadb" and offset.pos >> 32 and offset.gtids
    return DumpRequest(offset.file, offset.pos, offset.flavor, follow, offset.gtids if by_gtid else None)


def first_ms_from(when: datetime) -> int:
    """Return the first whole millisecond, the resolution of commit times, that is not before a time."""
    return -((_EPOCH - when) // timedelta(milliseconds=1))


def _previous_gtids(piece: WalkedStretch) -> str:
    """Return the GTID set that a MySQL file's first event says was executed before it; "" where there is none."""
    if len(piece.events) <= HEADER_BYTES or piece.events[4] != EventType.PREVIOUS_GTIDS:
        return ""
    size = parse_header(piece.events[:HEADER_BYTES].tobytes()).size_bytes
    return str(decode_gtid_set(piece.events[HEADER_BYTES:size].tobytes()))


def _of_one_log(offset: BinlogOffset, file: ServerLogFile) -> bool:
    return offset.file.rpartition(".")[0] == file.name.rpartition(".")[0]
