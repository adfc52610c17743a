"""Load of the source's server and of its replicas, above which a flow lets no chunks be read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from databus.core.connections import Connection
from databus.core.errors.source import SourceError
from databus.sources.mysql.replica_rules import REPLICA_STATUS
from databus.sources.mysql.server import MysqlServer, ask_known
from databus.sources.mysql.snapshot.views.replica_view import REPLICA_WAIT_S
from databus.sources.mysql.snapshot_options import SnapshotOptions

_ASKED_S = 1.0
_FAILED_S = 30.0
"""A server that does not answer is asked again after so long: the stream waits for its answer."""

_BEHIND = ("seconds_behind_source", "seconds_behind_master")


class ServerLoad:
    """Load as a flow's options bound it.

    Args:
        server: the source, asked for Threads_running, of which the question itself is one.
        replicas: conn_id → connections of replicas that the options name; the accounts need REPLICATION CLIENT.
        options: the bounds.
        clock: seconds on a clock that never goes back.
    """

    def __init__(
        self,
        server: MysqlServer,
        replicas: Mapping[str, Connection],
        options: SnapshotOptions | None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._server, self._options, self._clock = server, options or SnapshotOptions(), clock
        most = self._options.pause_above_replica_lag
        bounds = dict.fromkeys(self._options.replicas, most.total_seconds() if most is not None else 0.0)
        if reads_from := self._options.read_from:
            bounds[reads_from] = min(bounds.get(reads_from, REPLICA_WAIT_S), REPLICA_WAIT_S)
        self._replicas = [(MysqlServer(replicas[name]), bound) for name, bound in bounds.items()]
        self._said, self._again = "", float("-inf")

    def excess(self) -> str:
        """Return which bound is passed, and by how much; "" where none is. Asks the servers once a second at most.

        A replica that does not answer or does not replicate counts as too far behind: nobody knows how far it is. One
        that is the source by now is behind nobody.

        Raises:
            SourceError: the source does not answer.
        """
        if self._clock() < self._again:
            return self._said
        self._said, again = self._threads() or "", _ASKED_S
        asked = [] if self._said else self._replicas
        source = self._server.identity if asked else ""
        for replica, most_s in asked:
            try:
                self._said = _lag(replica, most_s) if replica.identity != source else ""
            except SourceError as error:
                self._said, again = f"the lag of replica {replica.connection.conn_id} is not known: {error}", _FAILED_S
            if self._said:
                break
        self._again = self._clock() + again
        return self._said

    def close(self) -> None:
        """Close the connections to the replicas; safe to call twice."""
        for replica, _ in self._replicas:
            replica.close()

    def _threads(self) -> str:
        most = self._options.pause_above_threads_running
        if most is None:
            return ""
        running = int(self._server.query("SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1])
        return f"Threads_running {running} > {most}" if running > most else ""


def _lag(replica: MysqlServer, most_s: float) -> str:
    """Return how far behind a replica is, where that is more than a bound, or not known."""
    name = replica.connection.conn_id
    channels = ask_known(replica.query_named, REPLICA_STATUS[replica.flavor])[1]
    lags = [next((channel[column] for column in _BEHIND if column in channel), None) for channel in channels]
    if not lags or None in lags:
        return f"replica {name} does not replicate"
    behind = max(int(lag) for lag in lags if lag is not None)
    return f"replica {name} is {behind} s behind > {most_s:g} s" if behind > most_s else ""
