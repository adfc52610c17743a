"""Consistent views of a server that show at least all that a flow has read from its log.

A transaction is in the log before it is visible: for a moment in every group commit, and with semi-sync's AFTER_SYNC
for as long as the replica's answer takes. So the end of the log is no lower bound of a view. What is:

* MySQL with GTIDs: `gtid_executed`, to which a transaction is added after it became visible.
* MariaDB: the view's own place in the log, which the server takes together with it (`binlog_snapshot_file`). XA COMMIT
  alone is visible only after that place: what XA RECOVER still lists before the view is opened is waited for, too.
* MySQL without GTIDs: the end of the log while FLUSH TABLES WITH READ LOCK holds every commit.
* A replica of either: what it has executed, by GTID (`replica_view`).

As an upper bound the end of the log after the last read is right: what a view shows was logged before.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import TracebackType

from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.errors.source import OffsetInvalidError, SnapshotNotYetVisibleError, SnapshotRefusedError
from databus.core.positions.binlog_offset import BinlogOffset
from databus.core.positions.offset import Ordering
from databus.sources.mysql.server import HEAD_STATEMENTS, Flavor, MysqlServer, ask_known
from databus.sources.mysql.snapshot.views.read_lock import read_lock
from databus.sources.mysql.snapshot.views.replica_view import wait_for_replica
from databus.sources.mysql.snapshot.views.view_session import ViewSession, check_same_server

XA_COMMIT_S = 1.0
"""An XA COMMIT of MariaDB that may be in the log is waited for so long; then a read lock decides."""

_TURN_S = 20.0
"""The server is asked to wait so long at a time: the connection gives up after `wire.READ_TIMEOUT_S`."""

_START = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


class ConsistentView:
    """Consistent view on a connection of its own: a transaction that reads and sees every row as of one moment.

    A context manager; leaving it ends the view. The connection is a session in UTC that returns text as it is stored
    (`character_set_results` NULL), so it is read by the binary protocol, or as bytes of the column's character set.

    Attributes:
        covers: transactions up to this place are visible in the view.
        read_at: the server's clock when the view was opened, in UTC.
        place: place of the view in the log, counted as `covers` is: MariaDB, and MySQL under the read lock; None where
            the server does not tell it. Exact, but for MariaDB's XA transactions: one that ends at it or shortly before
            it may be missing, unless `covers` is behind it.
    """

    def __init__(
        self, connection: Connection, flavor: Flavor, covers: BinlogOffset, wait_s: float, *, replica: bool = False
    ):
        """Open nothing yet.

        Args:
            connection: the server, the one of `covers`, or a replica of it.
            flavor: whose it is.
            covers: the flow's checkpoint.
            wait_s: seconds to wait until a view covers it.
            replica: whether it may be a replica.
        """
        self.covers = covers
        self.read_at = datetime.fromtimestamp(0, UTC)
        self.place: BinlogOffset | None = None
        self._connection, self._flavor, self._wait_s, self._replica = connection, flavor, wait_s, replica
        self._session: ViewSession | None = None
        self._cut = False

    @property
    def opened(self) -> ServerConnection:
        """Connection inside the view. Raises RuntimeError where the view was never opened."""
        return self.session.server

    @property
    def session(self) -> ViewSession:
        """Session of the view.

        Raises:
            RuntimeError: the view was never opened.
        """
        if self._session is None:
            raise RuntimeError("the view is not open")
        return self._session

    def __enter__(self) -> ConsistentView:
        """Open the view; blocks up to about `wait_s`.

        Raises:
            SnapshotNotYetVisibleError: no view covers the checkpoint within `wait_s`; tried again later. Of a replica
                it is a SnapshotReplicaBehindError.
            SnapshotServerChangedError: the address leads to another server than the checkpoint's; tried again later.
            SnapshotRefusedError: there are no GTIDs, and the account may not take the read lock.
            SourceUnavailableError, SourceAccessError: the server cannot be reached, or refuses the login.
        """
        self._session = session = ViewSession(
            self._connection, self._flavor, self.covers, self._wait_s, replica=self._replica
        )
        try:
            if self._cut:
                raise SnapshotNotYetVisibleError(f"{session}: the view is not wanted any more")
            self._open(session)
            now = session.server.query("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]
        except BaseException:
            session.server.cut()
            raise
        self.read_at = datetime.fromtimestamp(float(now), UTC)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the view; after an error without a word, for rows may still be under way."""
        (self.opened.close if kind is None else self.opened.cut)()

    def cut(self) -> None:
        """End the connection, or let none be used: what another thread waits for in the view fails at once."""
        self._cut = True
        if self._session is not None:
            self._session.server.interrupt()

    def _open(self, session: ViewSession) -> None:
        if session.of_replica:
            wait_for_replica(session)
            session.server.query(_START)
        elif self._flavor == "mariadb":
            if committing := _still_committing(session):
                self._under_read_lock(session, f"{', '.join(sorted(committing))} of XA RECOVER")
            else:
                self._at_exact_place(session)
        elif self.covers.gtids and session.server.variables("gtid_mode").get("gtid_mode") == "ON":
            _wait_for_gtids(session)
            session.server.query(_START)
        else:  # also a mode between OFF and ON: transactions without a GTID would not be waited for
            why = "the checkpoint has no GTIDs" if not self.covers.gtids else "gtid_mode is not ON"
            self._under_read_lock(session, why)

    def _at_exact_place(self, session: ViewSession) -> None:
        """Open views until one covers the checkpoint."""
        pause_s = 0.005
        while True:
            session.server.query(_START)
            self.place = self._mariadb_place(session)
            if self.place.compare(self.covers) is not Ordering.BEFORE:
                return
            session.server.query("ROLLBACK")
            session.pause(pause_s, f"a view stands at {self.place} of the log")
            pause_s = min(2 * pause_s, 0.2)

    def _under_read_lock(self, session: ViewSession, why: str) -> None:
        """Open while no transaction can be between the log and its visibility; the session keeps its view after."""
        with read_lock(session, why):
            session.server.query(_START)
            if self._flavor == "mariadb":
                self.place = self._mariadb_place(session)
            else:
                (row,) = ask_known(session.server.query_named, HEAD_STATEMENTS)[1]
                self.place = self._counted(str(row["file"]), int(row["position"]))
        if self.place.compare(self.covers) is Ordering.BEFORE:
            raise session.not_yet(f"the log ends at {self.place}")

    def _mariadb_place(self, session: ViewSession) -> BinlogOffset:
        rows = session.server.query("SHOW STATUS LIKE 'binlog_snapshot_%'")
        told = {str(name).lower(): str(value) for name, value in rows}
        try:
            return self._counted(told["binlog_snapshot_file"], int(told["binlog_snapshot_position"]))
        except (KeyError, ValueError, OffsetInvalidError):
            raise SnapshotRefusedError(
                f"{session}: the server does not tell the place of a view in its log (binlog_snapshot_file)",
                hint="Its log has to be on (log_bin), and the connection may not lead through a proxy.",
            ) from None

    def _counted(self, file: str, pos: int) -> BinlogOffset:
        return BinlogOffset(file, pos, "", self._flavor, self.covers.server).counted_as(self.covers)


def _wait_for_gtids(session: ViewSession) -> None:
    """Wait until the checkpoint's transactions are visible: a view that is opened then is behind them."""
    while True:
        turn_s = min(max(session.left_s, 0.001), _TURN_S)  # 0 would be for ever
        asked = session.server.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", session.covers.gtids, turn_s)
        if asked[0][0] == 0:
            return
        if session.left_s <= 0:
            raise session.not_yet("transactions of the checkpoint are not visible")


def _still_committing(session: ViewSession) -> set[str]:
    """Return XA transactions of MariaDB that may be committed before the checkpoint and not visible, after a wait.

    The log has XA COMMIT before the tables have, for an instant: until then XA RECOVER lists the transaction. Those
    that the checkpoint knows as prepared are none of these; others may have been prepared before the flow began, or
    after its checkpoint.
    """
    committing = _prepared(session) - {known.xid for known in session.covers.prepared}
    until = time.monotonic() + min(XA_COMMIT_S, session.left_s)
    while committing and time.monotonic() < until:
        time.sleep(0.005)
        committing &= _prepared(session)
    return committing


def _prepared(session: ViewSession) -> set[str]:
    """Return the XA transactions that are prepared, as the log names them."""
    found = set()
    for form, gtrid, bqual, data in session.server.query("XA RECOVER"):
        raw = data if isinstance(data, bytes) else str(data).encode("latin1")
        found.add(f"X'{raw[:gtrid].hex()}',X'{raw[gtrid : gtrid + bqual].hex()}',{form}")
    return found


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
