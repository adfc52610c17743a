"""Preflight of a snapshot on real servers: each thing that it needs is named, with what mends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from databus.binlog.log.capture import TableCapture
from databus.core.findings import Finding, Level
from databus.sandbox import Sandbox, SandboxOptions
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.snapshot_preflight import snapshot_findings
from tests.integration.binlog_shop import Shop
from tests.ports import ports_from

pytestmark = pytest.mark.integration


@pytest.fixture
def reading(shop: Shop) -> Shop:
    """A shop of tables `a` and `b`, and an account that may read its log."""
    monitor = "REPLICATION CLIENT" if shop.flavor == "mysql" else "BINLOG MONITOR"
    shop.sql(
        f"CREATE TABLE {shop.name}.a (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE {shop.name}.b (id INT PRIMARY KEY, v INT)",
        f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO '{shop.name}'@'%'",
    )
    return shop


def findings(shop: Shop, *tables: str) -> dict[str, Finding]:
    """Findings by what was probed, of the account that may read the log."""
    own = {"login": shop.name, "password": SecretStr("secret")}
    server = MysqlServer(shop.connection.model_copy(update=own))
    capture = TableCapture(tuple(f"{shop.name}.{table}" for table in tables) or (f"{shop.name}.*",))
    try:
        found = snapshot_findings(server, capture)
    finally:
        server.close()
    for finding in found:
        assert bool(finding.code) == (finding.level is not Level.OK)
    return {f.subject.partition(": ")[2]: f for f in found}


def troubles(found: dict[str, Finding]) -> dict[str, Level]:
    return {subject: f.level for subject, f in found.items() if f.level is not Level.OK}


def test_nothing_is_said_where_nothing_lacks(reading: Shop) -> None:
    reading.sql(f"GRANT SELECT ON {reading.name}.* TO '{reading.name}'@'%'")
    found = findings(reading)
    assert troubles(found) == {}
    assert {"binlog_row_image", "replica", "SELECT", "tables to read"} <= set(found)
    assert "2 captured tables" in found["SELECT"].message


def test_tables_that_the_account_may_not_read_are_named(reading: Shop) -> None:
    name, account = reading.name, f"'{reading.name}'@'%'"
    reading.sql(
        f"CREATE TABLE {name}.c (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE {name}.d (id INT PRIMARY KEY, v INT)",
        f"GRANT SELECT ON {name}.a TO {account}",
        f"GRANT INSERT ON {name}.b TO {account}",  # shown, and not to be read
        f"GRANT SELECT (id) ON {name}.c TO {account}",  # a column of it
    )
    found = findings(reading, "a", "b", "c", "d")
    lacking = {f"SELECT on {name}.{table}" for table in "bcd"}
    assert troubles(found) == dict.fromkeys(lacking, Level.ERROR)
    for subject in lacking:
        assert found[subject].code == "source_access_denied"
        reading.sql(found[subject].hint)
    assert troubles(findings(reading, "a", "b", "c", "d")) == {}


def test_tables_that_are_hidden_from_a_pattern_are_told(reading: Shop) -> None:
    reading.sql(f"GRANT SELECT ON {reading.name}.a TO '{reading.name}'@'%'")
    found = findings(reading, "*")
    assert troubles(found) == {"SELECT": Level.WARN}
    assert f"{reading.name}.*" in found["SELECT"].message
    assert found["SELECT"].hint.startswith("GRANT SELECT ON ")


def test_a_flow_that_has_not_begun_asks_for_its_rows_unless_it_does_without_them(reading: Shop) -> None:
    reading.connection = reading.connection.model_copy(update={"login": reading.name, "password": SecretStr("secret")})
    lacking, place = f"shop: SELECT on {reading.name}.a", None
    for begins, wanted in (("initial", True), ("only", True), ("never", False)):
        source = reading.open((f"{reading.name}.a",), snapshot=begins)
        place = place or source.latest_offset()
        found = {f.subject: f for f in source.preflight(None)}
        assert (lacking in found) is wanted
        if wanted:
            assert found[lacking].hint.endswith('Or snapshot="never" at the source: the flow begins without its rows.')
        assert lacking not in {f.subject for f in source.preflight(place)}  # one that has begun needs none
        source.close()


def test_settings_that_lose_updates_are_refused(reading: Shop) -> None:
    reading.sql(f"GRANT SELECT ON {reading.name}.* TO '{reading.name}'@'%'", "SET GLOBAL binlog_row_image='NOBLOB'")
    try:
        found = findings(reading)
    finally:
        reading.sql("SET GLOBAL binlog_row_image='FULL'")
    assert troubles(found) == {"binlog_row_image": Level.ERROR}
    assert found["binlog_row_image"].code == "snapshot_refused"
    assert "NOBLOB" in found["binlog_row_image"].message
    assert "binlog_row_image='FULL'" in found["binlog_row_image"].hint


@pytest.mark.parametrize("flavor", ["mysql"])
def test_without_gtids_the_read_lock_is_told_or_refused(reading: Shop) -> None:
    reading.sql(
        f"GRANT SELECT ON {reading.name}.* TO '{reading.name}'@'%'",
        *(f"SET GLOBAL gtid_mode = {m}" for m in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")),
    )
    try:
        refused = findings(reading)
        assert troubles(refused) == {"place of a view": Level.ERROR}
        assert refused["place of a view"].code == "snapshot_refused"
        reading.sql(refused["place of a view"].hint.partition("or ")[2].removesuffix("."))
        told = findings(reading)
        assert troubles(told) == {"place of a view": Level.WARN}
        assert "FLUSH TABLES WITH READ LOCK" in told["place of a view"].message
    finally:
        reading.sql(*(f"SET GLOBAL gtid_mode = {m}" for m in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")))
    assert troubles(findings(reading)) == {}


def test_tables_that_are_read_in_another_way_are_told(reading: Shop) -> None:
    name = reading.name
    reading.sql(
        f"GRANT SELECT ON {name}.* TO '{name}'@'%'",
        f"CREATE TABLE {name}.keyless (v INT)",
        f"CREATE TABLE {name}.plain (id INT PRIMARY KEY) ENGINE=MyISAM",
        f"CREATE VIEW {name}.seen AS SELECT * FROM {name}.a",
    )
    found = findings(reading)
    subjects = {kind: f"table {name}.{kind}" for kind in ("keyless", "plain", "seen")}
    assert troubles(found) == dict.fromkeys(subjects.values(), Level.WARN)
    codes = {kind: found[subject].code for kind, subject in subjects.items()}
    assert codes == {
        "keyless": "snapshot_no_primary_key",
        "plain": "snapshot_not_transactional",
        "seen": "snapshot_view",
    }
    assert "MyISAM" in found[subjects["plain"]].message
    assert "4 captured tables" in found["tables to read"].message
    assert troubles(findings(reading, "a")) == {}
    for kind in ("keyless", "plain"):
        reading.sql(found[subjects[kind]].hint)
    assert troubles(findings(reading, "keyless", "plain")) == {}


@pytest.fixture(scope="module")
def unlogged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Servers that do not log what they replicate."""
    own = {name: {"log-slave-updates": "OFF"} for name in ("mysql", "mariadb")}
    sandbox = Sandbox(
        tmp_path_factory.mktemp("unlogged"),
        ports_from=ports_from(23_600),
        options=SandboxOptions(sql_options=own),
    )
    try:
        sandbox.up(("mysql", "mariadb"))
        yield sandbox
    finally:
        sandbox.destroy()


def test_a_replica_that_does_not_log_what_it_applies_is_refused(unlogged: Sandbox, flavor: str, tmp_path: Path) -> None:
    shop = Shop(flavor, unlogged.address(flavor), tmp_path, "numba")
    server, capture = MysqlServer(shop.connection), TableCapture((f"{shop.name}.*",))

    def replica() -> Finding:
        (found,) = [f for f in snapshot_findings(server, capture) if f.subject.endswith(": replica")]
        return found

    assert replica().level is Level.OK
    shop.sql("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='root'")
    found = replica()
    assert (found.level, found.code) == (Level.ERROR, "snapshot_refused")
    assert "not in its log" in found.message
    assert "log-" in found.hint
    server.close()
