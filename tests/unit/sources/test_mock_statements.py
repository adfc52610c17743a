"""Statements in a mock log: rows follow them, plans say them, and what rows cannot follow is refused."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.batching import Batching
from databus.core.errors import ConfigError
from databus.core.positions.offsets import SequenceOffset
from databus.core.tables.schemas import MovedColumns, TableChange
from databus.sources.mock.declared import read_columns, widens
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import LOG_FILE, Mock
from databus.testing.contract.source import EVERYTHING, SourceContract
from tests.unit.sources.mock_tables import Tables, images
from tests.unit.sources.test_mock import MockSubject

ORDERS, ITEMS = "shop.orders", "shop.items"
STATEMENTS = (
    (0, f"ALTER TABLE {ORDERS} ADD COLUMN first int"),
    (23, f"ALTER TABLE {ORDERS} ADD COLUMN note varchar(20)"),
    (47, f"ALTER TABLE {ORDERS} MODIFY COLUMN price bigint"),
    (48, f"ALTER TABLE {ITEMS} RENAME COLUMN price TO cost"),
    (90, f"ALTER TABLE {ORDERS} DROP COLUMN note"),
    (120, f"ALTER TABLE {ORDERS} ADD COLUMN note varchar(20)"),
    (131, f"ALTER TABLE {ITEMS} MODIFY COLUMN cost bigint"),
    (150, f"ALTER TABLE {ORDERS} MODIFY COLUMN sum decimal(14,4)"),
    (203, f"ALTER TABLE {ORDERS} DROP COLUMN first"),
)
OPTIONS: dict[str, Any] = {
    "rows": 203, "tables": (ORDERS, ITEMS), "rows_per_transaction": 7, "null_ratio": 0.2,
    "columns": {"price": "int", "sum": "decimal(12,2)", "state": "varchar"}, "statements": STATEMENTS,
}  # fmt: skip
ONE = Mock(rows=100, columns={"a": "int"}, statements=((20, f"ALTER TABLE {ORDERS} RENAME COLUMN a TO b, ADD c date"),))


class TestContractWithStatements(SourceContract):
    @pytest.fixture
    def subject(self) -> MockSubject:
        return MockSubject(Mock(**OPTIONS))


@pytest.mark.parametrize("limit", [EVERYTHING, Batching(max_rows=7), Batching(max_rows=30)])
@pytest.mark.parametrize("more", [{}, {"keys": 8, "operations": (1, 4, 1), "skew": 0.8, "table_skew": 0.5}])
def test_rows_follow_their_tables(more: dict[str, Any], limit: Batching) -> None:
    spec = Mock(**OPTIONS | more)
    found = Tables(spec, limit)
    assert sum(found.ops.values()) == 203
    assert found.columns[ORDERS][-1] == ["id", "price", "sum", "state", "note"]
    assert found.columns[ITEMS][-1] == ["id", "cost", "sum", "state"]
    assert len(found.columns[ORDERS]) + len(found.columns[ITEMS]) == 2 + len(STATEMENTS)
    if more:
        assert any(row["note"] is None for row in found.rows[ORDERS].values())
    assert any(row["note"] for row in found.rows[ORDERS].values())


def test_a_statement_is_a_transaction_between_those_of_rows() -> None:
    rows = [row for _, row in images(ONE)]
    (statement,) = (row for row in rows if row["op"] == "m")
    assert (statement["place"], statement["statement"]) == (3, ONE.statements[0][1])
    assert (statement["database"], statement["table"], statement["event_id"]) == (
        "shop",
        "orders",
        "mock:mock.000001:3:0:0",
    )
    assert [row["place"] for row in rows] == sorted(row["place"] for row in rows)
    assert rows.index(statement) == 20
    assert {row["place"] for row in rows} == set(range(1, 12))


def test_a_plan_says_what_statements_do() -> None:
    source = MockSource(ONE)
    plan = source.plan(SequenceOffset(0), EVERYTHING)
    assert plan is not None
    assert (plan.rows, plan.statements, plan.rows_before) == (100, 1, (0, 20))
    assert [[c.name for c in t.columns] for t in plan.tables] == [["id", "a"], ["id", "b", "c"]]
    assert [(op, table.full_name) for op, table in plan.named] == [("m", ORDERS)]
    assert plan.columns_renamed == ((ORDERS, (("a", "b"),)),)
    assert plan.table_changes == (TableChange(ORDERS, ORDERS, captured=True, columns=(("a", "b"),)),)
    assert plan.columns_moved == (MovedColumns(ORDERS, (("a", "b"),), LOG_FILE, 3, 20, ((1, 20),)),)
    behind = source.plan(SequenceOffset(3), EVERYTHING)
    assert behind is not None
    assert ([t.schema_id for t in behind.tables], behind.statements, behind.columns_moved) == ([0], 0, ())
    assert [c.name for c in behind.tables[0].columns] == ["id", "b", "c"]


def test_a_statement_alone_in_its_range_is_delivered() -> None:
    source = MockSource(ONE)
    plan = source.plan(SequenceOffset(2), Batching(max_rows=1))
    assert plan is not None
    assert (plan.rows, plan.statements, plan.empty, len(plan.tables)) == (0, 1, False, 1)
    (split,) = source.splits(plan, 4)
    (batch,) = split.read_text({})
    assert batch["op"].to_pylist() == ["m"]


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("int", "bigint", True), ("bigint", "int", False), ("int unsigned", "bigint", True),
        ("int unsigned", "int", False), ("int", "int unsigned", False), ("int unsigned", "bigint unsigned", True),
        ("decimal(10,2)", "decimal(12,4)", True), ("decimal(10,2)", "decimal(11,4)", False),
        ("varchar(9)", "varchar(10)", True), ("varchar(9)", "text", True), ("text", "varchar(20)", False),
        ("float", "double", True), ("double", "float", False), ("datetime", "datetime(3)", True),
        ("datetime(3)", "datetime", False), ("enum('a')", "enum('a','b')", True),
        ("enum('a')", "enum('b','a')", False), ("date", "datetime", False), ("varbinary(3)", "blob", True),
        ("json", "text", False),
    ],
)  # fmt: skip
def test_which_types_are_wider(old: str, new: str, holds: bool) -> None:
    columns = read_columns({"old": old, "new": new})
    assert widens(columns[1].type, columns[2].type) is holds


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE shop.other ADD x int", "no table of the source: shop.orders"),
        ("DROP TABLE shop.orders", "ALTER TABLE statements alone"),
        ("ALTER TABLE shop.orders RENAME TO shop.o", "keeps its name"),
        ("ALTER TABLE shop.orders DROP COLUMN id", "the key id stays"),
        ("ALTER TABLE shop.orders CHANGE id i bigint", "the key id stays"),
        ("ALTER TABLE shop.orders MODIFY id int", "the key id stays"),
        ("ALTER TABLE shop.orders DROP COLUMN x", "x, which is not there"),
        ("ALTER TABLE shop.orders MODIFY a tinyint", "does not hold every value of int"),
        ("ALTER TABLE shop.orders ADD x int DEFAULT 3", "DEFAULT is not followed"),
        ("ALTER TABLE shop.orders ADD x int NOT NULL", "take NULL"),
        ("ALTER TABLE shop.orders ADD x point", "unknown type"),
    ],
)
def test_what_rows_cannot_follow_is_refused(statement: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Mock(rows=10, columns={"a": "int"}, statements=((5, statement),))


def test_a_row_that_never_comes_is_refused() -> None:
    with pytest.raises(ConfigError, match="row 11 is none of the source's 10"):
        Mock(rows=10, statements=((11, "ALTER TABLE shop.orders DROP weight"),))
