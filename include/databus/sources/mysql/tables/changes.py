"""Table change times of a server, as its log records: read once for all flows of a process that ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from databus.binlog.kernels.walk import R_SLOT, R_TRANSACTION
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.statements.scope import as_logged
from databus.binlog.log.walk import Walk
from databus.binlog.server.dump import Dump, DumpRequest
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import FileStart
from databus.core.errors.source import DecodeError, OffsetInvalidError, OffsetPurgedError, SourceDivergedError
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.failover.replaced_log import check_created
from databus.sources.mysql.positions import request_after
from databus.sources.mysql.server import MysqlServer

OpenDump = Callable[[DumpRequest], Dump]
Place = tuple[int, int]
"""Number of a log file, position in it."""

_READ_EVERY_S = 1.0
_NO_TABLES = TableCapture(("re:(?!)",))


class TableChanges:
    """Follows one server's log, without its rows, from where the first flow stands that asks; safe to share by threads.

    A log that was replaced under the same names (RESET MASTER) begins its numbers anew: what is known is forgotten
    where a place or the log itself says that a file was begun at another time than it was known to be.

    Args:
        identity: of the server; when it changes, the log is another one and all is forgotten.
    """

    def __init__(self, identity: str):
        self.identity = identity
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._begin: Place = (0, 0)
        self._at: BinlogOffset | None = None
        self._last: dict[tuple[str, str], Place] = {}
        self._any: Place = (0, 0)
        self._begun: dict[int, int] = {}

    def since(self, after: BinlogOffset, capture: TableCapture, server: MysqlServer, open_dump: OpenDump) -> bool:
        """Return whether a captured table was changed behind a place; True where it cannot be determined.

        Args:
            after: the place, of this server's log.
            capture: which tables count.
            server: asked where its head is.
            open_dump: dumps the log, to the head.

        Raises:
            SourceUnavailableError: the server does not answer.
        """
        place = _place(after)

        def found() -> bool:
            return place < max(self._begin, self._any) or any(
                place < last and capture(*table) for table, last in self._last.items()
            )

        with self._lock:
            if self._at is None or self._may_be_of_another_log(after):
                self._at, self._begin, self._any, self._last, self._read_at = after, place, (0, 0), {}, 0.0
                self._begun = {after.file_number: after.created_s} if after.created_s else {}
            if found():
                return True
            if time.monotonic() - self._read_at < _READ_EVERY_S:
                return False
            try:
                self._read_on(self._at, server, open_dump, found)
            except (DecodeError, OffsetInvalidError, OffsetPurgedError, SourceDivergedError):
                self._at = None  # the flow's own run says what is wrong
                return True
            return found()

    def _may_be_of_another_log(self, after: BinlogOffset) -> bool:
        """Return whether the file of a place was begun at another time, or files of higher numbers before it.

        Where nothing is known of when files were begun, a place that says it may be of another log.
        """
        number, created_s = after.file_number, after.created_s
        if not created_s:
            return False
        if known := self._begun.get(number):
            return known != created_s
        begun = [(other, at) for other, at in self._begun.items() if at]
        return not begun or any(at < created_s if other > number else at > created_s for other, at in begun)

    def _read_on(
        self, start: BinlogOffset, server: MysqlServer, open_dump: OpenDump, enough: Callable[[], bool]
    ) -> None:
        head = server.head()
        if _place(head) != _place(start):
            walk = _TableWalk(start, self._last, folds=server.folds_names)
            with open_dump(request_after(start, follow=False)) as dump:
                for batch in dump.batches():
                    for piece in walk.walk(batch):
                        if isinstance(piece, FileStart):
                            check_created(server.place, start, (piece.name, piece.created_s), "")
                            walk.file = piece.name
                            self._begun[BinlogOffset(piece.name, 4).file_number] = piece.created_s
                    reached = walk.reached(start)
                    self._any = max(self._any, walk.any)
                    self._at = replace(reached, created_s=self._begun.get(reached.file_number, 0))
                    if enough():
                        return
        self._read_at = time.monotonic()


class _TableWalk(LogWalk):
    """Notes where each table was changed last, without knowing its columns.

    Attributes:
        file: the log file that is walked.
        any: where something was changed last of which the log does not say which tables it is of.
    """

    def __init__(self, start: BinlogOffset, last: dict[tuple[str, str], Place], *, folds: bool):
        super().__init__(_NO_TABLES, str(start))
        self._named = replace(_NO_TABLES, folds=folds)
        self.file, self.any = start.file, (0, 0)
        self._last, self._reached = last, _place(start)

    def reached(self, start: BinlogOffset) -> BinlogOffset:
        """Return the end of the last transaction, or the start of a file behind it."""
        number, position = self._reached
        file = start.file if number == start.file_number else self.file
        return BinlogOffset(file, position, "", start.flavor, start.server)

    def walked(self, walk: Walk, end: int) -> None:
        """Note the tables of a stretch; what is of a transaction that has not ended counts as at its end."""
        number = BinlogOffset(self.file, 4).file_number
        ends = [*(int(pos) for pos in walk.transactions.end_pos), end]
        rows = walk.rows
        for slot in np.unique(rows[:, R_SLOT]):
            if slot >= 0:
                newest = int(rows[rows[:, R_SLOT] == slot, R_TRANSACTION].max())
                table = walk.slots[int(slot)]
                self._last[table.database, table.table] = (number, ends[newest])
        for logged in walk.statements:
            named, place = as_logged(self._named, logged), (number, ends[min(logged.transaction, len(ends) - 1)])
            statement, database = named.statement, named.statement.database or named.query.database
            if statement.table and database:
                self._last[database, statement.table] = place
            else:
                self.any = place
        if walk.xa:
            self.any = (number, end)
        if len(ends) > 1:
            self._reached = (number, ends[-2])
        elif self._reached[0] != number:
            self._reached = (number, 4)


_shared: dict[tuple[str, int], TableChanges] = {}
_sharing = threading.Lock()


def changes_of(server: MysqlServer, address: str, generation: int = 0) -> TableChanges:
    """Return what this process knows of a server's tables.

    Args:
        server: the server.
        address: where it is.
        generation: how often the log was replaced under the flow that asks; what it learned before is of another log.
    """
    with _sharing:
        known = _shared.get((address, generation))
        if known is None or known.identity != server.identity:
            known = _shared[address, generation] = TableChanges(server.identity)
        return known


def _place(offset: BinlogOffset) -> Place:
    return offset.file_number, offset.pos
