"""Session of a consistent view: settings under which rows look as they are, and the wait for a view that covers."""

from __future__ import annotations

import math
import time

from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.errors.source import SnapshotNotYetVisibleError, SnapshotServerChangedError
from databus.core.positions.binlog_offset import BinlogOffset
from databus.sources.mysql.server import Flavor

IDLE_S = 600
"""A view that nobody asks anything for so long is ended by the server: it keeps old rows from being purged."""

_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_SETTINGS = (
    "SET SESSION time_zone = '+00:00', character_set_results = NULL, "
    # ALLOW_INVALID_DATES: bounds of chunks may be dates such as 2004-02-31. Nothing pads, nothing turns '' into NULL.
    "sql_mode = 'ALLOW_INVALID_DATES', sql_select_limit = 18446744073709551615, sql_big_selects = 1, "
    f"net_write_timeout = {IDLE_S}"
)
_OF_FLAVOR = {
    "mysql": "SET SESSION max_execution_time = 0",
    "mariadb": f"SET SESSION max_statement_time = 0, idle_readonly_transaction_timeout = {IDLE_S}",
}
"""A chunk that is sent slowly, or a whole table without a key, takes as long as it takes."""


class ViewSession:
    """Session of its own, in which one view is opened, and the time that is left for it.

    Attributes:
        server: the connection.
        flavor: whose server it is.
        covers: checkpoint that the view is to cover.
        wait_s: seconds within which it is to.
        of_replica: whether the server is another than the checkpoint's, which replicates from it.
    """

    def __init__(
        self, connection: Connection, flavor: Flavor, covers: BinlogOffset, wait_s: float, *, replica: bool = False
    ):
        """Connect.

        Args:
            connection: the server.
            flavor: whose it is.
            covers: checkpoint that the view is to cover.
            wait_s: seconds within which it is to.
            replica: whether it may be a replica of the checkpoint's server.

        Raises:
            SnapshotServerChangedError: it is another server than the checkpoint's.
            SourceUnavailableError, SourceAccessError: nobody answers, or the login is refused.
        """
        self.flavor, self.covers, self.wait_s = flavor, covers, wait_s
        self._deadline = time.monotonic() + wait_s
        self.server = ServerConnection(connection)
        try:
            for statement in (_ISOLATION, _SETTINGS, _OF_FLAVOR[flavor]):
                self.server.query(statement)
            self.set_timeouts(self.lock_wait_s, IDLE_S)
            name = "server_uuid" if flavor == "mysql" else "server_id"
            identity = self.server.variables(name).get(name, "?")
            self.of_replica = replica and identity != covers.server
            check_same_server(self.server.place, covers.server if self.of_replica else identity, flavor, covers)
        except BaseException:
            self.server.cut()
            raise

    @property
    def lock_wait_s(self) -> int:
        """Seconds to wait for a definition statement on a table that is read."""
        return max(1, math.ceil(self.wait_s))

    @property
    def left_s(self) -> float:
        """Seconds that are left, negative when it is late."""
        return self._deadline - time.monotonic()

    def set_timeouts(self, lock_wait_s: int, idle_s: int) -> None:
        """Set how long the server waits for locks, and for the next statement before it ends the session."""
        self.server.query("SET SESSION lock_wait_timeout = %s, wait_timeout = %s", lock_wait_s, idle_s)

    def pause(self, pause_s: float, why: str) -> None:
        """Wait a moment before the next attempt.

        Raises:
            SnapshotNotYetVisibleError: no time is left; says why there was no view.
        """
        if self.left_s <= 0:
            raise self.not_yet(why)
        time.sleep(min(pause_s, max(self.left_s, 0)))

    def not_yet(self, why: str) -> SnapshotNotYetVisibleError:
        """Return the error of a view that does not cover the checkpoint in time."""
        return SnapshotNotYetVisibleError(
            f"{self}: no consistent view covers the checkpoint {self.covers} within {self.wait_s:g} s: {why}"
        )

    def __str__(self) -> str:
        return f"{self.server.conn_id} ({self.server.place})"


def check_same_server(place: str, identity: str, flavor: str, covers: BinlogOffset) -> None:
    """Refuse a server that is not the one of a checkpoint: files and positions of its log mean nothing there.

    Raises:
        SnapshotServerChangedError: it is another.
    """
    if flavor != covers.flavor or (covers.server and covers.server != identity):
        raise SnapshotServerChangedError(
            f"{place}: {flavor} server {identity} answers, and the checkpoint {covers} is of {covers.flavor} server "
            f"{covers.server or '(unknown)'}"
        )
