"""Conditions of users and literals of cursors, as far as they are texts."""

from __future__ import annotations

import pytest

from databus.binlog.schema_history.definition import DeclaredType, TableDefinition
from databus.core.errors import SnapshotConditionError
from databus.sources.mysql.snapshot.chunk_key import ChunkKey
from databus.sources.mysql.snapshot.cursor import KeyColumn
from databus.sources.mysql.snapshot.row_condition import row_condition

TABLE = TableDefinition("shop", "orders", ())


@pytest.mark.parametrize(
    "where",
    [
        "id > 5",
        "name = 'it''s; -- #' AND (a > 3 OR b IN (1, 2))",
        'name = "a;#"',
        "`a;b` = 1 AND for_update = 2 AND `into` = 3",
        "name LIKE 'x\\%'",
        "SUBSTRING(name FROM 1 FOR 3) = 'abc'",
        "JSON_EXTRACT(doc, '$.a?') = _utf8mb4'x' OR doc->>'$.b' = N'y'",
        "id IN (SELECT x FROM other)",
    ],
)
def test_a_condition_stays_as_it_is_in_parentheses(where: str) -> None:
    assert row_condition(TABLE, f" {where}\n") == f"({where})"


def test_no_condition_is_none() -> None:
    assert row_condition(TABLE, "") == row_condition(TABLE, " \n") == ""


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("id = 1; DROP TABLE x", "it holds ';' at character 7"),
        ("id = 1 -- x", "it holds '--' at character 8"),
        ("id = 1 # x", "it holds '#' at character 8"),
        ("id = 1 /*! OR 1 */", "it holds '/*' at character 8"),
        ("id = 1 */", "it holds '*/' at character 8"),
        ("id = ?", "it holds '?' at character 6"),
        ("@x := 1", "it holds ':=' at character 4"),
        ("id = \\N", "it holds"),
        ("id = 1\0", "it holds"),
        ("(SELECT 1 into @x)", "it holds 'into' at character 11"),
        ("id IN (SELECT 1 FROM x FOR  UPDATE)", "it holds 'FOR  UPDATE' at character 24"),
        ("id IN (SELECT 1 FROM x for share)", "it holds 'for share' at character 24"),
        ("id IN (SELECT 1 FROM x LOCK IN SHARE MODE)", "it holds 'LOCK' at character 24"),
        ("name = 'a", 'the quote "\'" at character 8 is not closed'),
        ('name = "a', "the quote '\"' at character 8 is not closed"),
        ("`name = 1", "the quote '`' at character 1 is not closed"),
        ("name = 'a\\' OR ' OR 1 = 1", "the quote"),  # under NO_BACKSLASH_ESCAPES
        ('name = "a\\" OR " OR 1 = 1', "the quote"),  # under ANSI_QUOTES
        ("name = '\\' OR id = '); DROP TABLE x'", "closes a parenthesis"),
        ("id = 1) OR (1 = 1", "character 7 closes a parenthesis that it has not opened"),
        ("(id = 1", "a parenthesis is not closed"),
    ],
)
def test_what_is_more_than_a_condition_is_refused(where: str, words: str) -> None:
    with pytest.raises(SnapshotConditionError) as caught:
        row_condition(TABLE, where)
    assert caught.value.message.startswith("shop.orders: the snapshot's condition ")
    assert words in caught.value.message
    assert "WHERE" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        ("double", -1.7976931348623157e308, "-1.7976931348623157e+308"),
        ("double", 0.1, "0.1e0"),
        ("float", b"0.10000000149011612", "0.10000000149011612e0"),
        ("bigint", b"-5", "-5"),
        ("varbinary", "00FF", "X'00FF'"),
        ("varchar", "C3A1", "_utf8mb4 X'C3A1' COLLATE utf8mb4_0900_ai_ci"),
        ("date", "2020-02-29", "DATE'2020-02-29'"),
        ("date", "0000-00-00", "DATE'0000-00-00'"),
        ("datetime", "2020-01-00 01:02:03.000004", "TIMESTAMP'2020-01-00 01:02:03.000004'"),
        ("timestamp", "2020-01-02 03:04:05.6", "TIMESTAMP'2020-01-02 03:04:05.6'"),
        ("time", "-838:59:59", "TIME'-838:59:59'"),
        ("uuid", "123e4567-e89b-12d3-a456-426655440000", "'123e4567-e89b-12d3-a456-426655440000'"),
    ],
)
def test_a_literal_is_what_the_server_reads_back(kind: str, value: object, literal: str) -> None:
    assert KeyColumn("k", DeclaredType(kind), "utf8mb4_0900_ai_ci").literal(value) == literal


def test_a_composite_key_is_compared_column_by_column() -> None:
    members = DeclaredType("enum", values=("a", "b", "c"))
    key = ChunkKey(
        "PRIMARY",
        (KeyColumn("a`b", members), KeyColumn("b", DeclaredType("int"), descending=True), KeyColumn("c", members)),
    )
    cursor = key.cursor(["2", "5", "0"])
    assert cursor == (key.mark, "2", "5", "0")
    assert key.behind(cursor) == "(`a``b` IN (3) OR (`a``b` = 2 AND (`b` < 5 OR (`b` = 5 AND `c` IN (1, 2, 3)))))"
    assert key.up_to(cursor) == "(`a``b` IN (0, 1) OR (`a``b` = 2 AND (`b` > 5 OR (`b` = 5 AND `c` IN (0)))))"
    assert key.ordered(reverse=True) == "ORDER BY `a``b` DESC, `b`, `c` DESC"
    assert not key.continues(("", "2", "5", "0"))
    assert not key.continues((key.mark, "2", "5"))
