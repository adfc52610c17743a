"""Rules for a replica that rows are read from: it replicates from the source itself, all of it, and no write is unseen.

Filters of a server in between would show nowhere on the replica, and a write without a GTID would, too. So both are
refused by how the servers are set up, not by what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REPLICA_STATUS = {"mysql": ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"), "mariadb": ("SHOW ALL SLAVES STATUS",)}
"""Statements that tell how a server replicates, by flavor; the first that it knows."""

REPLICA_SETTINGS = ("gtid_mode", "log_bin", "read_only", "super_read_only")
"""Global variables that `replica_faults` looks at."""

STANDING_OF_MARIADB = "SELECT @@GLOBAL.gtid_binlog_state, @@GLOBAL.gtid_slave_pos"
"""Question for what a MariaDB server has logged and replicated, as `own_of_mariadb` takes it."""

_FILTERS = "replicate_"
"""Beginning of the columns of a replica's status that say what it leaves out; all are empty where it leaves nothing."""

_CONNECTED = ("replica_io_running", "slave_io_running")
_LEADS_TO = {"mysql": ("source_uuid", "master_uuid"), "mariadb": ("master_server_id",)}
_LEAVE_OUT = "or leave read_from of snapshot_options out."


@dataclass(frozen=True)
class ReplicaFault:
    """Fault of a replica for which its rows are not read.

    Attributes:
        what: what was looked at, e.g. "log_bin".
        message: what is wrong, as it goes on behind "the replica".
        hint: the way out.
        lasts: whether a person has to mend it; else the replica is waited for.
    """

    what: str
    message: str
    hint: str
    lasts: bool = True


def replica_faults(
    flavor: str, settings: Mapping[str, str], channels: Sequence[Mapping[str, Any]], source: str
) -> list[ReplicaFault]:
    """Return the faults of a replica, those that last first.

    Args:
        flavor: the two servers'.
        settings: the replica's global variables of `REPLICA_SETTINGS`, as far as it knows them.
        channels: rows of `REPLICA_STATUS` by lower-case column name.
        source: identity of the source (server_uuid; MariaDB: server_id); "" where it is not known, and not compared.
    """
    found = [*_of_settings(flavor, settings)]
    for channel in channels:
        if filters := [f"{name}={value}" for name, value in channel.items() if name.startswith(_FILTERS) and value]:
            text = (
                f"leaves out a part of what it replicates ({', '.join(filters)}): its rows may be older than the "
                "checkpoint though it has executed that"
            )
            found.append(ReplicaFault("filters", text, f"Read from a replica without filters, {_LEAVE_OUT}"))
    if source:
        found += _of_channels(flavor, channels, source)
    return sorted(found, key=lambda fault: not fault.lasts)


def is_read_only(value: str) -> bool:
    """Tell whether a value of read_only or super_read_only keeps writes away; MariaDB has more than ON and OFF."""
    return value.upper() not in ("", "0", "OFF")


def own_of_mariadb(replica: Sequence[object], source: Sequence[object]) -> str:
    """Return the GTIDs that a MariaDB replica has and its source does not, "" for none.

    Each pair of domain and server is compared, for another source's transactions are as unknown to the log as the
    replica's own.

    Args:
        replica: `gtid_binlog_state` and `gtid_slave_pos` of the replica.
        source: the same of the source, asked later. What it replicated itself before it became the source it may have
            in its `gtid_slave_pos` alone.
    """
    there = _newest(source)
    return ",".join(
        f"{domain}-{server}-{sequence}"
        for (domain, server), sequence in _newest(replica).items()
        if there.get((domain, server), 0) < sequence
    )


def _newest(positions: Sequence[object]) -> dict[tuple[int, int], int]:
    """Return (domain, server) → newest sequence number in MariaDB's lists of GTIDs."""
    found: dict[tuple[int, int], int] = {}
    for position in positions:
        for gtid in filter(None, str(position or "").split(",")):
            domain, server, sequence = map(int, gtid.split("-"))
            found[domain, server] = max(sequence, found.get((domain, server), 0))
    return found


def _of_settings(flavor: str, settings: Mapping[str, str]) -> Iterator[ReplicaFault]:
    if flavor == "mysql" and settings.get("gtid_mode") != "ON":
        hint = f"Turn GTIDs on (gtid_mode=ON) on both servers, {_LEAVE_OUT}"
        yield ReplicaFault("gtid_mode", "has no GTIDs: its gtid_mode is not ON", hint)
    read_only = "super_read_only" if flavor == "mysql" else "read_only"
    if settings.get("log_bin", "").upper() in ("OFF", "0") and not is_read_only(settings.get(read_only, "")):
        yield ReplicaFault(
            "log_bin",
            f"writes no log (log_bin=OFF) and takes writes ({read_only}=OFF): nothing tells what it wrote itself",
            f"SET GLOBAL {read_only}=ON on the replica, let it write a log, {_LEAVE_OUT}",
        )


def _of_channels(flavor: str, channels: Sequence[Mapping[str, Any]], source: str) -> Iterator[ReplicaFault]:
    what, hint = "its source", f"Let it replicate from the source itself, read from a replica that does, {_LEAVE_OUT}"
    if not channels:
        yield ReplicaFault(what, "does not replicate", hint, lasts=False)
    for channel in channels:
        leads_to = _first(channel, _LEADS_TO[flavor])
        if leads_to == source:
            continue
        if leads_to in ("", "0"):
            yield ReplicaFault(what, "has not reached its source yet", hint, lasts=False)
            continue
        # One that has lost the server that it followed is moved to the flow's source after a failover.
        connected = _first(channel, _CONNECTED).upper() == "YES"
        text = (
            f"replicates from server {leads_to}, not from the flow's source, server {source}: what a server in between "
            "leaves out shows nowhere"
        )
        yield ReplicaFault(what, text if connected else f"{text}; it is not connected", hint, lasts=connected)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the value of the first column that a row has, "" where it has none."""
    return str(next((row[name] for name in names if name in row), None) or "")
