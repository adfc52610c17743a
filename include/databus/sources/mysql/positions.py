"""Places in a server's log: where a flow starts, where a GTID set or a time lies."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from databus.binlog.log.events import CHECKSUM_BYTES, HEADER_BYTES, EventType, parse_header
from databus.binlog.log.transactions.executed_gtids import ExecutedGtids
from databus.binlog.server.dump import DumpRequest
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import FileStart, WalkedStretch
from databus.core.errors.source import OffsetInvalidError, OffsetPurgedError, SourceDivergedError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.failover.replaced_log import ReplacedLogCheck
from databus.sources.mysql.place_checks import PlaceChecks
from databus.sources.mysql.server import ServerLogFile
from databus.sources.mysql.spec import GTID_PREFIX, file_and_position, parse_time
from databus.sources.mysql.walked_files import FIRST_POSITION, NO_TABLES, previous_gtids

CLOCK_SLACK = timedelta(seconds=60)
"""A transaction's commit time may lie this far before the creation time of the log file that holds it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GTID_TYPES = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}


class MysqlPositions(PlaceChecks):
    """Resolves places in one server's log."""

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

    def at_position(self, file: str, pos: int) -> BinlogOffset:
        """Return a place given by file and position, with the GTIDs executed there.

        Reads the file up to the position.

        Raises:
            OffsetPurgedError: the file was deleted.
            OffsetInvalidError: no transaction boundary lies there.
        """
        offset = BinlogOffset(file, pos, "", self._server.flavor, self._server.identity)
        self.check(offset)
        if pos == FIRST_POSITION:
            return self.file_start(ServerLogFile(file, pos))
        gtids, boundary, behind, created_s = None, False, FIRST_POSITION, 0
        for piece in self.read(file):
            if isinstance(piece, FileStart):
                if piece.name != file:
                    break
                behind, created_s = piece.pos, piece.created_s
                continue
            if gtids is None:
                gtids = ExecutedGtids(self._server.flavor, previous_gtids(piece))
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

        Files are distinguished by the time the server began them; within one all commit times are looked at, since they
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
        walk = LogWalk(NO_TABLES, str(after), passes_statements=True)
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
                waiting = ExecutedGtids(self._server.flavor, previous_gtids(piece))
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

    def _size(self, file: str) -> int:
        return next(f.size_bytes for f in self._server.log_files() if f.name == file)

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
        with self._open_dump(DumpRequest("", FIRST_POSITION, self._server.flavor, gtids=gtids)) as dump:
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
