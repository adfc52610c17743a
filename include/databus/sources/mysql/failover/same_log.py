"""Log identity: whether the log that a server has is the one that a flow's place is of, before and while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from databus.core.errors.source import OffsetInvalidError, OffsetPurgedError, SourceDivergedError, SourceError
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.dump.kept_segments import SegmentRelay
from databus.sources.mysql.failover.replaced_log import beyond_head, contradiction, replaced
from databus.sources.mysql.positions import MysqlPositions
from databus.sources.mysql.server import MysqlServer


class SameLog:
    """Compares places with one server's log; changes nothing."""

    def __init__(self, server: MysqlServer, positions: MysqlPositions, relay: SegmentRelay, flow: str):
        self._server, self._positions, self._relay, self._flow = server, positions, relay, flow

    def check_history(self, offset: BinlogOffset) -> None:
        """Compare the GTIDs at a place of this server with the checkpoint's; what is kept was compared when found.

        Raises:
            SourceDivergedError: they are of another history.
        """
        if not (self._positions.is_deleted(offset) and self._relay.log_from(offset)):
            self._positions.check_history(offset)

    def check_at_head(self, offset: BinlogOffset, head: BinlogOffset) -> None:
        """Compare a checkpoint at the end of the log with what is there: no file is read where GTIDs show it.

        Raises:
            SourceDivergedError: they are of another history.
        """
        if self._server.flavor == "mysql":
            if beyond_head(offset, head.gtids):
                self._positions.check_history(offset)
        elif why := contradiction(offset, head.gtids):
            raise replaced(self._server.place, offset, why, self._flow)

    def check_created(self, offset: BinlogOffset) -> None:
        """Ask when the file of a checkpoint was begun, which is else compared as the file is read.

        Raises:
            SourceDivergedError: at another time.
        """
        if not self._positions.is_deleted(offset):
            self._positions.check_created(offset)

    def replaced(self, offset: BinlogOffset) -> SourceDivergedError | None:
        """Return the error that says how a log of this server's replaced that of a place, None where none did.

        A place of another server is none of this one's to judge: a failover finds it by GTID.
        """
        if offset.flavor != self._server.flavor or (offset.server and offset.server != self._server.identity):
            return None
        try:
            self._positions.check(offset)
            self._positions.check_created(offset)
            self._positions.check_history(offset)
        except SourceDivergedError as error:
            return error
        except (OffsetPurgedError, OffsetInvalidError):
            return None  # a deleted file, a lost end: nothing says that it is another log
        return None

    @contextmanager
    def naming(self, offset: BinlogOffset) -> Iterator[None]:
        """Name a log that was replaced where reading it fails from a place on: its server only says how it fails."""
        try:
            yield
        except SourceDivergedError:
            raise
        except SourceError as error:
            if error.retryable:
                raise
            why = self.replaced(offset)
            if why is None:
                raise
            raise why from error
