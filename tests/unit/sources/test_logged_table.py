"""Tables told from definitions: each is what `attach` makes of the log's bare description of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.schema_history.attach import attach
from databus.binlog.schema_history.definition import (
    ColumnDefinition,
    DeclaredType,
    LogPosition,
    TableDefinition,
    TableName,
)
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.schema_history.interpret import interpret
from databus.binlog.values.column_types import Column
from databus.core.errors.source import SchemaUnknownError
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.snapshot.logged_table import logged_table

BOTH = (
    "a TINYINT UNSIGNED, b SMALLINT, c MEDIUMINT UNSIGNED, d INT ZEROFILL, e BIGINT, f FLOAT, g DOUBLE UNSIGNED",
    "a DECIMAL, b DECIMAL(65,30) UNSIGNED, c NUMERIC(4), d BIT, e BIT(9), f YEAR, g BOOL",
    "a DATE, b DATETIME, c DATETIME(6), d TIMESTAMP NULL, e TIMESTAMP(3) NOT NULL, f TIME(2)",
    "a CHAR, b CHAR(63) CHARACTER SET utf8mb4, c CHAR(64), d VARCHAR(63), e VARCHAR(64), f CHAR(255) CHARACTER SET gbk",
    "a BINARY, b BINARY(255), c VARBINARY(255), d VARBINARY(256), e CHAR(0), f BINARY(0)",
    "a TINYTEXT, b TEXT, c MEDIUMTEXT, d LONGTEXT, e TINYBLOB, f BLOB(70000), g LONGBLOB, h TEXT(100)",
    "a ENUM('x','y ') CHARACTER SET ucs2, b SET('a','b','c','d','e','f','g','h','i') NOT NULL, c JSON",
    "a POINT, b GEOMETRY NOT NULL, c INT INVISIBLE, d INT AS (1 + 1) STORED, e VARCHAR(9) AS ('x') VIRTUAL",
    f"a ENUM({','.join(repr(f'm{n}') for n in range(300))}), b SET({','.join(repr(f's{n}') for n in range(33))})",
)
MARIADB = (
    "a UUID, b INET4, c INET6 NOT NULL, d VARCHAR(300) COMPRESSED, e LONGBLOB COMPRESSED, f TEXT COMPRESSED",
    "a INT) WITH SYSTEM VERSIONING -- (",
    "s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (s,e)) WITH SYSTEM VERSIONING -- (",
)


def defined(body: str, flavor: str) -> TableDefinition:
    history = SchemaHistory(BinlogOffset("given.000000", 4, "", flavor), LogPosition(0, 0))
    history.add(TableName("shop", ""), Entry(LogPosition(0, 0), TableDefinition("shop", "", (), (), "utf8mb4")))
    tail = "" if body.endswith("-- (") else ") CHARSET utf8mb4"
    query = QueryEvent("shop", f"CREATE TABLE t (id INT PRIMARY KEY, {body.removesuffix(' -- (')}{tail}")
    entry = interpret(query, history, LogPosition(1, 4), "given", flavor)[TableName("shop", "t")]
    assert entry.definition is not None, entry.unknown
    return entry.definition


def _bare(column: Column) -> Column:
    """Return a column as MINIMAL metadata has it."""
    return replace(column, name="", charset=None, values=(), visible=True, logical="")


@pytest.mark.parametrize(
    ("flavor", "body"), [*((f, b) for f in ("mysql", "mariadb") for b in BOTH), *(("mariadb", b) for b in MARIADB)]
)
def test_a_table_fits_its_definition(flavor: str, body: str) -> None:
    definition = defined(body, flavor)
    table = logged_table(definition, flavor)
    bare = replace(table, columns=tuple(map(_bare, table.columns)), primary_key=(), named=False, period=None)
    found = attach(bare, definition)
    assert found.to_schema(0) == table.to_schema(0)
    assert (found.period, found.hidden, found.primary_key) == (table.period, table.hidden, table.primary_key)
    assert [c.visible for c in found.columns] == [c.visible for c in table.columns]
    assert table.refusal() is None
    assert table.primary_key == ("id",)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (ColumnDefinition("a", DeclaredType("int"), nullable=None), "whether it takes NULL"),
        (ColumnDefinition("a", DeclaredType("varchar", (9,)), nullable=True), "its character set"),
        (ColumnDefinition("a", DeclaredType("enum", values=("x",)), nullable=True), "its character set"),
        (ColumnDefinition("a", DeclaredType("vector", (3,)), nullable=True), "how this type is logged"),
        (ColumnDefinition("a", DeclaredType("new_type"), nullable=True), "how this type is logged"),
    ],
)
def test_what_a_definition_leaves_open_is_refused_by_name(column: ColumnDefinition, words: str) -> None:
    with pytest.raises(SchemaUnknownError) as caught:
        logged_table(TableDefinition("shop", "t", (column,)), "mariadb")
    assert f"column shop.t.a ({column.type})" in caught.value.message
    assert words in caught.value.message


def test_half_a_period_is_refused() -> None:
    column = ColumnDefinition("e", DeclaredType("timestamp", (6,)), nullable=False, generated="row end")
    with pytest.raises(SchemaUnknownError, match=r"shop.t is system-versioned"):
        logged_table(TableDefinition("shop", "t", (column,), versioned=True), "mariadb")
