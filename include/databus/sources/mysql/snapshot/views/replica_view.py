"""Views of a replica: it has executed the checkpoint's transactions, and nothing that its source's log does not have.

A replica executes what its source has logged, at any time after that, also before the source itself shows it. So the
wait for the checkpoint's GTIDs is the lower bound there as on the source, and the end of the source's log after the
last read is the upper bound. What breaks this is looked for: rows that the replica wrote itself, and filters by which
it, or a server in between, leaves transactions out though it counts them as executed.
"""

from __future__ import annotations

from databus.core.errors.source import (
    SnapshotNotYetVisibleError,
    SnapshotRefusedError,
    SnapshotReplicaBehindError,
)
from databus.core.positions.gtid import MysqlGtidSet
from databus.sources.mysql.replica_rules import (
    REPLICA_SETTINGS,
    REPLICA_STATUS,
    STANDING_OF_MARIADB,
    own_of_mariadb,
    replica_faults,
)
from databus.sources.mysql.server import MysqlServer, ask_known
from databus.sources.mysql.snapshot.views.view_session import ViewSession

REPLICA_WAIT_S = 10.0
"""A replica is waited for so long, and the stream with it; one that is further behind is not asked for chunks."""

SOURCE_WAIT_S = 2.0
"""Time within which the source has executed all that a replica has, unless it is none of the source's."""


def wait_for_replica(session: ViewSession) -> None:
    """Wait until a replica has executed the checkpoint: a view that is opened then shows it.

    Raises:
        SnapshotRefusedError: the checkpoint has no GTIDs, or the replica is none whose rows may be read.
        SnapshotReplicaBehindError: it has not executed the checkpoint in time, or does not follow the source just now.
        SourceAccessError: the account may not see how it replicates.
    """
    server, covers = session.server, session.covers
    if not covers.gtids:
        raise SnapshotRefusedError(
            f"{session}: rows are read from a replica by GTIDs, and the checkpoint {covers} has none",
            hint="Turn GTIDs on (gtid_mode=ON) on both servers, or leave read_from of snapshot_options out.",
        )
    channels = ask_known(server.query_named, REPLICA_STATUS[session.flavor])[1]
    for fault in replica_faults(session.flavor, server.variables(*REPLICA_SETTINGS), channels, covers.server):
        text = f"{session}: the replica {fault.message}"
        raise SnapshotRefusedError(text, hint=fault.hint) if fault.lasts else SnapshotReplicaBehindError(text)
    waits = "WAIT_FOR_EXECUTED_GTID_SET" if session.flavor == "mysql" else "MASTER_GTID_WAIT"
    if server.query(f"SELECT {waits}(%s, %s)", covers.gtids, max(session.left_s, 0.001))[0][0] != 0:
        raise SnapshotReplicaBehindError(
            f"{session}: the replica has not executed the checkpoint {covers} within {session.wait_s:g} s"
        )


def require_nothing_of_its_own(replica: ViewSession, source: MysqlServer) -> None:
    """Refuse a replica that has executed what is not in its source's log; asked after the last read.

    Raises:
        SnapshotRefusedError: it has.
        SnapshotNotYetVisibleError: the source has yet to finish what the replica has executed.
    """
    if replica.flavor == "mysql":
        own = _own_of_mysql(replica, source)
    else:
        has = replica.server.query(STANDING_OF_MARIADB)[0]  # before the source is asked: it goes on meanwhile
        own = own_of_mariadb(has, source.query(STANDING_OF_MARIADB)[0])
    if own:
        raise SnapshotRefusedError(
            f"{replica}: the replica has transactions that {source.place} does not have: {own}; what they changed "
            "would be delivered, and no change of the log would ever put it right",
            hint="Build the replica anew and let it take no writes (read_only), or read from another one; or leave "
            "read_from of snapshot_options out.",
        )


def _own_of_mysql(replica: ViewSession, source: MysqlServer) -> str:
    executed = str(replica.server.query("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
    if source.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", executed, SOURCE_WAIT_S)[0][0] == 0:
        return ""
    there = str(source.query("SELECT @@GLOBAL.gtid_executed")[0][0])
    own = MysqlGtidSet.parse(executed).minus(MysqlGtidSet.parse(there))
    if not own.intervals:
        return ""
    if {name.partition(":")[0] for name in own.intervals} == {source.identity}:
        raise SnapshotNotYetVisibleError(f"{source.place}: {own} is on the replica {replica} and not visible here yet")
    return str(own)
