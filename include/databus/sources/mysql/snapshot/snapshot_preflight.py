"""Preflight of a snapshot: settings, grants and tables that reading existing rows needs, and the SQL to mend it.

What capture itself needs is probed by `sources/mysql/preflight.py`; here is what comes on top of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from databus.binlog.log.capture import TableCapture, is_name
from databus.core.errors.root import DatabusError
from databus.core.errors.source import (
    SnapshotReplicaBehindError,
    SourceAccessError,
    SourceError,
    SourceUnavailableError,
)
from databus.core.findings import Finding, Level
from databus.sources.mysql.replica_rules import (
    REPLICA_SETTINGS,
    REPLICA_STATUS,
    is_read_only,
    replica_faults,
)
from databus.sources.mysql.server import MysqlServer, ask_known, grants_by_scope
from databus.sources.mysql.snapshot.cursor import quoted
from databus.sources.mysql.tables.visibility import MysqlSight

REFUSED, ACCESS = "snapshot_refused", "source_access_denied"
NO_KEY = "snapshot_no_primary_key"
"""Code of the finding for a table that cannot be read by chunks of its primary key."""
NO_TRANSACTIONS = "snapshot_not_transactional"
"""Code of the finding for a table of which no consistent view exists."""
NO_TABLE = "snapshot_view"
"""Code of the finding for a view in the sense of SQL: it has no rows of its own."""

_VARIABLES = ("binlog_row_image", "gtid_mode", "log_slave_updates", "log_replica_updates")
_READ = ("BASE TABLE", "SYSTEM VERSIONED", "SEQUENCE")

_Probe = Callable[[MysqlServer, TableCapture], Iterator[Finding]]


def snapshot_findings(server: MysqlServer, capture: TableCapture) -> Sequence[Finding]:
    """Return a finding for everything that was probed; one probe that fails does not hide the others.

    Args:
        server: the source, asked with the flow's own account.
        capture: tables whose rows are to be read.

    Raises:
        SourceUnavailableError, SourceAccessError: the server cannot be asked at all.
    """
    subject = server.connection.conn_id
    settings = server.variables(*_VARIABLES)
    found = [_row_image(settings.get("binlog_row_image", ""), subject)]
    if server.flavor == "mysql":
        found.append(_low_mark(server, settings.get("gtid_mode", "OFF"), subject))
    found.append(_replica(server, settings, subject))
    probes: tuple[tuple[_Probe, str], ...] = ((_select, "SELECT"), (_tables, "tables to read"))
    for probe, name in probes:
        try:
            found += probe(server, capture)
        except DatabusError as error:
            level = Level.ERROR if isinstance(error, SourceAccessError) else Level.WARN
            found.append(Finding.of(f"{subject}: {name}", error, level))
    return found


def replica_findings(replica: MysqlServer, capture: TableCapture, source: MysqlServer) -> Sequence[Finding]:
    """Probe a replica whose views are read in place of the source's; changes nothing.

    What a replica is waited for is a warning: no chunk is read meanwhile, and the stream goes on.

    Args:
        replica: the server, asked with the account of its connection.
        capture: tables whose rows are to be read.
        source: the source.

    Raises:
        SourceUnavailableError, SourceAccessError: the source cannot be asked.
    """
    subject, flavor, identity = replica.connection.conn_id, source.flavor, source.identity
    found: list[Finding] = []
    try:
        if replica.flavor != flavor:
            text, hint = (
                f"{replica.flavor} replicates from {flavor}: not read",
                "Leave read_from of snapshot_options out.",
            )
            return [Finding(f"{subject}: replica", Level.ERROR, text, hint, REFUSED)]
        found += _select(replica, capture)
        if replica.identity == identity:
            text = "it is the source by now, and is read as one"
            return [*found, Finding(f"{subject}: replica", Level.OK, text)]
        settings = replica.variables(*REPLICA_SETTINGS)
        channels = ask_known(replica.query_named, REPLICA_STATUS[flavor])[1]
        faults = replica_faults(flavor, settings, channels, identity)
        for fault in faults:
            level, code = (Level.ERROR, REFUSED) if fault.lasts else (Level.WARN, SnapshotReplicaBehindError.code)
            found.append(Finding(f"{subject}: {fault.what}", level, f"the replica {fault.message}", fault.hint, code))
        if not is_read_only(settings.get("read_only", "")) and all(fault.what != "log_bin" for fault in faults):
            text = "read_only=OFF: what a session writes here the source's log does not have; such a replica is refused"
            hint = "SET GLOBAL read_only=ON (MySQL: super_read_only=ON) on the replica."
            found.append(Finding(f"{subject}: read_only", Level.WARN, text, hint, "source_setting"))
    except SourceUnavailableError as error:
        found.append(Finding.of(f"{subject}: replica", error, Level.WARN))
    except DatabusError as error:
        found.append(Finding.of(f"{subject}: replica", error))
    return found


def or_without_rows(finding: Finding) -> Finding:
    """Return a finding of a flow that has not begun; what keeps it from its rows can be done without."""
    if finding.level is not Level.ERROR:
        return finding
    return replace(finding, hint=f'{finding.hint} Or snapshot="never" at the source: the flow begins without its rows.')


def _row_image(image: str, subject: str) -> Finding:
    what = f"{subject}: binlog_row_image"
    if image.upper() == "FULL":
        return Finding(what, Level.OK, f"binlog_row_image={image}")
    return Finding(
        what, Level.ERROR,
        f"binlog_row_image={image or '(unknown)'}: an update that is logged while a chunk is read replaces the row "
        "that was read, and has not all of its columns",
        "SET GLOBAL binlog_row_image='FULL'; then reconnect all sessions that write.",
        REFUSED,
    )  # fmt: skip


def _low_mark(server: MysqlServer, gtid_mode: str, subject: str) -> Finding:
    what = f"{subject}: place of a view"
    if gtid_mode == "ON":
        return Finding(what, Level.OK, "gtid_mode=ON: views are opened without a lock")
    everywhere = grants_by_scope(server.query("SHOW GRANTS")).get("*.*", set())
    if everywhere & {"ALL PRIVILEGES", "RELOAD", "FLUSH_TABLES"}:
        return Finding(
            what, Level.WARN,
            f"gtid_mode={gtid_mode}: each view is opened under FLUSH TABLES WITH READ LOCK, which holds all commits "
            "for milliseconds, and for as long as the longest running statement, 5 s at most",
            "Turn GTIDs on step by step (OFF_PERMISSIVE, ON_PERMISSIVE, ON): no lock is taken then.",
            "source_setting",
        )  # fmt: skip
    return Finding(
        what, Level.ERROR,
        f"gtid_mode={gtid_mode}, and {_account(server)} lacks RELOAD: nothing tells which transactions a view shows",
        "Turn GTIDs on step by step (OFF_PERMISSIVE, ON_PERMISSIVE, ON), "
        f"or GRANT RELOAD ON *.* TO {_account(server)}.",
        REFUSED,
    )  # fmt: skip


def _replica(server: MysqlServer, settings: dict[str, str], subject: str) -> Finding:
    """Judge a server that replicates from another: rows that its log lacks would be in its views alone."""
    what, name = f"{subject}: replica", "log_replica_updates"
    if name not in settings:
        name = "log_slave_updates"
    if settings.get(name, "").upper() in ("ON", "1"):
        return Finding(what, Level.OK, f"{name}=ON: what the server replicates is in its log")
    try:
        replicates: bool | None = bool(ask_known(server.query_named, REPLICA_STATUS[server.flavor])[1])
    except DatabusError:
        replicates = None  # SLAVE MONITOR or REPLICATION CLIENT is missing
    if replicates is False:
        return Finding(what, Level.OK, "the server replicates from no other")
    return Finding(
        what, Level.ERROR if replicates else Level.WARN,
        f"{name}=OFF: what the server replicates from another is in its tables and not in its log"
        + ("" if replicates else "; whether it does, the account may not see"),
        f"Start the replica with {name.replace('_', '-')}=ON, or read from its source.",
        REFUSED if replicates else "source_setting",
    )  # fmt: skip


def _select(server: MysqlServer, capture: TableCapture) -> Iterator[Finding]:
    """Ask for no row of each captured table, where the grants do not say that all can be read."""
    subject, account = server.connection.conn_id, _account(server)
    grants = server.query("SHOW GRANTS")
    shown = [(d, t) for d, t, kind, _ in _listed(server) if kind in _READ and capture(d, t)]
    taken_back = any(str(text).startswith("REVOKE ") for (text,) in grants)
    everything = not taken_back and grants_by_scope(grants).get("*.*", set()) & {"ALL PRIVILEGES", "SELECT"}
    lacking = 0
    for database, table in [] if everything else shown:
        try:
            server.query(f"SELECT * FROM {quoted(database)}.{quoted(table)} LIMIT 0")  # noqa: S608 - quoted names
        except SourceAccessError as error:
            lacking += 1
            yield _cannot_read(subject, account, database, table, error.message)
        except SourceError as error:  # broken, or dropped meanwhile
            yield Finding.of(f"{subject}: SELECT on {database}.{table}", error, Level.WARN)
    sight = MysqlSight.of(grants)
    for pattern in capture.include:
        if not is_name(pattern):
            continue
        database, _, table = pattern.partition(".")
        if (database, table) not in shown and capture(database, table) and not sight.shows(database, table):
            lacking += 1
            yield _cannot_read(subject, account, database, table, "it is not shown to the account, if it is there")
    if hidden := [p for p in capture.include if not is_name(p) and not everything and not sight.tells(p)]:
        yield Finding(
            f"{subject}: SELECT", Level.WARN,
            f"{account} is shown some of the tables of {', '.join(hidden)} at most: the rows of others are not read",
            f"GRANT SELECT ON *.* TO {account}; or on each database that is meant.",
            ACCESS,
        )  # fmt: skip
    elif not lacking:
        yield Finding(f"{subject}: SELECT", Level.OK, f"{account} may read {len(shown)} captured tables")


@contextmanager
def grant_named(server: MysqlServer, database: str, table: str) -> Iterator[None]:
    """Name the table and the GRANT where reading it is refused.

    Raises:
        SourceAccessError: as the block raised it.
    """
    try:
        yield
    except SourceAccessError as error:
        if "GRANT " in error.hint:
            raise
        missing = _cannot_read("", _account(server), database, table, error.message)
        raise SourceAccessError(missing.message, hint=missing.hint) from error


def _cannot_read(subject: str, account: str, database: str, table: str, why: str) -> Finding:
    return Finding(
        f"{subject}: SELECT on {database}.{table}", Level.ERROR,
        f"{account} may not read all columns of {database}.{table}: {why}",
        f"GRANT SELECT ON {quoted(database)}.{quoted(table)} TO {account};",
        ACCESS,
    )  # fmt: skip


def _tables(server: MysqlServer, capture: TableCapture) -> Iterator[Finding]:
    """Name captured tables that are read in another way than by chunks of a primary key in a consistent view."""
    subject = server.connection.conn_id
    keyed = {
        (str(d), str(t))
        for d, t in server.query(
            # MariaDB shows TABLE_CONSTRAINTS to those alone who may do more than SELECT.
            "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE INDEX_NAME = 'PRIMARY'"
        )
    }
    engines = server.query("SELECT ENGINE FROM information_schema.ENGINES WHERE TRANSACTIONS = 'YES'")
    transactional = {str(name).upper() for (name,) in engines}
    read = 0
    for database, table, kind, engine in _listed(server):
        if not capture(database, table):
            continue
        name, what = f"{database}.{table}", f"{subject}: table {database}.{table}"
        if kind not in _READ:
            yield Finding(what, Level.WARN, f"{name} is a view: it has no rows of its own", "", NO_TABLE)
            continue
        read += 1
        if (database, table) not in keyed:
            yield Finding(
                what, Level.WARN,
                f"{name} has no primary key: it is read by a unique index of NOT NULL columns, and without one at once",
                f"ALTER TABLE {quoted(database)}.{quoted(table)} ADD COLUMN id BIGINT UNSIGNED "
                "NOT NULL AUTO_INCREMENT PRIMARY KEY;",
                NO_KEY,
            )  # fmt: skip
        if engine.upper() not in transactional:
            yield Finding(
                what, Level.WARN,
                f"{name} is of engine {engine}, which has no consistent view: its rows are those of the moment of "
                "each read, not of one moment with other tables. No change is lost: the batch's range of the log ends "
                "behind the read, and has every later one",
                f"ALTER TABLE {quoted(database)}.{quoted(table)} ENGINE=InnoDB;",
                NO_TRANSACTIONS,
            )  # fmt: skip
    yield Finding(f"{subject}: tables to read", Level.OK, f"{read} captured tables are there to be read")


def _listed(server: MysqlServer) -> list[tuple[str, str, str, str]]:
    """Return database, name, type and engine of all tables and views that the account can see."""
    rows = server.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, '') FROM information_schema.TABLES "
        "WHERE TABLE_TYPE <> 'SYSTEM VIEW' ORDER BY 1, 2"
    )
    return [(str(d), str(t), str(kind), str(engine)) for d, t, kind, engine in rows]


def _account(server: MysqlServer) -> str:
    user, _, host = str(server.query("SELECT CURRENT_USER()")[0][0]).rpartition("@")
    return f"'{user}'@'{host}'"
