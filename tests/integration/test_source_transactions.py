"""What real servers take back or decide late: ROLLBACK, savepoints, two-phase ALTER, table ids used again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pymysql
import pytest

from databus.core.batching import Batching
from databus.core.positions.offsets import BinlogOffset
from databus.sandbox import Sandbox
from tests.contract.source_contract import Row, changes, rows_of
from tests.integration.binlog_shop import Shop, fields

pytestmark = pytest.mark.integration

STEPS = int(os.environ.get("DATABUS_TEST_ROLLBACK_STEPS", "100"))
NON_TRANSACTIONAL = {"mysql": "MyISAM", "mariadb": "Aria"}
GTID_CONSISTENCY, NO_SAVEPOINT, NO_SAVEPOINTS_HERE = 1785, 1305, 1178


@contextmanager
def without_gtids(shop: Shop, wanted: bool) -> Iterator[None]:
    """Let MySQL mix engines in transactions, which its GTIDs forbid."""
    if not wanted:
        yield
        return
    shop.sql(*(f"SET GLOBAL gtid_mode = {m}" for m in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")))
    shop.sql("SET GLOBAL enforce_gtid_consistency = OFF")
    try:
        yield
    finally:
        shop.sql("SET GLOBAL enforce_gtid_consistency = ON")
        shop.sql(*(f"SET GLOBAL gtid_mode = {m}" for m in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")))


class MixedHistory:
    """Random transactions over a transactional and a non-transactional table, full of savepoints and rollbacks."""

    def __init__(self, shop: Shop, seed: int):
        self.shop, self.random, self.key = shop, random.Random(seed), 0
        engine = NON_TRANSACTIONAL[shop.flavor]
        shop.sql(
            f"CREATE TABLE {shop.name}.i (id INT PRIMARY KEY, v INT) ENGINE = InnoDB",
            f"CREATE TABLE {shop.name}.n (id INT PRIMARY KEY, v INT) ENGINE = {engine}",
            f"CREATE TABLE {shop.name}.hooked (id INT PRIMARY KEY, v INT) ENGINE = InnoDB",
            f"CREATE TRIGGER {shop.name}.hook AFTER INSERT ON {shop.name}.hooked FOR EACH ROW "
            f"INSERT INTO {shop.name}.n VALUES (new.id, new.v)",
        )

    def transaction(self) -> None:
        """Run one transaction, whatever the server refuses in it."""
        self._try("BEGIN")
        if self.random.random() < 0.2:
            name, self.key = self.shop.name, self.key + 1
            self._try(f"INSERT INTO {name}.i VALUES ({self.key + 400000}, 4)")
            self._try("SAVEPOINT p1")
            self._try(f"INSERT INTO {name}.i VALUES ({self.key}, 4)")
            self._try(f"INSERT INTO {name}.n VALUES ({self.key}, 4)")
            if self.random.random() < 0.5:
                self._try("ROLLBACK TO P1")
        for _ in range(self.random.randint(1, 9)):
            self._try(self._statement())
        self._try(self.random.choice(("COMMIT", "ROLLBACK")))

    def tables(self) -> dict[str, dict[int, int]]:
        """What SELECT shows now."""
        return {t: dict(self.shop.sql(f"SELECT id, v FROM {self.shop.name}.{t}")) for t in ("i", "n", "hooked")}

    def _statement(self) -> str:
        name, key = self.shop.name, self.random.randint(0, self.key)
        self.key += 1
        point = self.random.choice(("p1", "`P2`", "p1"))
        return self.random.choice(
            (
                f"INSERT INTO {name}.i VALUES ({self.key}, 1), ({self.key + 100000}, 2)",
                f"INSERT INTO {name}.n VALUES ({self.key}, 1)",
                f"INSERT INTO {name}.hooked VALUES ({self.key + 200000}, 1)",
                f"INSERT INTO {name}.i VALUES ({self.key + 300000}, 3), ({key}, 1), ({key}, 1)",
                f"INSERT INTO {name}.n VALUES ({self.key + 300000}, 3), ({key}, 1), ({key}, 1)",
                f"UPDATE {name}.i, {name}.n SET i.v = i.v + 1, n.v = n.v + 1 WHERE i.id = {key} AND n.id >= {key}",
                f"UPDATE {name}.i SET v = v + 10 WHERE id <= {key} ORDER BY id DESC LIMIT 3",
                f"DELETE FROM {name}.n WHERE id = {key}",
                f"SAVEPOINT {point}",
                f"SAVEPOINT {point}",
                f"ROLLBACK TO SAVEPOINT {point}",
                f"ROLLBACK TO {point}",
                f"RELEASE SAVEPOINT {point}",
            )
        )

    def _try(self, sql: str) -> None:
        try:
            self.shop.sql(sql)
        except pymysql.err.MySQLError as error:
            if error.args[0] not in {1062, GTID_CONSISTENCY, NO_SAVEPOINT, NO_SAVEPOINTS_HERE}:
                raise


def replay(rows: list[Row]) -> dict[str, dict[int, int]]:
    """Return the tables that the delivered changes make; a repeated or missing change fails."""
    tables: dict[str, dict[int, int]] = {"i": {}, "n": {}, "hooked": {}}
    for row in rows:
        if row["op"] in {"c", "u", "d"}:
            before, after = fields(row["before"]), fields(row["after"])
            if before is not None:
                assert tables[row["table"]].pop(before["id"]) == before["v"], row["event_id"]
            if after is not None:
                assert after["id"] not in tables[row["table"]], row["event_id"]
                tables[row["table"]][after["id"]] = after["v"]
    return tables


def events(shop: Shop, after: BinlogOffset) -> list[tuple[Any, ...]]:
    return shop.sql(f"SHOW BINLOG EVENTS IN '{after.file}' FROM {after.pos}")


@pytest.mark.parametrize("server", ["mysql", "mysql without gtids", "mariadb"])
def test_random_rollbacks_replay_to_the_final_tables(make_shop: Callable[[str, str], Shop], server: str) -> None:
    flavor = server.split(maxsplit=1)[0]
    shop = make_shop(flavor, "numba")
    with without_gtids(shop, server.endswith("without gtids")):
        history = MixedHistory(shop, 5)
        for _ in range(STEPS):
            history.transaction()
        expected = history.tables()
        assert all(expected.values()) or server == "mysql"
        logged = [str(e[5]) for e in events(shop, shop.begin)]
        if flavor == "mariadb":  # MySQL leaves out what is taken back
            assert any(text.startswith("ROLLBACK TO") for text in logged)
            assert "ROLLBACK" in logged
        rows = shop.read()
        assert replay(rows) == expected
        assert [r["event_id"] for r in shop.read(decoder="library")] == [r["event_id"] for r in rows]
        source, after, cut = shop.open(), shop.begin, []
        while (plan := source.plan(after, Batching(max_rows=5, max_wait=timedelta(seconds=0.2)))) is not None:
            got = rows_of(source, plan)
            assert changes(got) == plan.rows
            cut += got
            source.release(plan)
            assert isinstance(plan.range.end, BinlogOffset)
            after = plan.range.end
        source.close()
    assert [r["event_id"] for r in cut] == [r["event_id"] for r in rows]


@pytest.mark.parametrize("server", ["mysql without gtids", "mariadb"])
def test_savepoints_and_routines_mean_what_they_mean_to_the_server(
    make_shop: Callable[[str, str], Shop], server: str
) -> None:
    shop = make_shop(server.split(maxsplit=1)[0], "numba")
    with without_gtids(shop, server.endswith("without gtids")):
        history = MixedHistory(shop, 1)
        name = shop.name
        shop.sql(f"CREATE PROCEDURE {name}.p() START TRANSACTION", f"DROP PROCEDURE {name}.p")
        shop.transaction(
            f"INSERT INTO {name}.i VALUES (1, 1)",
            "SAVEPOINT `e`",
            f"INSERT INTO {name}.i VALUES (2, 2)",
            "SAVEPOINT `\u00e9`",  # takes the place of the one before
            f"INSERT INTO {name}.i VALUES (3, 3)",
            f"INSERT INTO {name}.n VALUES (1, 1)",  # so that what is rolled back is logged
            "ROLLBACK TO `\u00ca`",
        )
        assert history.tables()["i"] == {1: 1, 2: 2}
        if shop.flavor == "mariadb":
            assert any(str(e[5]).startswith("ROLLBACK TO") for e in events(shop, shop.begin))
        assert replay(shop.read()) == history.tables()


def test_statements_of_others_and_on_accounts_stay_in_the_log(shop: Shop) -> None:
    name = shop.name
    user, other = f"'{name}'@'localhost'", f"{name}_other"
    shop.sql(
        f"CREATE USER {user} IDENTIFIED BY 'Secret-1'",
        f"ALTER USER {user} IDENTIFIED BY 'Secret-2'",
        f"GRANT SELECT ON {name}.* TO {user}",
        f"CREATE DATABASE {other}",
        f"CREATE TABLE {other}.t (id INT PRIMARY KEY)",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
        f"CREATE PROCEDURE {name}.p() START TRANSACTION",
        f"INSERT INTO {name}.t VALUES (1)",
        f"RENAME TABLE {other}.t TO {name}.u",
        f"DROP TABLE {name}.t, {name}.u",
        f"DROP DATABASE {other}",
        f"DROP USER {user}",
    )
    logged = " ".join(str(e[5]) for e in events(shop, shop.begin))
    assert "CREATE USER" in logged
    assert "Secret-1" in logged or shop.flavor == "mysql"  # which writes hashes
    rows = shop.read()
    assert [r["event_id"] for r in shop.read(decoder="library")] == [r["event_id"] for r in rows]
    told = [(r["database"], r["table"], str(r["statement"]).split()[0]) for r in rows if r["op"] == "m"]
    own = [("t", "CREATE"), ("u", "RENAME"), ("", "DROP")]
    if len(told) == 4:  # MariaDB may write a statement for each of the tables
        own[2:] = [("t", "DROP"), ("u", "DROP")]
    assert told == [(name, *what) for what in own]
    assert not any(word in str(rows) for word in ("Secret", "IDENTIFIED", "GRANT", "PROCEDURE", "DATABASE"))


def test_what_is_taken_back_behind_many_buffers(make_shop: Callable[[str, str], Shop]) -> None:
    shop = make_shop("mariadb", "numba")
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARCHAR(4000))",
        f"CREATE TABLE {shop.name}.n (id INT) ENGINE = Aria",
    )
    numbers = [",".join(f"({k * 2000 + n}, REPEAT('x', 3000))" for n in range(2000)) for k in range(3)]
    shop.transaction(
        f"INSERT INTO {shop.name}.t VALUES {numbers[0]}",
        "SAVEPOINT s",
        f"INSERT INTO {shop.name}.t VALUES {numbers[1]}",
        f"INSERT INTO {shop.name}.n VALUES (1)",
        "ROLLBACK TO s",
        f"INSERT INTO {shop.name}.t VALUES {numbers[2]}",
    )
    rows = [r for r in shop.read() if r["op"] != "m"]
    keys = [k["id"] for r in rows if r["table"] == "t" and (k := fields(r["after"]))]
    assert keys == [*range(2000), *range(4000, 6000)]
    assert keys == [k for (k,) in shop.sql(f"SELECT id FROM {shop.name}.t ORDER BY id")]


@pytest.mark.parametrize("decoder", ["numba", "library"])
def test_two_phase_alter_counts_at_its_commit(make_shop: Callable[[str, str], Shop], decoder: str) -> None:
    shop = make_shop("mariadb", decoder)
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 1), (2, 1)")
    shop.sql("SET SESSION binlog_alter_two_phase = ON", f"ALTER TABLE {table} ADD COLUMN z INT DEFAULT 4")
    with pytest.raises(pymysql.err.IntegrityError):
        shop.sql(f"ALTER TABLE {table} ADD UNIQUE (v)")
    shop.sql(f"INSERT INTO {table} VALUES (3, 3, 3)", f"ALTER TABLE {table} DROP COLUMN v, ALGORITHM = COPY")
    shop.sql(f"UPDATE {table} SET z = 9 WHERE id = 3", f"CREATE INDEX by_z ON {table} (z)")
    logged = [str(e[5]) for e in events(shop, shop.begin)]
    assert [sum(word in text for text in logged) for word in ("START ALTER", "COMMIT ALTER", "ROLLBACK ALTER")] == [
        4, 3, 1,
    ]  # fmt: skip
    rows = shop.read()
    got = [(r["op"], (r["statement"] or "").split(" ")[0], fields(r["before"]), fields(r["after"])) for r in rows]
    assert got == [
        ("m", "CREATE", None, None),
        ("c", "", None, {"id": 1, "v": 1}),
        ("c", "", None, {"id": 2, "v": 1}),
        ("m", "ALTER", None, None),
        ("c", "", None, {"id": 3, "v": 3, "z": 3}),
        ("m", "ALTER", None, None),
        ("u", "", {"id": 3, "z": 3}, {"id": 3, "z": 9}),
        ("m", "CREATE", None, None),
    ]
    commits = [text.rpartition("GTID ")[2].split(" ")[0] for text in logged if "COMMIT ALTER" in text]
    assert [r["transaction"] for r in rows if r["op"] == "m"][1:] == commits


def test_other_transactions_run_between_the_phases_of_an_alter(make_shop: Callable[[str, str], Shop]) -> None:
    shop, other = make_shop("mariadb", "numba"), make_shop("mariadb", "numba")
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"CREATE TABLE {shop.name}.u (id INT PRIMARY KEY)")
    shop.sql(f"USE {shop.name}", f"INSERT INTO {table} SELECT seq, seq FROM seq_1_to_200")
    after = shop.open().latest_offset()
    shop.sql("SET SESSION binlog_alter_two_phase = ON")
    # Between the phases the ALTER waits for whoever has read the table.
    other.sql("BEGIN", f"SELECT * FROM {table}")
    shop.send(f"ALTER TABLE {table} ADD COLUMN s DOUBLE DEFAULT 7, ALGORITHM = COPY, LOCK = SHARED")
    try:
        other.wait_for(lambda: any("START ALTER" in str(e[5]) for e in events(other, after)))
        other.sql(f"INSERT INTO {shop.name}.u VALUES (1), (2)")
    finally:
        other.sql("COMMIT")
        shop.receive()
    shop.sql(f"INSERT INTO {table} VALUES (1000, 1, 5)")
    shown = [(r["op"], r["table"], fields(r["after"])) for r in shop.read(after)]
    assert shown == [
        ("c", "u", {"id": 1}),
        ("c", "u", {"id": 2}),
        ("m", "t", None),
        ("c", "t", {"id": 1000, "v": 1, "s": 5.0}),
    ]


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_name_and_a_table_id_that_come_to_mean_another_table(
    databases: Sandbox, make_shop: Callable[[str, str], Shop], flavor: str
) -> None:
    databases.restart(flavor)  # table ids begin anew with a server
    shop = make_shop(flavor, "numba")
    table, other = f"{shop.name}.t", f"{shop.name}.o"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 1)")
    shop.sql(f"TRUNCATE TABLE {table}", f"INSERT INTO {table} VALUES (1, 2)", f"DROP TABLE {table}")
    shop.sql(f"CREATE TABLE {table} (name VARCHAR(9) PRIMARY KEY)", f"INSERT INTO {table} VALUES ('x')")
    before = table_ids(shop, shop.begin)
    databases.restart(flavor)
    shop.reconnect()
    restarted, expected = shop.open().latest_offset(), []
    shop.sql(f"CREATE TABLE {other} (a BIGINT PRIMARY KEY, b CHAR(3))")
    while not before & table_ids(shop, restarted):
        number = len(expected)
        assert number < 400
        for k in range(number, number + 40, 2):
            shop.sql(f"INSERT INTO {other} VALUES ({k}, 'o')", f"INSERT INTO {table} VALUES ('n{k}')")
            shop.sql(f"FLUSH NO_WRITE_TO_BINLOG TABLES {other}, {table}")  # opened again, a table gets a new id
            expected += [{"a": k, "b": "o"}, {"name": f"n{k}"}]
    for decoder in ("numba", "library"):
        rows = shop.read(decoder=decoder)
        assert [(r["op"], fields(r["after"])) for r in rows[:8]] == [
            ("m", None),
            ("c", {"id": 1, "v": 1}),
            ("t", None),
            ("c", {"id": 1, "v": 2}),
            ("m", None),
            ("m", None),
            ("c", {"name": "x"}),
            ("m", None),
        ]
        assert [fields(r["after"]) for r in rows[8:]] == expected


def table_ids(shop: Shop, after: BinlogOffset) -> set[str]:
    return {str(e[5]).split(" ")[1] for e in events(shop, after) if e[2] == "Table_map"}
