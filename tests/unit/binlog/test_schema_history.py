"""The schema history: definitions beside TABLE_MAPs, statements that are followed or not, and what is kept."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.log.tablemap import TableMap
from databus.binlog.schema_history.attach import MismatchError, attach, lacks
from databus.binlog.schema_history.declared_types import type_of_text
from databus.binlog.schema_history.definition import ColumnDefinition, LogPosition, TableDefinition, TableName
from databus.binlog.schema_history.definitions import (
    KeptDefinitions,
    NoDefinitions,
    PinnedDefinition,
    PinnedDefinitions,
)
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.schema_history.interpret import interpret
from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.values.charsets import charset_named
from databus.binlog.values.column_types import Column, ColumnType
from databus.core.errors import CheckpointFormatError, SchemaUnknownError
from databus.core.positions.offsets import BinlogOffset

SEED = BinlogOffset("bin.000001", 100, "", "mariadb", "1")
T = TableName("d", "t")


def column(name: str, kind: str, charset: str = "", *, nullable: bool = True, generated: str = "") -> ColumnDefinition:
    return ColumnDefinition(name, type_of_text(kind, "mariadb"), charset, nullable, True, generated)


def table_of(*columns: Column, named: bool = False, key: tuple[str, ...] = ()) -> TableMap:
    return TableMap(7, "d", "t", columns, key, named)


BARE_INT = Column("", ColumnType.LONG)
BARE_TEXT = Column("", ColumnType.VARCHAR, 1, 40)
BARE_UUID = Column("", ColumnType.STRING, 1, 16)
TIME6 = Column("", ColumnType.TIMESTAMP2, 6, nullable=False)
BINARY = charset_named("binary")


def followed(*statements: str, flavor: str = "mysql") -> Entry:
    """Return what statements make of `d.t`, seeded as (id int, v varchar(10), w text) with key id."""
    columns = (
        column("id", "int", nullable=False),
        column("v", "varchar(10)", "utf8mb4"),
        column("w", "text", "latin1"),
    )
    history = SchemaHistory(SEED, LogPosition(1, 100))
    history.add(T, Entry(LogPosition(1, 100), TableDefinition("d", "t", columns, ("id",), "utf8mb4")))
    history.add(TableName("d", ""), Entry(LogPosition(1, 100), TableDefinition("d", "", (), (), "utf8mb4")))
    for number, sql in enumerate(statements, start=101):
        for name, entry in interpret(
            QueryEvent("d", sql), history, LogPosition(1, number), f"bin:{number}", flavor
        ).items():
            history.add(name, entry)
    entry = history.at(T, LogPosition(2, 4))
    assert entry is not None
    return entry


def test_settings_for_one_statement_hide_no_definition() -> None:
    entry = followed("SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE t ADD COLUMN n INT FIRST", flavor="mariadb")
    assert entry.definition is not None
    assert [c.name for c in entry.definition.columns] == ["n", "id", "v", "w"]


@pytest.mark.parametrize(
    ("sql", "known"),
    [
        ("ALTER TABLE t CHANGE v w TEXT, CHANGE w v TEXT", False),
        ("ALTER TABLE t ADD COLUMN n INT FIRST", False),
        ("RENAME TABLE t TO u", False),
        ("ALTER TABLE t ADD INDEX (v)", True),
    ],
)
def test_what_may_be_of_a_temporary_table_of_that_name_is_not_followed(sql: str, known: bool) -> None:
    columns = (column("id", "int", nullable=False), column("v", "text", "utf8mb4"), column("w", "text", "utf8mb4"))
    history = SchemaHistory(SEED, LogPosition(1, 100))
    history.add(T, Entry(LogPosition(1, 100), TableDefinition("d", "t", columns, ("id",), "utf8mb4")))
    query = QueryEvent("d", sql, of_session=True)
    for name, entry in interpret(query, history, LogPosition(1, 101), "bin:101", "mariadb").items():
        history.add(name, entry)
    entry = history.at(T, LogPosition(2, 4))
    assert entry is not None
    assert (entry.definition is not None) is known
    assert known or "may be of a temporary table" in entry.unknown


def test_a_definition_completes_a_bare_table() -> None:
    definition = TableDefinition(
        "d", "t", (column("id", "int unsigned"), column("v", "varchar(10)", "utf8mb4"), column("u", "uuid")), ("id",)
    )
    found = attach(table_of(BARE_INT, BARE_TEXT, BARE_UUID), definition)
    assert [(c.name, c.source_type, c.spark_type) for c in found.columns] == [
        ("id", "int unsigned", "bigint"), ("v", "varchar(10)", "string"), ("u", "uuid", "string"),
    ]  # fmt: skip
    assert (found.primary_key, found.refusal()) == (("id",), None)


@pytest.mark.parametrize(
    ("logged", "declared", "why"),
    [
        ((BARE_INT,), (column("a", "int"), column("b", "int")), "1 columns, the definition 2"),
        ((BARE_INT,), (column("a", "bigint"),), "logged as LONG"),
        ((BARE_INT,), (column("a", "int", nullable=False),), "logged as LONG"),
        ((BARE_TEXT,), (column("a", "varchar(11)", "utf8mb4"),), "logged as VARCHAR"),
        ((BARE_TEXT,), (column("a", "varchar(10)"),), "logged as VARCHAR"),
        ((replace(BARE_TEXT, charset=charset_named("utf8mb4")),), (column("a", "varchar(40)", "latin1"),), "VARCHAR"),
        ((replace(BARE_INT, name="a"),), (column("b", "int"),), "a in the log, b in the definition"),
        ((BARE_UUID,), (column("a", "inet4"),), "logged as STRING"),
        ((Column("", ColumnType.ENUM, 1),), (column("a", "set('x')", "utf8mb4"),), "logged as ENUM"),
        ((Column("", ColumnType.NEWDECIMAL, 10, 2),), (column("a", "decimal(10,3)"),), "logged as NEWDECIMAL"),
    ],
)
def test_what_does_not_agree_is_named(
    logged: tuple[Column, ...], declared: tuple[ColumnDefinition, ...], why: str
) -> None:
    with pytest.raises(MismatchError, match=why):
        attach(table_of(*logged, named=bool(logged[0].name)), TableDefinition("d", "t", declared))


def test_hidden_versioning_columns_are_the_last_two() -> None:
    definition = TableDefinition("d", "t", (column("id", "int"),), ("id",), "utf8mb4", versioned=True)
    found = attach(table_of(BARE_INT, TIME6, TIME6), definition)
    assert ([c.name for c in found.columns], found.hidden) == (["id", "row_start", "row_end"], (1, 2))
    assert [c.name for c in found.to_schema(0).columns] == ["id"]
    explicit = (
        column("id", "int"),
        column("s", "timestamp(6)", nullable=False, generated="row start"),
        column("e", "timestamp(6)", nullable=False, generated="row end"),
    )
    found = attach(table_of(BARE_INT, TIME6, TIME6), replace(definition, columns=explicit))
    assert (found.period and (found.period.start, found.period.end), found.hidden) == ((1, 2), ())


def test_only_tables_that_leave_something_open_are_looked_up() -> None:
    plain = table_of(replace(BARE_INT, name="id"), named=True)
    binary = table_of(replace(BARE_UUID, name="b", charset=BINARY), named=True)
    versioned = table_of(*(replace(TIME6, name=n) for n in "ab"), named=True)
    assert [lacks(t, "mariadb") for t in (plain, binary, versioned, table_of(BARE_INT))] == [False, True, True, True]
    assert [lacks(t, "mysql") for t in (plain, binary, versioned, table_of(BARE_INT))] == [False, False, False, True]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("ALTER TABLE t DROP v, ADD x INT FIRST", "(x int, id int, w text)"),
        ("ALTER TABLE d.t ADD (a INT, b DATE), CHANGE v id2 INT AFTER a", "(id int, w text, a int, id2 int, b date)"),
        ("alter table `t` modify id bigint after w", "(v varchar(10), w text, id bigint)"),
        ("ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN w TO v", "(id int, w varchar(10), v text)"),
        ("ALTER TABLE other ADD x INT", "(id int, v varchar(10), w text)"),
        ("DROP TABLE other", "(id int, v varchar(10), w text)"),
        ("CREATE TEMPORARY TABLE t (x INT)", "(id int, v varchar(10), w text)"),
        ("CREATE TABLE IF NOT EXISTS t (x INT)", "(id int, v varchar(10), w text)"),
        ("CREATE OR REPLACE TABLE t (x INT)", "(x int)"),
        ("/* t */ ALTER TABLE t /*!50100 ADD COLUMN x INT */ -- drop", "(id int, v varchar(10), w text, x int)"),
        ("ALTER TABLE t COMMENT='ADD x INT', ADD KEY `drop` (v), DROP KEY f", "(id int, v varchar(10), w text)"),
    ],
)  # fmt: skip
def test_statements_that_are_followed(sql: str, shown: str) -> None:
    assert str(followed(sql).definition) == shown


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t FROBNICATE",
        "ALTER TABLE t ADD x WIDGET(3)",
        "ALTER TABLE t DROP COLUMN missing",
        "ALTER TABLE t ADD x INT AFTER missing",
        "ALTER TABLE t ADD id INT",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE t DEFAULT CHARSET latin1, ADD x VARCHAR(3)",
        "ALTER TABLE t ENGINE=InnoDB DEFAULT CHARSET=latin1",
        "ALTER TABLE t /*!99999 ADD COLUMN x INT */",
        "ALTER TABLE t /*M!100301 ADD COLUMN x INT */",
        "ALTER TABLE t ADD x INT FROBBED",
        "CREATE OR REPLACE TABLE t (x INT) SELECT 1 AS y",
        "CREATE OR REPLACE TABLE t SELECT 1 AS y",
        "CREATE OR REPLACE TABLE t LIKE never_seen.u",
        "RENAME TABLE never_seen.u TO t",
        "FROBNICATE EVERYTHING",
        "ALTER TABLE t ADD x ENUM('a\\",
    ],
)
def test_statements_that_are_not_leave_the_table_unknown_with_their_place(sql: str) -> None:
    entry = followed(sql)
    assert entry.definition is None
    assert "bin:101" in entry.unknown or "never_seen.u" in entry.unknown
    again = followed(sql, "ALTER TABLE t ADD y INT")
    assert again.definition is None
    assert again.unknown
    assert followed(sql, "DROP TABLE t", "CREATE TABLE t (z INT)").definition is not None


def test_a_backslash_before_a_wildcard_is_part_of_a_member() -> None:
    sql = r"ALTER TABLE t ADD x ENUM('a\%b', '\_', 'c\\%d', 'e\f', '\'', '\\')"
    definition = followed(sql).definition
    assert definition is not None
    assert definition.columns[-1].type.values == (r"a\%b", r"\_", r"c\%d", "ef", "'", "\\")
    # information_schema and SHOW CREATE TABLE write each backslash twice.
    assert type_of_text(r"enum('a\\%b','\\_')", "mysql").values == (r"a\%b", r"\_")


def test_a_table_that_was_dropped_is_not_there() -> None:
    assert followed("DROP TABLE IF EXISTS x, d.t") == Entry(LogPosition(1, 101))
    assert followed("DROP DATABASE d") == Entry(LogPosition(1, 101))


def test_swaps_carry_definitions_along() -> None:
    entry = followed(
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho ADD n BIGINT",
        "RENAME /* gh-ost */ TABLE `d`.`t` TO `d`.`_t_del`, `d`.`_t_gho` TO `d`.`t`",
    )
    assert str(entry.definition) == "(id int, v varchar(10), w text, n bigint)"


def test_of_tables_that_a_kept_transaction_lacks_others_are_asked() -> None:
    own = TableDefinition("d", "t", (column("a", "int"),))
    other = TableDefinition("d", "u", (column("b", "int"),))
    kept = (PinnedDefinition("bin.000001", 50, own),)
    asked = KeptDefinitions(kept, PinnedDefinitions([PinnedDefinition("bin.000001", 4, other)]))
    tables = (table_of(BARE_INT), replace(table_of(BARE_INT), table="u"))
    assert [asked.complete(t, "mysql", "bin.000001", 60).columns[0].name for t in tables] == ["a", "b"]
    captured = TableCapture(("d.t", "d.u"))
    alone = KeptDefinitions(kept, NoDefinitions(captured, "it lies in a former server's log", hint="leave it out"))
    assert alone.complete(tables[0], "mysql", "bin.000001", 60).columns[0].name == "a"
    with pytest.raises(SchemaUnknownError, match=r"bin\.000001:60: rows of d\.u .* former server") as refused:
        alone.complete(tables[1], "mysql", "bin.000001", 60)
    assert refused.value.hint == "leave it out"
    foreign = replace(tables[1], database="elsewhere")
    assert alone.complete(foreign, "mysql", "bin.000001", 60) is foreign
    whole = table_of(replace(BARE_INT, name="n"), named=True, key=("n",))
    assert alone.complete(replace(whole, table="u"), "mysql", "bin.000001", 60).columns == whole.columns


def test_pinned_definitions_answer_by_place() -> None:
    one = TableDefinition("d", "t", (column("a", "int"),))
    two = TableDefinition("d", "t", (column("b", "int"),))
    lines = (PinnedDefinition("bin.000001", 50, one), PinnedDefinition("bin.000002", 10, two))
    lines = tuple(PinnedDefinition.from_json(json.loads(json.dumps(line.to_json()))) for line in lines)
    pinned = PinnedDefinitions(pickle.loads(pickle.dumps(lines)))
    names = [
        pinned.complete(table_of(BARE_INT), "mysql", f"bin.{file:06d}", pos).columns[0].name
        for file, pos in ((1, 49), (1, 50), (1, 999), (2, 9), (2, 10), (3, 4))
    ]
    assert names == ["", "a", "a", "a", "b", "b"]
    with pytest.raises(SchemaUnknownError, match=r"bin\.000002:10: d\.t is not the table that was planned"):
        pinned.complete(table_of(BARE_TEXT), "mysql", "bin.000002", 10)


@pytest.fixture(params=["folder", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    import fsspec

    yield str(tmp_path) if request.param == "folder" else "memory://segments"
    if request.param == "memory":
        fsspec.filesystem("memory").rm("/segments", recursive=True)


def test_a_history_lasts(root: str) -> None:
    store = HistoryStore(root, "flow", "1")
    assert store.load() is None
    history = SchemaHistory(SEED, LogPosition(1, 100))
    known = Entry(LogPosition(1, 100), TableDefinition("d", "t", (column("a", "enum('x','y')", "latin1"),), ("a",)))
    history.add(T, known)
    history.add(T, Entry(LogPosition(1, 300), None, "lost"))
    store.save(history)
    history.covered = LogPosition(2, 50)
    store.save(history)
    again = HistoryStore(root, "flow", "1").load()
    assert again == history
    assert again.at(T, LogPosition(1, 299)) == known
    assert again.at(T, LogPosition(2, 50)) == Entry(LogPosition(1, 300), None, "lost")
    assert again.at(T, LogPosition(1, 99)) is None
    assert HistoryStore(root, "flow", "2").load() is None


def test_a_history_of_another_version_is_refused(tmp_path: Path) -> None:
    home = tmp_path / ".schema_history" / "flow" / "1"
    home.mkdir(parents=True)
    (home / "history.json").write_text('{"v": 99}')
    with pytest.raises(CheckpointFormatError, match="format version 99"):
        HistoryStore(str(tmp_path), "flow", "1").load()


def test_proof_replaces_what_was_followed_and_never_hides_it() -> None:
    history = SchemaHistory(SEED, LogPosition(1, 100))
    one, two = TableDefinition("d", "t", ()), TableDefinition("d", "t", (column("b", "int"),))
    history.add(T, Entry(LogPosition(1, 200), one))
    history.add(T, Entry(LogPosition(1, 200), None, "not understood"))
    assert history.at(T, LogPosition(1, 200)) == Entry(LogPosition(1, 200), one)
    history.add_proven({T: [Entry(LogPosition(1, 300), None, "unknown"), Entry(LogPosition(1, 400), two)]})
    assert history.at(T, LogPosition(1, 399)) == Entry(LogPosition(1, 200), one)
    history.add_proven({T: [Entry(LogPosition(1, 200), two)]})
    assert history.at(T, LogPosition(1, 200)) == Entry(LogPosition(1, 200), two)


def test_what_was_forgotten_is_unknown() -> None:
    history = SchemaHistory(SEED, LogPosition(1, 250))
    for pos in range(100, 400, 50):
        history.add(T, Entry(LogPosition(1, pos), TableDefinition("d", "t", ())))
    history.prune(keep=2)
    assert history.at(T, LogPosition(1, 199)) is None
    assert [e.place.pos for e in history.tables[T]] == [200, 250, 300, 350]
