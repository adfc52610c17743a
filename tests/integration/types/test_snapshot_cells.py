"""Rows that a snapshot reads against the same rows decoded from the log: schema, Arrow types, every cell."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import INSERT, MAX_IMAGES, READ, TableBatch
from databus.binlog.log.tablemap import TableMap
from databus.binlog.schema_history.definition import TableDefinition, TableName
from databus.binlog.schema_history.definitions import PinnedDefinition, PinnedDefinitions
from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.logged_table import logged_table
from databus.sources.mysql.snapshot.table_reader import read_table
from databus.sources.mysql.tables.information_schema import MysqlColumns
from tests.integration.test_decode_real import Server
from tests.integration.types.cells import Column, expression, families
from tests.integration.types.test_charsets import charsets, fill
from tests.integration.types.test_compressed import COLUMNS as COMPRESSED
from tests.integration.types.test_compressed import value as compressed_value
from tests.integration.types.zones import ZONES, load

pytestmark = pytest.mark.integration

ROWS = 60
Values = tuple[pa.Table, dict[tuple[str, int], Any]]


def connection_of(server: Server) -> Connection:
    mysql = server.connection
    return Connection(conn_id="shop", conn_type="mysql", host=mysql.host, port=mysql.port, login="root")


def definition_of(server: Server, table: str) -> TableDefinition:
    control = MysqlServer(connection_of(server))
    found = MysqlColumns(control).definitions(["cells"])[TableName("cells", table)]
    control.close()
    return found


def read(server: Server, table: TableMap, condition: str = "", most_images: int = MAX_IMAGES) -> list[TableBatch]:
    opened = ServerConnection(connection_of(server))
    batches = list(read_table(opened, table, condition, table.to_schema(0), most_images))
    assert opened.query("SELECT 1") == [(1,)]  # the connection is as good as before
    opened.close()
    return batches


def values_of(batches: Sequence[TableBatch]) -> Values:
    """Return the images of some batches as one table, and the exceptions by column and row."""
    kept, before = {}, 0
    for batch in batches:
        for number, found in batch.exceptions.items():
            kept |= {(batch.schema.columns[number].name, before + row): value for row, value in found.items()}
        before += batch.images.num_rows
    return pa.Table.from_batches([b.images for b in batches]), kept


def logged(server: Server, table: str, definition: TableDefinition) -> tuple[Values, TableSchema]:
    """Decode what the newest log file holds of a table: nothing but inserts, completed by its definition."""
    file = server.run("SHOW BINARY LOGS")[-1][0]
    events = server.decode_log(definitions=PinnedDefinitions([PinnedDefinition(file, 4, definition)]))
    batches = [b for b in events if isinstance(b, TableBatch) and b.schema.table == table]
    assert all((b.op == INSERT).all() for b in batches)
    return values_of(batches), batches[0].schema


def differences(ours: Values, theirs: Values) -> list[Any]:
    """Return the first cells in which two tables differ, and where their exceptions do."""
    (read_rows, read_kept), (log_rows, log_kept) = ours, theirs
    assert read_rows.schema == log_rows.schema
    assert len(read_rows) == len(log_rows)
    found: list[Any] = []
    for name in log_rows.column_names:
        a, b = read_rows.column(name).combine_chunks(), log_rows.column(name).combine_chunks()
        if not a.equals(b):
            pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
            found += [(name, row, x, y) for row, (x, y) in enumerate(pairs) if x != y][:3] or [(name, "unequal")]
    found += [(key, read_kept.get(key), log_kept.get(key)) for key in read_kept.keys() ^ log_kept.keys()]
    return found + [(key, read_kept[key], log_kept[key]) for key in read_kept.keys() & log_kept.keys()
                    if read_kept[key] != log_kept[key]]  # fmt: skip


def check(server: Server, table: str) -> Values:
    """Compare a table, which holds what the newest log file holds, and return its rows."""
    definition = definition_of(server, table)
    theirs, schema = logged(server, table, definition)
    described = logged_table(definition, server.name)
    assert described.to_schema(schema.schema_id) == schema
    batches = read(server, described)
    ours = values_of(batches)
    assert differences(ours, theirs)[:5] == []
    assert all((b.op == READ).all() and (b.before_row == -1).all() for b in batches)
    assert [n for b in batches for n in b.ordinal.tolist()] == list(range(len(theirs[0])))
    return ours


def create(server: Server, table: str, body: str, options: str = "") -> None:
    server.run(f"DROP TABLE IF EXISTS cells.{table}")
    server.run(f"CREATE TABLE cells.{table} (id INT PRIMARY KEY, {body}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC {options}")
    server.new_log()


def insert(server: Server, table: str, columns: Sequence[Column], r: random.Random) -> None:
    names = ",".join(f"`{c.name}`" for c in columns)
    for key in range(1, ROWS + 1):
        made = [("NULL", []) if key == 7 else expression(c, r, server.name) for c in columns]
        marks = ",".join(sql for sql, _ in made)
        server.run(
            f"INSERT INTO cells.{table} (id,{names}) VALUES ({key},{marks})", [v for _, some in made for v in some]
        )


@pytest.mark.parametrize("family", ["plain", "charsets", "large"])
def test_every_type_is_as_in_the_log(server: Server, family: str) -> None:
    seed = int(os.environ.get("DATABUS_TEST_SEED", random.SystemRandom().getrandbits(32)))
    r = random.Random(f"{seed}-{server.name}")
    load(server)
    server.run("SET NAMES utf8mb4")
    names = [str(row[0]) for row in server.run("SHOW CHARACTER SET") if row[0] != "binary"]
    columns = families(server.name, names)[family]
    create(server, family, ",".join(f"`{c.name}` {c.ddl}" for c in columns))
    server.run(f"SET SESSION time_zone='{r.choice(ZONES)}'")
    insert(server, family, columns, r)
    rows, _ = check(server, family)
    assert all(column.null_count for column in rows.columns[1:]), seed


ODD = {
    "`a``b ?%` INT UNSIGNED ZEROFILL": ("7", "NULL"),
    "wide DECIMAL(50,10) ZEROFILL": ("12.5", "0"),
    "narrow DECIMAL(12,4) ZEROFILL NOT NULL": ("12.5", "0"),
    "whole DECIMAL(20,0)": ("-12345678901234567890", "99999999999999999999"),
    "f FLOAT(7,2) ZEROFILL": ("1.1", "99999.99"),
    "nothing CHAR(0)": ("''", "NULL"),
    "no_bytes BINARY(0)": ("''", "NULL"),
    "padded CHAR(9) CHARACTER SET latin1": ("'a  '", "'   '"),
    "kept VARCHAR(9) CHARACTER SET ucs2": ("'a  '", "' '"),
    "zeros BINARY(5)": ("x'0100'", "x'0000000000'"),
    "long_zeros BINARY(255) NOT NULL": ("''", "x'00FF00'"),
    "var_zeros VARBINARY(300)": ("x'010000'", "x''"),
    "e ENUM('','a,b','it''s','\\\\','%_','trailing ') CHARACTER SET utf8mb3": ("2", "0"),
    "s SET('x','it''s','%') NOT NULL": ("'x,%'", "0"),
    "y YEAR": ("0", "2155"),
    "d DATE NOT NULL": ("'0000-00-00'", "'2023-02-30'"),
    "dt DATETIME(2) NOT NULL": ("'0000-00-00 23:59:59.99'", "'9999-12-31 23:59:59.99'"),
    "ts TIMESTAMP(4) NOT NULL": ("0", "'2038-01-19 03:14:07.9999'"),
    "t TIME(6)": ("'-838:59:59.000000'", "'-00:00:00.000001'"),
    "b BIT(64) NOT NULL": ("b'1'", "0xFFFFFFFFFFFFFFFF"),
    "summed BIGINT AS (id + 1) STORED": (),
    "computed VARCHAR(20) AS (CONCAT('n', id)) VIRTUAL": (),
    "hidden INT INVISIBLE DEFAULT 5": ("6", "NULL"),
    "u TINYINT UNSIGNED": ("255", "0"),
    "j JSON": ('\'{"b": 1, "a" : [1, 2, {}]}\'', "'\"a: b, c\"'"),
    "many SET(" + ",".join(f"'m{n}'" for n in range(64)) + ")": ("18446744073709551615", "9223372036854775808"),
}
"""Columns, and two values of each; none for those that the server computes."""

_LOG_LESS = {"mysql": "MINIMAL", "mariadb": "NO_LOG"}


@pytest.mark.parametrize("metadata", ["full", "less"])
def test_columns_that_are_odd(server: Server, metadata: str) -> None:
    server.run("SET SESSION sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'")
    create(server, "odd", ",".join(ODD))
    given = {c: v for c, v in ODD.items() if v}
    names = ",".join(c.rpartition("` ")[0] + "`" if c[0] == "`" else c.split()[0] for c in given)
    if metadata == "less":
        server.run(f"SET GLOBAL binlog_row_metadata={_LOG_LESS[server.name]}")
    try:
        for row in (0, 1):
            values = ",".join(v[row] for v in given.values())
            server.run(f"INSERT INTO cells.odd (id,{names}) VALUES ({row},{values})")
        rows, kept = check(server, "odd")
    finally:
        server.run("SET GLOBAL binlog_row_metadata=FULL")
    assert kept["dt", 0] == "0000-00-00T23:59:59.99"
    assert rows.column("computed").to_pylist() == ["n0", "n1"]
    assert rows.column("wide").to_pylist() == ["12.5000000000", "0.0000000000"]


@pytest.mark.parametrize("metadata", ["full", "less"])
def test_types_and_periods_of_mariadb(server: Server, metadata: str) -> None:
    if server.name != "mariadb":
        pytest.skip("types of MariaDB alone")
    body = "u UUID, i INET6, j INET4, c BINARY(16) NOT NULL, n INT, d UUID NOT NULL DEFAULT UUID()"
    period = (
        "s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, "
        "PERIOD FOR SYSTEM_TIME(s, e)"
    )
    if metadata == "less":
        server.run("SET GLOBAL binlog_row_metadata=NO_LOG")
    try:
        for name, more in (("hidden_period", body), ("shown_period", f"{body}, {period}")):
            create(server, name, more, "WITH SYSTEM VERSIONING")
            server.run(
                f"INSERT INTO cells.{name} (id, u, i, j, c) VALUES (1, UUID(), '::1', '1.2.3.4', 'x'), "
                "(2, 'ffffffff-ffff-ffff-ffff-fffffffffffe', '::ffff:1.2.3.4', NULL, ''), "
                "(3, NULL, '1::', '0.0.0.0', 'z')"
            )
            rows, _ = check(server, name)
            assert rows.column("i").to_pylist() == ["::1", "::ffff:1.2.3.4", "1::"]
            server.run(f"UPDATE cells.{name} SET n = 5")
            server.run(f"DELETE FROM cells.{name} WHERE id = 2")
            (batch,) = read(server, logged_table(definition_of(server, name), "mariadb"))
            assert batch.images.column("n").to_pylist() == [5, 5]  # present rows, no history
    finally:
        server.run("SET GLOBAL binlog_row_metadata=FULL")


def test_compressed_columns(server: Server) -> None:
    if server.name != "mariadb":
        pytest.skip("columns of MariaDB alone")
    r = random.Random(11)
    create(server, "packed_rows", ",".join(f"{name} {kind}" for name, kind in COMPRESSED.items()))
    marks = ",".join(["%s"] * (1 + len(COMPRESSED)))
    for key in range(40):
        values = [key, *(compressed_value(name, r) for name in COMPRESSED)]
        server.run(f"INSERT INTO cells.packed_rows VALUES ({marks})", values)
    check(server, "packed_rows")


def test_texts_that_are_none(server: Server) -> None:
    names = [(name, longest) for name, longest in charsets(server) if name in ("greek", "sjis", "ucs2", "utf8mb3")]
    fill(server, "cells.undecodable", names, random.Random(2026))
    rows, kept = check(server, "undecodable")
    assert len(rows) > 1000
    assert {name for name, _ in kept} >= {"greek", "sjis", "ucs2"}


DOUBLES = [
    *(f"{digits}e{exponent}" for digits in ("1", "-1.5", "1.2345678901234567", "9.999999999999999")
      for exponent in (-320, -18, -17, -16, -15, -9, -5, -4, -3, 0, 3, 14, 15, 16, 17, 22, 30, 300)),
    "0.1", "0.0", "-0.0", "123456789.0", "1e15",
]  # fmt: skip


def test_numbers_in_documents(server: Server) -> None:
    if server.name != "mysql":
        pytest.skip("JSON is text on MariaDB")
    create(server, "documents", "j JSON")
    texts = [*DOUBLES, '{"1e5 0.00001": [1e20, "1e20", "a\\"1e20\\"", 0.00001, -0.0000012]}', '"\\u0001 \\\\"', "[]"]
    for key, text in enumerate(texts):
        server.run("INSERT INTO cells.documents VALUES (%s, %s)", (key, text))
    decimals = ["1.50", "0.0000100", "123456789012345678901234567890.5", "12345678901234567890", "0.000", "-0.0001"]
    for key, text in enumerate(decimals, start=1000):
        server.run(
            f"INSERT INTO cells.documents VALUES ({key}, JSON_ARRAY(CAST('{text}' AS DECIMAL(60,"
            f"{len(text.partition('.')[2])})), CAST('2024-02-29 01:02:03.5' AS DATETIME(6))))"
        )
    check(server, "documents")
