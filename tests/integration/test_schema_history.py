"""Definition statements followed without asking the server, against what information_schema says after each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.schema_history.definition import LogPosition, TableDefinition, TableName
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.schema_history.interpret import interpret
from databus.sandbox import Sandbox
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.tables.information_schema import MysqlColumns
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration

BOTH = (
    "CREATE TABLE a (id INT, PRIMARY KEY (id))",
    "CREATE TABLE `b b` (x SERIAL, y DOUBLE PRECISION, z CHARACTER VARYING(7), n NATIONAL VARCHAR(9), l LONG VARCHAR)",
    ("CREATE TABLE c (a INT4 UNSIGNED, b BOOL, c NUMERIC(8), d DEC(9,3) ZEROFILL, e FLOAT(30), f FLOAT(7,3), g REAL, "
    "h BIT, i YEAR, j TEXT(100), k TEXT(70000) CHARACTER SET latin1, l BLOB(300), m MIDDLEINT, n INTEGER(5) ZEROFILL)"),
    ("CREATE TABLE d (k VARCHAR(10) COLLATE latin1_bin, e ENUM('a ','b''c','d,e','f)g') DEFAULT 'b''c', "
    "s SET('x','y') CHARACTER SET utf8mb3, t TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE NOW(6), "
    "u DATETIME(3) DEFAULT '2024-01-01 00:00:00.000', `weird \"``name` INT COMMENT 'x, drop b', "
    "KEY (k), UNIQUE KEY q (e), PRIMARY KEY USING BTREE (k(3) DESC, e)) ENGINE=InnoDB CHARSET latin1"),
    "CREATE TABLE IF NOT EXISTS a (other INT)",
    "CREATE TABLE IF NOT EXISTS not_there (one INT)",
    "CREATE TABLE e LIKE d",
    "CREATE TABLE f (LIKE a)",
    "ALTER TABLE a ADD b VARCHAR(5) AFTER id, ADD COLUMN c INT FIRST, ADD (d CHAR(3), e TEXT), ADD KEY k (b)",
    "ALTER TABLE a CHANGE b B2 VARCHAR(50) CHARACTER SET latin1 FIRST, DROP COLUMN d",
    "ALTER TABLE a MODIFY e LONGTEXT NOT NULL AFTER id, RENAME COLUMN c TO id3, ALTER COLUMN id SET DEFAULT 5",
    "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (id3, id)",
    "ALTER TABLE a RENAME COLUMN id TO id3, RENAME COLUMN id3 TO id",
    "ALTER TABLE d CONVERT TO CHARACTER SET latin1 COLLATE latin1_swedish_ci",
    "ALTER TABLE e DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin",
    "ALTER TABLE e ADD COLUMN text_of_the_table TINYTEXT",
    "ALTER TABLE e ADD CONSTRAINT u UNIQUE (u), ADD CHECK (k <> 'x, (y'), ALGORITHM=COPY",
    "ALTER TABLE e RENAME TO g, ADD COLUMN after_rename INT",
    "RENAME TABLE a TO tmp, c TO a, tmp TO c",
    "ALTER TABLE g DROP INDEX q, DROP COLUMN t",
    "ALTER TABLE g ADD COLUMN v INT GENERATED ALWAYS AS (LENGTH(k)) VIRTUAL, ADD w INT AS (1 + 2) STORED",
    "ALTER TABLE g ORDER BY k",
    "ALTER TABLE g MODIFY COLUMN s SET('y','x','z') FIRST, MODIFY u DATETIME",
    "ALTER TABLE g ADD n1 INT AFTER s, MODIFY u DATETIME FIRST, ADD n2 INT AFTER u, ADD n3 INT, MODIFY s INT AFTER n2",
    "ALTER TABLE g RENAME COLUMN n1 TO n9, ADD n4 INT AFTER n9, MODIFY n3 BIGINT AFTER n4, DROP n2",
    "CREATE INDEX i ON g (s)",
    "DROP INDEX i ON g",
    "DROP INDEX `PRIMARY` ON g",
    "ALTER TABLE g ADD COLUMN id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST",
    "ALTER TABLE g ENGINE=InnoDB ROW_FORMAT=DYNAMIC, COMMENT 'DROP COLUMN s'",
    "TRUNCATE TABLE g",
    "CREATE TABLE geo (p POINT NOT NULL, g GEOMETRY, m MULTIPOLYGON, SPATIAL INDEX (p))",
    "CREATE TABLE old (d DATE, t TIME(2), j JSON, `key` INT KEY)",
    "CREATE OR REPLACE VIEW seen AS SELECT * FROM old",
    "DROP VIEW seen",
    "DROP TABLE IF EXISTS old, nothing",
    "ALTER DATABASE CHARACTER SET latin1",
    "CREATE TABLE after_database (v VARCHAR(20), PRIMARY KEY (v))",
    "CREATE TABLE parts (id INT PRIMARY KEY, v TEXT) PARTITION BY HASH(id) PARTITIONS 4",
    "ALTER TABLE parts ADD PARTITION PARTITIONS 2",
    "ALTER TABLE parts REMOVE PARTITIONING",
    r"CREATE TABLE wild (e ENUM('a\%b','\_','c\\%','d\e','f\nx','%_') NOT NULL, s SET('\%','\\_','_') NOT NULL)",
)  # fmt: skip
MYSQL = (
    "CREATE TABLE inv (a INT, b INT INVISIBLE, c INT DEFAULT (a + 1), d CHAR(9) DEFAULT (1) /*!50606 INVISIBLE */)",
    "ALTER TABLE inv ALTER COLUMN a SET INVISIBLE, ALTER COLUMN b SET VISIBLE",
    "ALTER TABLE inv ADD COLUMN e INT, ALGORITHM=INSTANT",
    "ALTER TABLE inv ADD CONSTRAINT pk PRIMARY KEY (c)",
    "ALTER TABLE inv DROP CONSTRAINT `PRIMARY`",
    "CREATE TABLE chk (a INT CHECK (a > 0) NOT ENFORCED, g GEOMETRY SRID 4326)",
)
MARIADB = (
    "CREATE TABLE ver (a INT PRIMARY KEY, b INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING",
    "CREATE OR REPLACE TABLE c (a UUID DEFAULT UUID(), b INET6, c INET4, d INT INVISIBLE)",
    "ALTER TABLE c ADD COLUMN IF NOT EXISTS a INT, ADD COLUMN IF NOT EXISTS e INT, DROP COLUMN IF EXISTS zz",
    "ALTER TABLE IF EXISTS c MODIFY COLUMN IF EXISTS zz INT, CHANGE COLUMN IF EXISTS e f BIGINT",
    "ALTER TABLE c ADD SYSTEM VERSIONING",
    "ALTER TABLE c DROP SYSTEM VERSIONING",
    "ALTER ONLINE TABLE c WAIT 5 ADD COLUMN z VARCHAR(30) COMPRESSED, ADD q TEXT COMPRESSED=zlib",
    (
        "CREATE TABLE per (a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
        "e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME (s, e), PRIMARY KEY (a)) "
        "WITH SYSTEM VERSIONING"
    ),
    "CREATE TABLE j (j JSON, t TEXT(300))",
    "RENAME TABLE IF EXISTS j TO jj, nothing TO nowhere",
)
REFUSED = (
    "CREATE TABLE s AS SELECT 1 AS one",
    "ALTER TABLE `b b` CONVERT TO CHARACTER SET utf8mb4, ADD COLUMN more VARCHAR(5)",
)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_statements_are_followed_as_the_server_does(databases: Sandbox, tmp_path: Path, flavor: str) -> None:
    shop = Shop(flavor, databases.address(flavor), tmp_path, "numba")
    server = MysqlServer(shop.connection)
    columns = MysqlColumns(server)
    history = SchemaHistory(shop.begin, LogPosition(1, 0))
    for name, definition in columns.definitions([shop.name]).items():
        history.add(name, Entry(LogPosition(1, 0), definition))
    shop.sql(f"USE {shop.name}")
    for number, sql in enumerate((*BOTH, *(MYSQL if flavor == "mysql" else MARIADB), *REFUSED), start=1):
        shop.sql(sql)
        place = LogPosition(1, number)
        query = QueryEvent(shop.name, sql)
        for name, entry in interpret(query, history, place, f"f:{number}", flavor).items():
            history.add(name, entry)
        now = columns.definitions([shop.name])
        for name in set(now) | set(history.tables):
            entry = history.at(name, place)
            if entry is not None and entry.unknown:
                assert sql in REFUSED, (sql, entry.unknown)
                history.add(name, Entry(place, now[name]), proven=True)
                continue
            assert differences(entry.definition if entry else None, now.get(name)) == [], (sql, name)
    server.close()
    shop.drop()


def differences(followed: TableDefinition | None, now: TableDefinition | None) -> list[object]:
    """Return where two definitions differ; where DDL leaves NULL open, the server decides."""
    if followed is None or now is None:
        return [] if followed is now else [followed, now]
    columns = tuple(
        replace(c, nullable=other.nullable) if c.nullable is None else c
        for c, other in zip(followed.columns, now.columns, strict=False)
    )
    if len(followed.columns) != len(now.columns) or columns != now.columns:
        return [pair for pair in zip(columns, now.columns, strict=False) if pair[0] != pair[1]] or [followed, now]
    return [] if replace(followed, columns=columns) == now else [followed, now]


def test_what_cannot_be_followed_names_the_statement_and_both_states() -> None:
    history = SchemaHistory.__new__(SchemaHistory)
    history.tables = {}
    table = TableDefinition("d", "t", (), (), "utf8mb4")
    history.add(TableName("d", "t"), Entry(LogPosition(1, 4), table))
    found = interpret(QueryEvent("d", "ALTER TABLE t FROBNICATE"), history, LogPosition(1, 9), "bin.000001:9", "mysql")
    assert "bin.000001:9" in found[TableName("d", "t")].unknown
    assert "ALTER TABLE t FROBNICATE" in found[TableName("d", "t")].unknown
