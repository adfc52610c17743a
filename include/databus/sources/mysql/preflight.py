"""Preflight of a MySQL or MariaDB source: each setting, grant and table that capture needs, and the SQL to mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from databus.binlog.log.capture import SYSTEM_DATABASES, TableCapture
from databus.core.errors.root import DatabusError
from databus.core.errors.source import SourceAccessError
from databus.core.findings import Finding, Level
from databus.sources.mysql.server import MysqlServer, grants_by_scope

MIN_RETENTION_S = 24 * 3600
"""A log kept for less than this does not survive an outage over a night."""

_OLDEST = {"mysql": (8, 0, 1), "mariadb": (10, 5, 0)}
"""First versions with binlog_row_metadata=FULL."""

_Probe = Callable[[MysqlServer, TableCapture, str], Iterator[Finding]]
_SETTING, _ACCESS = "source_setting", "source_access_denied"
NO_PRIMARY_KEY = "source_no_primary_key"
"""Code of the finding for a table whose rows have no key; sinks decide whether that stops a flow."""

UNLOGGED_CASCADE = "source_unlogged_cascade"
"""Code of the finding for a foreign key that changes rows without a trace in the log."""
_CASCADES = ("CASCADE", "SET NULL", "SET DEFAULT")

_VARIABLES = (
    "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_row_value_options", "gtid_mode",
    "gtid_strict_mode", "binlog_expire_logs_seconds", "expire_logs_days",
)  # fmt: skip


def preflight(server: MysqlServer, capture: TableCapture) -> Iterator[Finding]:
    """Yield a finding for everything that was probed; one probe that fails does not hide the others.

    Raises:
        SourceUnavailableError, SourceAccessError: the server cannot be asked at all.
    """
    subject = server.connection.conn_id
    settings = server.variables(*_VARIABLES)
    yield _version(server, subject)
    yield from _settings(settings, server.flavor, subject)
    yield _retention(settings, server.flavor, subject)
    for probe, name in ((_grants, "grants"), (_tables, "tables"), (_cascades, "foreign keys")):
        yield from _guarded(probe, server, capture, f"{subject}: {name}")


def _guarded(probe: _Probe, server: MysqlServer, capture: TableCapture, subject: str) -> Sequence[Finding]:
    try:
        return list(probe(server, capture, server.connection.conn_id))
    except DatabusError as error:
        level = Level.ERROR if isinstance(error, SourceAccessError) else Level.WARN
        return [Finding.of(subject, error, level)]


def _version(server: MysqlServer, subject: str) -> Finding:
    oldest = _OLDEST[server.flavor]
    numbers = tuple(int(n) for n in server.version.split("-")[0].split(".")[:3])
    what = f"{subject}: server version"
    if numbers < oldest:
        return Finding(
            what,
            Level.ERROR,
            f"{server.version} is older than {'.'.join(map(str, oldest))}",
            "Upgrade the server: older ones cannot log column names (binlog_row_metadata=FULL).",
            _SETTING,
        )
    return Finding(what, Level.OK, f"{server.flavor} {server.version}")


def _settings(settings: dict[str, str], flavor: str, subject: str) -> Iterator[Finding]:
    def finding(name: str, level: Level, message: str, hint: str) -> Finding:
        return Finding(f"{subject}: {name}", level, message, hint, "" if level is Level.OK else _SETTING)

    def wants(name: str, good: tuple[str, ...], level: Level, hint: str) -> Finding:
        value = settings.get(name, "")
        fine = value.upper() in good
        return finding(name, Level.OK if fine else level, f"{name}={value or '(unknown)'}", "" if fine else hint)

    yield wants("log_bin", ("ON", "1"), Level.ERROR, "Start the server with --log-bin and a --server-id of its own.")
    yield wants("binlog_format", ("ROW",), Level.ERROR, "SET GLOBAL binlog_format='ROW'; then reconnect all sessions.")
    yield wants(
        "binlog_row_metadata", ("FULL",), Level.WARN,
        "SET GLOBAL binlog_row_metadata='FULL'; as it is, columns come from a schema history that follows the log's "
        "ALTER statements from the flow's first run on; one that it cannot follow stops the flow by name. "
        "decoder='library' cannot do without it.",
    )  # fmt: skip
    yield wants(
        "binlog_row_image", ("FULL",), Level.WARN,
        "SET GLOBAL binlog_row_image='FULL'; as it is, unchanged columns are absent from updates (absent is not NULL).",
    )  # fmt: skip
    if settings.get("binlog_row_value_options") and settings.get("binlog_row_image", "").upper() != "FULL":
        yield finding(
            "binlog_row_value_options", Level.WARN, "updates log JSON columns as differences, without the document",
            "SET GLOBAL binlog_row_image='FULL'; or SET GLOBAL binlog_row_value_options=''; then reconnect. As it is, "
            "changed documents are absent and flagged `partial`.",
        )  # fmt: skip
    if flavor == "mysql":
        yield wants(
            "gtid_mode", ("ON",), Level.WARN,
            "Turn GTIDs on step by step (OFF_PERMISSIVE, ON_PERMISSIVE, ON): "
            "without them a failover cannot be followed.",
        )  # fmt: skip
    else:
        yield wants(
            "gtid_strict_mode", ("ON", "1"), Level.WARN,
            "SET GLOBAL gtid_strict_mode=ON; without it a domain may take numbers twice, "
            "and a failover then stops at them.",
        )  # fmt: skip


def _retention(settings: dict[str, str], flavor: str, subject: str) -> Finding:
    seconds = int(float(settings.get("binlog_expire_logs_seconds", "0") or 0))
    seconds = seconds or int(float(settings.get("expire_logs_days", "0") or 0) * 86400)
    what = f"{subject}: retention"
    if 0 < seconds < MIN_RETENTION_S:
        name = (
            "binlog_expire_logs_seconds"
            if flavor == "mysql" or "binlog_expire_logs_seconds" in settings
            else "expire_logs_days"
        )
        value = 7 * 86400 if name.endswith("seconds") else 7
        return Finding(
            what,
            Level.WARN,
            f"the log is kept for {seconds} s, less than a day",
            f"SET GLOBAL {name}={value};",
            _SETTING,
        )
    return Finding(
        what, Level.OK, f"the log is kept for {seconds // 86400} days" if seconds else "the log is never purged by age"
    )


def _grants(server: MysqlServer, capture: TableCapture, subject: str) -> Iterator[Finding]:
    scopes = grants_by_scope(server.query("SHOW GRANTS"))
    everywhere = scopes.get("*.*", set())
    account = server.query("SELECT CURRENT_USER()")[0][0]
    quoted = "'{}'@'{}'".format(*str(account).split("@", 1))

    def has(*names: str) -> bool:
        return "ALL PRIVILEGES" in everywhere or any(n in everywhere for n in names)

    def finding(privilege: str, held: bool, level: Level) -> Finding:
        if held:
            return Finding(f"{subject}: grant {privilege}", Level.OK, f"{account} has {privilege}")
        return Finding(
            f"{subject}: grant {privilege}",
            level,
            f"{account} lacks {privilege}",
            f"GRANT {privilege} ON *.* TO {quoted};",
            _ACCESS,
        )

    yield finding("REPLICATION SLAVE", has("REPLICATION SLAVE", "REPLICATION REPLICA"), Level.ERROR)
    if server.flavor == "mariadb":
        yield finding("BINLOG MONITOR", has("BINLOG MONITOR", "REPLICATION CLIENT"), Level.ERROR)
    else:
        yield finding("REPLICATION CLIENT", has("REPLICATION CLIENT"), Level.ERROR)
    if not has("SELECT") and not any("SELECT" in p or "ALL PRIVILEGES" in p for p in scopes.values()):
        described = server.variables("binlog_row_metadata").get("binlog_row_metadata", "").upper() == "FULL"
        doubtful = " of tables without BINARY(4), BINARY(16) and versioned rows" if server.flavor == "mariadb" else ""
        yield Finding(
            f"{subject}: grant SELECT",
            Level.WARN if described else Level.ERROR,
            f"{account} may not SELECT from the captured tables ({capture}), so information_schema does not show them; "
            + (
                f"streaming{doubtful} works, probing and snapshots do not"
                if described
                else "without binlog_row_metadata=FULL their columns cannot be determined"
            ),
            f"GRANT SELECT ON {_scope(capture)} TO {quoted};",
            _ACCESS,
        )


def _tables(server: MysqlServer, capture: TableCapture, subject: str) -> Iterator[Finding]:
    rows = server.query(
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, "
        # MariaDB shows TABLE_CONSTRAINTS to those alone who may do more than SELECT.
        "EXISTS (SELECT 1 FROM information_schema.STATISTICS c WHERE c.TABLE_SCHEMA = t.TABLE_SCHEMA"
        " AND c.TABLE_NAME = t.TABLE_NAME AND c.INDEX_NAME = 'PRIMARY') "
        "FROM information_schema.TABLES t WHERE t.TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2"
    )
    captured = [(str(d), str(t), bool(key)) for d, t, key in rows if capture(str(d), str(t))]
    for database, table, has_key in captured:
        if has_key:
            yield Finding(f"{subject}: table {database}.{table}", Level.OK, f"{database}.{table} has a primary key")
        else:
            yield Finding(
                f"{subject}: table {database}.{table}",
                Level.WARN,
                f"{database}.{table} has no primary key: its rows have no key",
                f"ALTER TABLE `{database}`.`{table}` ADD COLUMN id BIGINT UNSIGNED "
                "NOT NULL AUTO_INCREMENT PRIMARY KEY;",
                NO_PRIMARY_KEY,
            )


def _cascades(server: MysqlServer, capture: TableCapture, subject: str) -> Iterator[Finding]:
    """Name the foreign keys by which the storage engine changes rows of captured tables itself, unlogged."""
    rows = server.query(
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, "
        "DELETE_RULE, UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS ORDER BY 1, 2, 3"
    )
    for database, table, name, parent_database, parent, on_delete, on_update in (map(str, row) for row in rows):
        rules = [
            f"ON {verb} {rule}" for verb, rule in (("DELETE", on_delete), ("UPDATE", on_update)) if rule in _CASCADES
        ]
        if rules and capture(database, table):
            yield Finding(
                f"{subject}: table {database}.{table}",
                Level.WARN,
                f"{database}.{table} has foreign key {name} ({', '.join(rules)}): rows that change by it when "
                f"{parent_database}.{parent} changes are not in the log, so they do not reach the sinks",
                f"Change the rows of `{database}`.`{table}` by statements of their own before those of "
                f"`{parent_database}`.`{parent}`, or make the constraint RESTRICT.",
                UNLOGGED_CASCADE,
            )


def _scope(capture: TableCapture) -> str:
    databases = {p.split(".")[0] for p in capture.include if not p.startswith("re:")} - SYSTEM_DATABASES
    only = databases.pop() if len(databases) == 1 else "*"
    return "*.*" if set(only) & set("*?[") else f"`{only}`.*"
