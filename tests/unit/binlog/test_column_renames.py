"""Columns that ALTER TABLE gives other names, read from its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.binlog.log.statements.column_renames import columns_moved, columns_renamed
from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.schema_history.actions import AlterTable, action_of
from databus.binlog.schema_history.sql_tokens import ANSI_QUOTES, NO_BACKSLASH_ESCAPES

Pairs = tuple[tuple[str, str], ...]


def renames(sql: str, flavor: str = "mysql", sql_mode: int = 0) -> Pairs:
    action = action_of(QueryEvent("shop", sql, sql_mode), flavor)
    return columns_renamed(action) if isinstance(action, AlterTable) else ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("RENAME COLUMN card TO note, RENAME COLUMN note TO card", (("card", "note"), ("note", "card"))),
        ("rename column Card to card_old, add column card varchar(20)", (("Card", "card_old"),)),
        ("CHANGE COLUMN card card_old varchar(20), ADD card varchar(20)", (("card", "card_old"),)),
        ("CHANGE card old varchar(20) AFTER id, CHANGE note card text FIRST", (("card", "old"), ("note", "card"))),
        ("CHANGE card CARD varchar(30)", ()),
        ("CHANGE `change` `rename` int, CHANGE `column` `to` int", (("change", "rename"), ("column", "to"))),
        ("RENAME COLUMN `a``b` TO `c, RENAME COLUMN d TO e`", (("a`b", "c, RENAME COLUMN d TO e"),)),
        ("ADD x enum('a,b', 'RENAME COLUMN card TO y'), RENAME COLUMN card TO z", (("card", "z"),)),
        ("ADD x int DEFAULT (1 + (2)) COMMENT 'it''s \\', (', RENAME COLUMN card TO z", (("card", "z"),)),
        ("/* RENAME COLUMN a TO b */ RENAME /**/ COLUMN -- x\n card # y\n TO z", (("card", "z"),)),
        ("ADD x int /*!80000 , RENAME COLUMN card TO z */", (("card", "z"),)),
        ("ALGORITHM=INPLACE, LOCK=NONE, RENAME COLUMN card TO z, RENAME INDEX a TO b", (("card", "z"),)),
        ("RENAME TO other, RENAME COLUMN card TO z", (("card", "z"),)),
        ("RENAME KEY a TO b, RENAME other", ()),
        ("ADD (card_2 int, card_3 int), DROP card", ()),
        ("MODIFY card text, ALTER card SET DEFAULT 1, ADD INDEX `change` (card)", ()),
        ("CHANGE shop.t.card t.z int", (("card", "z"),)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_renames_are_read(changes: str, expected: Pairs, flavor: str) -> None:
    assert renames(f"ALTER TABLE shop.t {changes}", flavor) == expected
    assert renames(f"/* x */ alter table `t` {changes} -- end", flavor) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("DROP card, DROP COLUMN b, CHANGE c d INT", (("c", "d"), ("card", ""), ("b", ""))),
        ("DROP PRIMARY KEY, DROP INDEX a, DROP KEY b, DROP FOREIGN KEY c, DROP CONSTRAINT d, DROP CHECK e", ()),
        ("DROP PARTITION p, ALTER card DROP DEFAULT", ()),
        ("DROP `primary`, DROP COLUMN `key`, DROP period", (("primary", ""), ("key", ""), ("period", ""))),
        ("DROP COLUMN IF EXISTS a, DROP IF EXISTS b, DROP SYSTEM VERSIONING", (("a", ""), ("b", ""))),
    ],
)
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_columns_that_are_dropped_are_told_apart(changes: str, expected: Pairs, flavor: str) -> None:
    action = action_of(QueryEvent("shop", f"ALTER TABLE shop.t {changes}", 0), flavor)
    assert isinstance(action, AlterTable)
    assert columns_moved(action) == expected
    assert columns_renamed(action) == tuple(pair for pair in expected if pair[1])


def test_mariadbs_own_forms() -> None:
    sql = "ALTER ONLINE IGNORE TABLE IF EXISTS t WAIT 3 RENAME COLUMN IF EXISTS a TO b, CHANGE COLUMN IF EXISTS c d INT"
    assert renames(sql, "mariadb") == (("a", "b"), ("c", "d"))
    assert renames(f"SET STATEMENT max_statement_time=1 FOR {sql}", "mariadb") == (("a", "b"), ("c", "d"))


def test_quotes_mean_what_the_session_says() -> None:
    backslash = "ALTER TABLE t ADD x text COMMENT 'a\\', RENAME COLUMN card TO z, ADD y text COMMENT 'b'"
    assert renames(backslash, sql_mode=NO_BACKSLASH_ESCAPES) == (("card", "z"),)
    assert renames(backslash) == ()
    assert renames('ALTER TABLE t RENAME COLUMN "a""b" TO "c"', sql_mode=ANSI_QUOTES) == (('a"b', "c"),)


def test_other_statements_rename_no_column() -> None:
    for sql in ("RENAME TABLE a TO b", "DROP TABLE t", "CREATE TABLE t (a int)", "ALTER DATABASE d COLLATE x"):
        assert renames(sql) == ()


NAMES = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
BLANKS = st.sampled_from([" ", "\n", " /* x, RENAME COLUMN a TO b */ ", " # '\n", "/**/"])
OTHERS = ["ADD x int DEFAULT 1", "DROP y", "MODIFY `a b` enum('RENAME COLUMN a TO b', '(')", "ADD INDEX (a, b)"]


@st.composite
def alters(draw: st.DrawFn) -> tuple[str, Pairs]:
    """Return an ALTER TABLE and the renames that it was put together from."""
    parts: list[str] = []
    expected: list[tuple[str, str]] = []
    for old, new in draw(st.lists(st.tuples(NAMES, NAMES), max_size=4)):
        form = draw(
            st.sampled_from(
                [
                    "RENAME COLUMN {} TO {}",
                    "rename Column {} To {}",
                    "CHANGE {} {} INT",
                    "change column {} {} enum('a,b')",
                ]
            )
        )
        words = form.format(*("`" + name.replace("`", "``") + "`" for name in (old, new)))
        parts.append(words)
        expected += [(old, new)] if old.casefold() != new.casefold() else []
        parts += draw(st.lists(st.sampled_from(OTHERS), max_size=2))
    blank, comma = draw(BLANKS), draw(st.sampled_from([",", " , ", ",\n"]))
    return f"ALTER TABLE shop.t{blank}{comma.join(parts)}", tuple(expected)


@given(alters())
def test_renames_are_those_that_the_statement_was_made_of(made: tuple[str, Pairs]) -> None:
    sql, expected = made
    assert renames(sql) == expected
