"""Znode ACLs: each node should belong to the login of the connection alone."""

from __future__ import annotations

from collections.abc import Iterator

from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.paths import Layout
from databus.core.connections import Connection
from databus.core.errors.checkpoint import CheckpointError
from databus.core.findings import Finding, Level
from databus.tls import host_of, is_local

_LOOKED_AT = 500
"""History entries are many and all made by the same code: enough to see a root or a flow made by somebody else."""
_CODE = "checkpoint_open"


def examine_access(connection: Connection) -> Finding:
    """Look at the ACLs of the installation's znodes; changes nothing.

    Raises:
        ConfigError: a bad or unknown option of the connection.
    """
    options = ZooKeeperOptions.from_connection(connection)
    subject = f"zookeeper {connection.conn_id}: access"
    session = ZooKeeperSession(options, connection.conn_id)
    try:
        nodes = [node for _, node in zip(range(_LOOKED_AT), _walk(session, Layout(options.root).root), strict=False)]
        shared = [node for node in nodes if not _is_own(session, node, options.login)]
    except CheckpointError as error:
        return Finding.of(subject, error)
    finally:
        session.close()
    if not options.login and all(is_local(host_of(host)) for host in options.hosts.split(",")):
        return Finding(subject, Level.OK, f"{len(nodes)} znodes, open to whoever is on this machine")
    if not options.login:
        return Finding(
            subject,
            Level.WARN,
            f"no login: whoever reaches ZooKeeper may read and change {options.root}",
            "Set a digest user and password as login and password of the connection, before the first run; then "
            f"`addauth digest USER:PASSWORD` and `setAcl -R {options.root} auth::cdrwa` in zkCli.sh for what is there.",
            _CODE,
        )
    if shared:
        return Finding(
            subject,
            Level.WARN,
            f"{len(shared)} of {len(nodes)} znodes are not {options.login}'s alone, e.g. {shared[0]}",
            f"zkCli.sh: `addauth digest {options.login}:PASSWORD`, then `setAcl -R {options.root} auth::cdrwa`.",
            _CODE,
        )
    return Finding(subject, Level.OK, f"{len(nodes)} znodes, all {options.login}'s alone")


def _walk(session: ZooKeeperSession, path: str) -> Iterator[str]:
    if session.read(path)[0] is None:
        return
    yield path
    for name in session.children(path):
        yield from _walk(session, f"{path}/{name}")


def _is_own(session: ZooKeeperSession, path: str, login: str) -> bool:
    acls = session.acls(path)
    return all(scheme == "digest" and who.partition(":")[0] == login for scheme, who in acls)
