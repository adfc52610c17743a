"""A server with lower_case_table_names=1: row events name tables in lower case, statements as they were typed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from databus.core.errors import UnloggedChangeError
from databus.sandbox import Sandbox, SandboxOptions
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.binlog_shop import Shop
from tests.ports import ports_from

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def folding(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Flavor and address of a server that was made so, as MySQL has to be."""
    flavor = str(request.param)
    options = SandboxOptions(sql_options={flavor: {"lower_case_table_names": "1"}})
    sandbox = Sandbox(tmp_path_factory.mktemp("folding"), ports_from=ports_from(29_700), options=options)
    try:
        sandbox.up((flavor,))
        yield flavor, sandbox.address(flavor)
    finally:
        sandbox.destroy()


@pytest.fixture
def shop(folding: tuple[str, str], tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(*folding, tmp_path, "numba")
    shop.sql(
        f"USE {shop.name}",
        "CREATE TABLE Orders (id INT PRIMARY KEY) PARTITION BY RANGE (id) "
        "(PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20))",
        "CREATE TABLE `ΟΔΟΣ` (id INT PRIMARY KEY)",
        "INSERT INTO Orders VALUES (1), (11)",
        "INSERT INTO `οδοσ` VALUES (1)",
    )
    yield shop
    shop.drop()


def test_statements_concern_the_tables_of_the_rows(shop: Shop) -> None:
    tables = (f"{shop.name}.orders", f"{shop.name}.οδοσ")
    source = shop.open(tables)
    filled = source.plan(shop.begin, EVERYTHING)
    assert filled is not None
    assert {row["table"] for row in rows_of(source, filled)} == {"orders", "οδοσ"}
    statements = (
        "TRUNCATE TABLE Orders",
        f"truncate {shop.name.upper()}.ORDERS",
        "ALTER TABLE ORDERS DROP PARTITION p1",
        "TRUNCATE TABLE `ΟΔΟΣ`",
    )
    shop.sql(*statements)
    assert source.changed_since(filled.range.end)
    plan = source.plan(filled.range.end, EVERYTHING)
    assert plan is not None
    assert plan.statements == len(statements)
    assert [change.tables for change in plan.unlogged] == [tables[:1]]
    source.close()
    for decoder in ("numba", "library"):
        source = shop.open(tables, decoder=decoder)
        assert source.reopen(plan.range) == plan
        told = [(row["op"], row["database"], row["table"], row["statement"]) for row in rows_of(source, plan)]
        names = ("orders", "orders", "orders", "οδοσ")
        assert told == [(op, shop.name, table, sql) for op, table, sql in zip("ttmt", names, statements, strict=True)]
        source.close()


def test_a_flow_that_is_to_stops_before_a_statement_on_partitions(shop: Shop) -> None:
    source = shop.open((f"{shop.name}.orders",), on_partition_ddl="fail")
    shop.sql("ALTER TABLE ORDERS TRUNCATE PARTITION p2")
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    assert (plan.rows, plan.unlogged) == (2, ())
    with pytest.raises(UnloggedChangeError, match=rf"{shop.name}\.orders"):
        source.plan(plan.range.end, EVERYTHING)
    source.close()
