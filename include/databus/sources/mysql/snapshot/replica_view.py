"""Views of a replica: it has executed the checkpoint's transactions, and nothing that its source's log does not have.

A replica executes what its source has logged, at any time after that, also before the source itself shows it. So the
wait for the checkpoint's GTIDs is the lower bound there as on the source, and the end of the source's log after the
last read is the upper bound. What breaks this is looked for: rows that the replica wrote itself, and filters by which
it leaves transactions out though it counts them as executed.
"""

from __future__ import annotations

from databus.core.errors.source import (
    SnapshotNotYetVisibleError,
    SnapshotRefusedError,
    SnapshotReplicaBehindError,
)
from databus.core.positions.gtid import MysqlGtidSet
from databus.sources.mysql.server import MysqlServer, ask_known
from databus.sources.mysql.snapshot.snapshot_preflight import REPLICA_STATUS
from databus.sources.mysql.snapshot.view_session import ViewSession

REPLICA_WAIT_S = 10.0
"""A replica is waited for so long, and the stream with it; one that is further behind is not asked for chunks."""

SOURCE_WAIT_S = 2.0
"""What a replica has executed already, its source has within so long, unless it is none of the source's."""

_FILTERS = "replicate_"
"""Beginning of the columns of a replica's status that say what it leaves out; all are empty where it leaves nothing."""


def wait_for_replica(session: ViewSession) -> None:
    """Wait until a replica has executed the checkpoint: a view that is opened then shows it.

    Raises:
        SnapshotRefusedError: the checkpoint or the replica has no GTIDs, or the replica filters what it executes.
        SnapshotReplicaBehindError: it has not executed the checkpoint in time.
        SourceAccessError: the account may not see how it replicates.
    """
    server, covers = session.server, session.covers
    if not covers.gtids or (session.flavor == "mysql" and server.variables("gtid_mode").get("gtid_mode") != "ON"):
        raise SnapshotRefusedError(
            f"{session}: rows are read from a replica by GTIDs, and "
            + ("its gtid_mode is not ON" if covers.gtids else f"the checkpoint {covers} has none"),
            hint="Turn GTIDs on (gtid_mode=ON) on both servers, or leave read_from of snapshot_options out.",
        )
    channels = ask_known(server.query_named, REPLICA_STATUS[session.flavor])[1]
    for channel in channels:
        if filters := [f"{name}={value}" for name, value in channel.items() if name.startswith(_FILTERS) and value]:
            raise SnapshotRefusedError(
                f"{session}: the replica leaves out a part of what it replicates ({', '.join(filters)}): its rows may "
                "be older than the checkpoint though it has executed that",
                hint="Read from a replica without filters, or leave read_from of snapshot_options out.",
            )
    waits = "WAIT_FOR_EXECUTED_GTID_SET" if session.flavor == "mysql" else "MASTER_GTID_WAIT"
    if server.query(f"SELECT {waits}(%s, %s)", covers.gtids, max(session.left_s, 0.001))[0][0] != 0:
        stands = "" if channels else "; it does not replicate"
        raise SnapshotReplicaBehindError(
            f"{session}: the replica has not executed the checkpoint {covers} within {session.wait_s:g} s{stands}"
        )


def require_nothing_of_its_own(replica: ViewSession, source: MysqlServer) -> None:
    """Refuse a replica that has executed what is not in its source's log; asked after the last read.

    Raises:
        SnapshotRefusedError: it has.
        SnapshotNotYetVisibleError: the source has yet to finish what the replica has executed.
    """
    own = _own_of_mysql(replica, source) if replica.flavor == "mysql" else _own_of_mariadb(replica, source)
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


def _own_of_mariadb(replica: ViewSession, source: MysqlServer) -> str:
    asked = "SELECT @@GLOBAL.gtid_binlog_state, @@GLOBAL.server_id"
    (state, number), (known, _) = replica.server.query(asked)[0], source.query(asked)[0]
    there = _newest(known)
    return ",".join(
        f"{domain}-{server}-{sequence}"
        for (domain, server), sequence in _newest(state).items()
        if server == int(number) and there.get((domain, server), 0) < sequence
    )


def _newest(state: object) -> dict[tuple[int, int], int]:
    """Return (domain, server) → newest sequence number of a MariaDB server's `gtid_binlog_state`."""
    found = {}
    for gtid in filter(None, str(state or "").split(",")):
        domain, server, sequence = map(int, gtid.split("-"))
        found[domain, server] = sequence
    return found
