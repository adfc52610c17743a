"""Checks of a checkpoint's place: whether it is one of this server's log, and of the log that was read."""

from __future__ import annotations

import numpy as np

from databus.binlog.log.transactions.executed_gtids import ExecutedGtids
from databus.binlog.server.stretches import FileStart
from databus.core.errors.source import OffsetInvalidError, SourceDivergedError
from databus.core.positions.gtid import MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.failover.left_log import LeftLog, gtid_list
from databus.sources.mysql.failover.purged_log import purged
from databus.sources.mysql.failover.replaced_log import beyond_head, check_created, contradiction, lost_end, replaced
from databus.sources.mysql.server import ServerLogFile
from databus.sources.mysql.walked_files import WalkedFiles, of_one_log, previous_gtids


class PlaceChecks(WalkedFiles):
    """Refuses places that are none of one server's log."""

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
                gtids = ExecutedGtids(self._server.flavor, previous_gtids(piece))
            ends = piece.transactions.end_pos
            passed = int(np.searchsorted(ends, offset.pos, side="right"))
            gtids.add(piece.transactions.gtid.slice(0, passed))
            if passed < len(ends):
                break
        return gtids.text() if gtids else ""

    def _check_executed(self, offset: BinlogOffset) -> None:
        if offset.gtids and (why := beyond_head(offset, self._server.head().gtids)):
            raise replaced(self._server.place, offset, why, self._flow)

    def _missing(self, offset: BinlogOffset, files: list[ServerLogFile]) -> None:
        earliest, place = files[0], self._server.place
        if of_one_log(offset, earliest) and offset.file_number < earliest.number:
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
