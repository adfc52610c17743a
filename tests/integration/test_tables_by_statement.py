"""Tables made of queries, changes behind other words and whole DELETEs, logged by statement: none is passed unasked."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.integration.binlog_shop import Shop
from tests.integration.followed_hints import forget_log, moved

pytestmark = pytest.mark.integration

MADE = {
    "mysql": (
        "CREATE TABLE z{n} (PRIMARY KEY (id)) AS SELECT id FROM seed",
        "CREATE TABLE z{n} TABLE seed",
        "CREATE TABLE z{n} VALUES ROW(1)",
        "CREATE TABLE z{n} (WITH c AS (SELECT 1 AS id) SELECT * FROM c)",
    ),
    "mariadb": (
        "CREATE TABLE z{n} (PRIMARY KEY (id)) AS SELECT id FROM seed",
        "CREATE OR REPLACE TABLE z{n} SELECT id FROM seed",
        "CREATE TABLE z{n} VALUES (1)",
        "SET STATEMENT max_statement_time = 100 FOR CREATE TABLE z{n} AS SELECT id FROM seed",
    ),
}
VALUES = (
    "CREATE TABLE z{n} (PRIMARY KEY (id)) AS SELECT id + @a - @a AS id FROM seed",
    "CREATE TABLE z{n} (id INT PRIMARY KEY AUTO_INCREMENT, v INT) SELECT id AS v FROM seed",
    "CREATE TABLE z{n} AS SELECT id, RAND() AS r FROM seed",
)
BEHIND = (
    "SET STATEMENT max_statement_time = 100 FOR INSERT INTO seed VALUES ({n})",
    "ANALYZE INSERT INTO seed VALUES ({n})",
    "ANALYZE FORMAT=JSON UPDATE seed SET id = {n} WHERE id = 1",
    "BEGIN NOT ATOMIC INSERT INTO seed VALUES ({n}); END",
    "EXECUTE IMMEDIATE 'INSERT INTO seed VALUES ({n})'",
)


@pytest.fixture
def by_statement(shop: Shop) -> Iterator[Shop]:
    """A shop with tables whose statements are logged as they are said."""
    shop.sql(
        f"USE {shop.name}",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE seed (id INT PRIMARY KEY)",
        "INSERT INTO seed VALUES (1), (2)",
        "CREATE TABLE untransacted (id INT) ENGINE = MyISAM",
        "SET @a = 5",
    )
    yield shop
    forget_log(shop)


def say(shop: Shop, form: str, statements: tuple[str, ...]) -> None:
    """Run statements in a format, each between two rows of `t` that are logged by row."""
    for n, statement in enumerate(statements):
        shop.sql(f"INSERT INTO t VALUES ({2 * n})", f"SET SESSION binlog_format = '{form}'")
        shop.sql(statement.format(n=n + 10))
        shop.sql("DROP TEMPORARY TABLE IF EXISTS passing", "SET SESSION binlog_format = 'ROW'")
        shop.sql(f"INSERT INTO t VALUES ({2 * n + 1})")


def between(found: list[tuple[str, int | str | None]], statements: tuple[str, ...]) -> None:
    """Require that each statement stops the flow between its two rows, by name."""
    assert [what if op == "c" else op for op, what in found if op in ("c", "stop")] == [
        each for n in range(len(statements)) for each in (2 * n, "stop", 2 * n + 1)
    ]
    for said, statement in zip([what for op, what in found if op == "stop"], statements, strict=True):
        verb = re.search(r"(CREATE|INSERT|UPDATE)[^{(]*", statement)
        assert verb is not None
        assert verb[0][:30] in str(said)
        assert "changes rows by statement (transaction " in str(said)


@pytest.mark.parametrize("form", ["STATEMENT", "MIXED"])
def test_a_table_made_of_a_query_stops_a_flow_and_is_passed_as_advised(by_statement: Shop, form: str) -> None:
    statements = (*MADE[by_statement.flavor], *(VALUES if form == "STATEMENT" else ()))
    say(by_statement, form, statements)
    between(list(moved(by_statement, (f"{by_statement.name}.t",))), statements)


@pytest.mark.parametrize("flavor", ["mariadb"])
def test_words_before_a_change_do_not_hide_it(by_statement: Shop) -> None:
    say(by_statement, "STATEMENT", BEHIND)
    between(list(moved(by_statement, (f"{by_statement.name}.t",))), BEHIND)


def test_temporary_tables_and_the_values_for_them_stop_nothing(by_statement: Shop) -> None:
    made = ("CREATE TEMPORARY TABLE passing AS SELECT @a AS x, RAND() AS r", "CREATE TEMPORARY TABLE passing (id INT)")
    say(by_statement, "STATEMENT", made)
    if by_statement.flavor == "mariadb":  # MySQL refuses this
        by_statement.sql("SET SESSION binlog_format = 'MIXED'", "BEGIN", "CREATE TEMPORARY TABLE p AS SELECT @a AS x")
        by_statement.sql("INSERT INTO t SELECT LENGTH(UUID()) - 32", "COMMIT")
    found = [what for op, what in moved(by_statement, (f"{by_statement.name}.t",)) if op in ("c", "stop")]
    assert found == [0, 1, 2, 3, 4][: 5 if by_statement.flavor == "mariadb" else 4]


@pytest.mark.parametrize("flavor", ["mariadb"])
@pytest.mark.parametrize("form", ["STATEMENT", "MIXED"])
def test_a_stored_function_that_writes_for_a_temporary_table_is_told(by_statement: Shop, form: str) -> None:
    by_statement.sql(
        "CREATE FUNCTION booked() RETURNS INT DETERMINISTIC BEGIN INSERT INTO t VALUES (100); RETURN 1; END",
    )
    made = ("CREATE TEMPORARY TABLE passing AS SELECT booked() AS x",)
    say(by_statement, form, made)
    assert by_statement.sql("SELECT 1 FROM t WHERE id = 100") == [(1,)]
    between(list(moved(by_statement, (f"{by_statement.name}.t",))), made)


@pytest.mark.parametrize("flavor", ["mariadb"])
def test_settings_for_one_statement_hide_no_truncate(by_statement: Shop) -> None:
    by_statement.sql("INSERT INTO t VALUES (1)", "SET STATEMENT max_statement_time = 100 FOR TRUNCATE TABLE t")
    found = [op for op, what in moved(by_statement, (f"{by_statement.name}.t",)) if what != 0]
    assert found[-2:] == ["c", "t"]


@pytest.mark.parametrize("flavor", ["mariadb"])
def test_a_delete_that_was_rolled_back_empties_no_table(by_statement: Shop) -> None:
    shop = by_statement
    shop.sql("INSERT INTO t VALUES (1)", "SET SESSION binlog_format = 'STATEMENT'")
    for end in (("ROLLBACK",), ("ROLLBACK TO a", "COMMIT")):
        shop.sql(
            "INSERT INTO untransacted VALUES (1)",
            "BEGIN",
            "DELETE FROM untransacted",
            "SAVEPOINT a",
            "DELETE FROM t",
            *end,
        )
    assert shop.sql("SELECT id FROM t") == [(1,)]
    found = list(moved(shop, (f"{shop.name}.t",)))
    assert "t" not in [op for op, _ in found]
    assert sum("DELETE FROM t'" in str(what) for op, what in found if op == "stop") == 2


def test_a_temporary_table_with_a_captured_tables_name_stops_a_flow(by_statement: Shop) -> None:
    """MySQL tells of a TRUNCATE that it is of one; MariaDB does not, and the owner goes on behind it, as advised."""
    shop, captured = by_statement, (f"{by_statement.name}.*",)
    form = "MIXED" if shop.flavor == "mariadb" else "STATEMENT"
    shop.sql(
        "INSERT INTO t VALUES (1)", f"SET SESSION binlog_format = '{form}'", "CREATE TEMPORARY TABLE passing (v INT)"
    )
    shop.sql("CREATE TEMPORARY TABLE t (id INT)", "TRUNCATE TABLE t")
    behind = shop.open(start="latest").start_offset()
    shop.sql(
        "DROP TEMPORARY TABLE t, passing",
        "SET SESSION binlog_format = 'ROW'",
        "INSERT INTO t VALUES (2)",
        "TRUNCATE TABLE t",
    )
    told = []
    for op, what in moved(shop, captured):
        told.append((op, what))
        if shop.flavor == "mariadb" and op == "stop":
            break
    stops = [str(what) for op, what in told if op == "stop"]
    assert [re.findall("CREATE TEMPORARY TABLE t |TRUNCATE TABLE t", stop) for stop in stops] == [
        ["CREATE TEMPORARY TABLE t "],
        ["TRUNCATE TABLE t"],
    ][: len(stops)]
    assert len(stops) == (1 if shop.flavor == "mariadb" else 2)
    assert all(f"temporary table with the name of {shop.name}.t: what thread_id " in stop for stop in stops)
    seen = [op for op, _ in told if op != "m"]
    if shop.flavor == "mariadb":
        assert "t" not in seen
        seen += [row["op"] for row in shop.read(behind) if row["op"] != "m"]
    assert seen[-2:] == ["c", "t"]
    assert seen.count("t") == 1


def test_a_table_is_emptied_by_a_routine_that_used_a_temporary_one(by_statement: Shop) -> None:
    by_statement.sql(
        "CREATE PROCEDURE emptied() BEGIN CREATE TEMPORARY TABLE passing (v INT); INSERT INTO passing VALUES (1); "
        "TRUNCATE TABLE t; TRUNCATE TABLE untransacted; DROP TEMPORARY TABLE passing; END",
        "INSERT INTO t VALUES (1)",
        "CALL emptied()",
    )
    found = [op for op, _ in moved(by_statement, (f"{by_statement.name}.*",)) if op != "m"]
    assert found[-3:] == ["c", "t", "t"]
