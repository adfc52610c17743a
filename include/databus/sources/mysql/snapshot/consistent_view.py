"""Consistent views of a server that show at least all that a flow has read from its log.

A transaction is in the log before it is visible: for a moment in every group commit, and with semi-sync's AFTER_SYNC
for as long as the replica's answer takes. So the end of the log is no lower bound of a view. What is:

* MySQL with GTIDs: `gtid_executed`, to which a transaction is added after it became visible.
* MariaDB: the view's own place in the log, which the server takes together with it (`binlog_snapshot_file`).
* MySQL without GTIDs: the end of the log while FLUSH TABLES WITH READ LOCK holds every commit.

As an upper bound the end of the log after the last read is right: what a view shows was logged before.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType

from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.errors.source import (
    OffsetInvalidError,
    SnapshotNotYetVisibleError,
    SnapshotRefusedError,
    SnapshotServerChangedError,
    SourceAccessError,
    SourceUnavailableError,
)
from databus.core.positions.binlog_offset import BinlogOffset
from databus.core.positions.offset import Ordering
from databus.sources.mysql.server import HEAD_STATEMENTS, Flavor, MysqlServer, ask_known

log = logging.getLogger(__name__)

LONGEST_LOCK_WAIT_S = 5
"""FLUSH TABLES WITH READ LOCK waits for running statements so long at most: all writers stand behind it meanwhile."""

LONG_STATEMENT_S = 2
"""Beside a statement that has run for so long the lock is not tried: when it is given up, the statement's tables stay
closed to all others until the statement ends. Told only to an account with PROCESS."""

IDLE_S = 600
"""A view that nobody asks anything for so long is ended by the server: it keeps old rows from being purged."""

_TURN_S = 20.0
"""The server is asked to wait so long at a time: the connection gives up after `wire.READ_TIMEOUT_S`."""

_LOCK_TIMEOUT = "(MySQL error 1205)"
_START = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_LOCK = "FLUSH TABLES WITH READ LOCK"
_LONGEST = (
    "SELECT MAX(TIME) FROM information_schema.PROCESSLIST "
    "WHERE COMMAND IN ('Query', 'Execute') AND USER <> 'system user' AND ID <> CONNECTION_ID()"
)

_SESSION = (
    "SET SESSION time_zone = '+00:00', character_set_results = NULL, "
    # ALLOW_INVALID_DATES: bounds of chunks may be dates such as 2004-02-31. Nothing pads, nothing turns '' into NULL.
    "sql_mode = 'ALLOW_INVALID_DATES', sql_select_limit = 18446744073709551615, sql_big_selects = 1, "
    f"net_write_timeout = {IDLE_S}"
)
_TIMEOUTS = "SET SESSION lock_wait_timeout = %s, wait_timeout = %s"
_OF_FLAVOR = {
    "mysql": "SET SESSION max_execution_time = 0",
    "mariadb": f"SET SESSION max_statement_time = 0, idle_readonly_transaction_timeout = {IDLE_S}",
}
"""A chunk that is sent slowly, or a whole table without a key, takes as long as it takes."""


class ConsistentView:
    """Consistent view on a connection of its own: a transaction that reads and sees every row as of one moment.

    A context manager; leaving it ends the view. The connection is a session in UTC that returns text as it is stored
    (`character_set_results` NULL), so it is read by the binary protocol, or as bytes of the column's character set.

    Attributes:
        covers: transactions up to this place are visible in the view.
        read_at: the server's clock when the view was opened, in UTC.
        place: exact place of the view in the log, counted as `covers` is: MariaDB, and MySQL under the read lock;
            None where the server does not tell it.
    """

    def __init__(self, connection: Connection, flavor: Flavor, covers: BinlogOffset, wait_s: float):
        """Open nothing yet.

        Args:
            connection: the server, the one of `covers`.
            flavor: what it is.
            covers: the flow's checkpoint.
            wait_s: seconds to wait until a view covers it.
        """
        self.covers = covers
        self.read_at = datetime.fromtimestamp(0, UTC)
        self.place: BinlogOffset | None = None
        self._connection, self._flavor, self._wait_s = connection, flavor, wait_s
        self._deadline = 0.0
        self._opened: ServerConnection | None = None

    @property
    def opened(self) -> ServerConnection:
        """Connection inside the view.

        Raises:
            RuntimeError: the view is not open.
        """
        if self._opened is None:
            raise RuntimeError("the view is not open")
        return self._opened

    def __enter__(self) -> ConsistentView:
        """Open the view; blocks up to about `wait_s`.

        Raises:
            SnapshotNotYetVisibleError: no view covers the checkpoint within `wait_s`; tried again later.
            SnapshotServerChangedError: the address leads to another server than the checkpoint's; tried again later.
            SnapshotRefusedError: there are no GTIDs, and the account may not take the read lock.
            SourceUnavailableError, SourceAccessError: the server cannot be reached, or refuses the login.
        """
        self._deadline = time.monotonic() + self._wait_s
        self._opened = ServerConnection(self._connection)
        try:
            self._set_session()
            self._check_server()
            self._open()
            now = self.opened.query("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]
        except BaseException:
            self._opened.cut()
            raise
        self.read_at = datetime.fromtimestamp(float(now), UTC)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the view; after an error without a word, for rows may still be under way."""
        (self.opened.close if kind is None else self.opened.cut)()

    def _check_server(self) -> None:
        name = "server_uuid" if self._flavor == "mysql" else "server_id"
        identity = self.opened.variables(name).get(name, "?")
        check_same_server(self.opened.place, identity, self._flavor, self.covers)

    def _set_session(self) -> None:
        server = self.opened
        server.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        server.query(_SESSION)
        server.query(_TIMEOUTS, self._lock_wait_s, IDLE_S)
        server.query(_OF_FLAVOR[self._flavor])

    def _open(self) -> None:
        if self._flavor == "mariadb":
            self._at_exact_place()
        elif self.covers.gtids and self.opened.variables("gtid_mode").get("gtid_mode") == "ON":
            self._behind_gtids()
        else:  # also a mode between OFF and ON: transactions without a GTID would not be waited for
            self._under_read_lock()

    def _behind_gtids(self) -> None:
        """Wait until the transactions are visible, then open: in that order, the view is behind them."""
        while True:
            turn_s = min(max(self._left_s, 0.001), _TURN_S)  # 0 would be for ever
            if self.opened.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", self.covers.gtids, turn_s)[0][0] == 0:
                break
            if self._left_s <= 0:
                raise self._not_yet("transactions of the checkpoint are not visible")
        self.opened.query(_START)

    def _at_exact_place(self) -> None:
        """Open views until one covers the checkpoint."""
        pause_s = 0.005
        while True:
            self.opened.query(_START)
            self.place = self._mariadb_place()
            if self.place.compare(self.covers) is not Ordering.BEFORE:
                return
            self.opened.query("ROLLBACK")
            if self._left_s <= 0:
                raise self._not_yet(f"a view stands at {self.place} of the log")
            time.sleep(min(pause_s, max(self._left_s, 0)))
            pause_s = min(2 * pause_s, 0.2)

    def _mariadb_place(self) -> BinlogOffset:
        told = {str(n).lower(): str(v) for n, v in self.opened.query("SHOW STATUS LIKE 'binlog_snapshot_%'")}
        try:
            return self._counted(told["binlog_snapshot_file"], int(told["binlog_snapshot_position"]))
        except (KeyError, ValueError, OffsetInvalidError):
            raise SnapshotRefusedError(
                f"{self.opened.place}: the server does not tell the place of a view in its log (binlog_snapshot_file)",
                hint="Its log has to be on (log_bin), and the connection may not lead through a proxy.",
            ) from None

    def _counted(self, file: str, pos: int) -> BinlogOffset:
        return BinlogOffset(file, pos, "", self._flavor, self.covers.server).counted_as(self.covers)

    def _under_read_lock(self) -> None:
        """Open while no transaction can be between the log and its visibility; the session keeps its view after."""
        with self._read_lock():
            self.opened.query(_START)
            (row,) = ask_known(self.opened.query_named, HEAD_STATEMENTS)[1]
        self.place = self._counted(str(row["file"]), int(row["position"]))
        if self.place.compare(self.covers) is Ordering.BEFORE:
            raise self._not_yet(f"the log ends at {self.place}")

    @contextlib.contextmanager
    def _read_lock(self) -> Iterator[None]:
        server = self.opened
        self._wait_for_statements()
        # A client that hangs under the lock loses it soon.
        server.query(_TIMEOUTS, min(self._lock_wait_s, LONGEST_LOCK_WAIT_S), LONGEST_LOCK_WAIT_S)
        began = time.monotonic()
        try:
            server.query(_LOCK)
        except SourceAccessError as error:
            raise self._lock_refused(error) from None
        except SourceUnavailableError as error:
            if _LOCK_TIMEOUT not in error.message:
                raise
            raise self._not_yet(f"{_LOCK} was given up, for statements ran on") from None
        locked = time.monotonic()
        yield
        server.query("UNLOCK TABLES")
        unlocked = time.monotonic()
        server.query(_TIMEOUTS, self._lock_wait_s, IDLE_S)
        log.info(
            "%s: a consistent view was opened under %s: it waited %.0f ms for running statements and held all commits "
            "for %.0f ms (gtid_mode=ON needs no lock)",
            server.place, _LOCK, (locked - began) * 1e3, (unlocked - locked) * 1e3,
        )  # fmt: skip

    def _wait_for_statements(self) -> None:
        while (longest_s := int(self.opened.query(_LONGEST)[0][0] or 0)) >= LONG_STATEMENT_S:
            if self._left_s <= 0:
                raise self._not_yet(f"{_LOCK} was not tried, for a statement has run for {longest_s} s")
            time.sleep(min(0.2, max(self._left_s, 0)))

    @property
    def _lock_wait_s(self) -> int:
        """Seconds to wait for a definition statement on a table that is read."""
        return max(1, math.ceil(self._wait_s))

    @property
    def _left_s(self) -> float:
        return self._deadline - time.monotonic()

    def _not_yet(self, why: str) -> SnapshotNotYetVisibleError:
        return SnapshotNotYetVisibleError(
            f"{self.opened.conn_id} ({self.opened.place}): no consistent view covers the checkpoint {self.covers} "
            f"within {self._wait_s:g} s: {why}"
        )

    def _lock_refused(self, error: SourceAccessError) -> SnapshotRefusedError:
        why = "the checkpoint has no GTIDs" if not self.covers.gtids else "gtid_mode is not ON"
        return SnapshotRefusedError(
            f"{self.opened.conn_id} ({self.opened.place}): {why}, so a snapshot needs a short {_LOCK} to know its "
            f"place in the log, and the account may not: {error.message}",
            hint="Turn GTIDs on (gtid_mode=ON), which needs no lock; or GRANT RELOAD ON *.* TO the account.",
        )


def after_reads(server: MysqlServer, covers: BinlogOffset) -> BinlogOffset:
    """Return the end of the log, behind all that views which are read to their end can have shown.

    By file and position alone: the server's GTIDs lag behind what is visible to a view, so there are none in it.

    Args:
        server: the views' server, asked after the last read of the last view.
        covers: the checkpoint that the views covered; the place is counted in its timeline and generation.

    Raises:
        SnapshotServerChangedError: another server than the checkpoint's answers; what was read is thrown away.
        SourceUnavailableError: nobody answers, or another server than before.
    """
    end = server.end_of_log()
    check_same_server(server.place, end.server, end.flavor, covers)
    return end.counted_as(covers)


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
