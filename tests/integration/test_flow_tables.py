"""A flow beside the tables of a real server: what information_schema shows, and what it shows to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from databus import Elasticsearch, Filter, Flow, Mask, RenameColumns
from databus.core.findings import Finding, Level
from databus.ops.tables.compare import compare
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


def found(shop: Shop, tables: tuple[str, ...], *transforms: Any, **options: Any) -> list[Finding]:
    """Compare a flow of this account with its tables; what is well is left out."""
    source = shop.open(tables, **options)
    sinks = (Elasticsearch(conn_id="search"),)
    flow = Flow(name="compared", source=source._spec, transforms=transforms, sinks=sinks)
    try:
        return [f for f in compare(flow, source).findings if f.level is not Level.OK]
    finally:
        source.close()


def test_tables_columns_and_keys_are_compared(shop: Shop) -> None:
    name = shop.name
    shop.sql(
        f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, Amount DECIMAL(9,2), twice INT AS (id * 2) VIRTUAL)",
        f"CREATE TABLE {name}.unique_only (id INT NOT NULL UNIQUE, email VARCHAR(80))",
        f"CREATE VIEW {name}.seen AS SELECT id FROM {name}.orders",
    )
    fine = RenameColumns({"amount": "total"}), Filter("total > 1 AND twice > 2", tables=(f"{name}.orders",))
    assert not found(shop, (f"{name}.orders",), *fine)
    # A unique key that information_schema calls PRI where there is no primary key is none.
    (keyless,) = found(shop, (f"{name}.*",))
    assert (keyless.level, keyless.code) == (Level.ERROR, "sink_no_primary_key")
    assert f"{name}.unique_only" in keyless.message
    assert not found(shop, (f"{name}.*",), exclude_tables=(f"{name}.unique*",))
    orders, view = f"{name}.orders", f"{name}.seen"
    missing = found(shop, (orders, f"{name}.Orders", view, "nowhere.*"))
    assert {(f.level, f.code) for f in missing} == {(Level.ERROR, "source_table_missing")}
    assert [orders in missing[0].hint, view in missing[1].subject, "no table matches" in missing[2].message] == [
        True
    ] * 3
    (unknown,) = found(shop, (orders,), Mask("amuont", tables=(orders,)))
    assert f"{orders} has no column 'amuont'" in unknown.message
    assert unknown.hint.startswith("Did you mean Amount?")


def test_names_and_patterns_that_match_nothing_any_more_are_told_by_one_query(shop: Shop) -> None:
    name = shop.name
    shop.sql(*(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY)" for table in ("a", "b", "c", "x_1")))
    wholly, named = (f"{name}.a", f"{name}.b", f"{name}.x*", r"re:.*\.x_\d"), (f"{name}.a", f"{name}.c")
    sources = [shop.open(tables) for tables in (wholly, wholly[:3], named)]
    try:
        assert [source.tables_gone() for source in sources] == [(), (), ()]
        shop.sql(f"DROP TABLE {name}.a, {name}.x_1", f"RENAME TABLE {name}.b TO {name}.d")
        assert [source.tables_gone() for source in sources] == [wholly, wholly[:3], named[:1]]
    finally:
        for source in sources:
            source.close()


def test_a_system_versioned_table_and_a_sequence_are_tables(make_shop: Callable[[str, str], Shop]) -> None:
    shop = make_shop("mariadb", "numba")
    name = shop.name
    shop.sql(
        f"CREATE TABLE {name}.held (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
        f"CREATE TABLE {name}.explicit (id INT PRIMARY KEY, v INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
        "e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
        f"CREATE SEQUENCE {name}.numbers",
    )
    assert not found(shop, (f"{name}.held", f"{name}.explicit"), Filter("v > 1"))
    (sequence,) = found(shop, (f"{name}.*",))
    assert f"{name}.numbers" in sequence.message


def test_what_an_account_is_not_shown_is_not_called_missing(shop: Shop) -> None:
    name = shop.name
    shop.sql(
        f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, amount INT, email VARCHAR(80))",
        f"CREATE TABLE {name}.hidden (id INT PRIMARY KEY)",
        f"CREATE USER '{name}'@'%' IDENTIFIED BY 'secret'",
    )
    shop.connection = shop.connection.model_copy(update={"login": name, "password": SecretStr("secret")})
    try:
        wanted = (f"{name}.orders", f"{name}.hidden")
        blind = found(shop, wanted, Mask("email", tables=(f"{name}.orders",)))
        assert {(f.level, f.code) for f in blind} == {(Level.WARN, "source_table_missing")}
        shop.sql(f"GRANT SELECT (id) ON {name}.orders TO '{name}'@'%'")
        single = found(shop, (f"{name}.orders",), Mask("email", tables=(f"{name}.orders",)))
        assert [(f.level, f.code) for f in single] == [(Level.WARN, "source_partly_shown")]
        shop.sql(f"GRANT SELECT ON {name}.orders TO '{name}'@'%'")
        assert not found(shop, (f"{name}.orders",), Mask("email", tables=(f"{name}.orders",)))
        (error,) = found(shop, (f"{name}.orders",), Mask("mail", tables=(f"{name}.orders",)))
        assert error.code == "column_unknown"
        shop.sql(f"GRANT SELECT ON {name}.* TO '{name}'@'%'")
        (missing,) = found(shop, (f"{name}.orders", f"{name}.order"))
        assert (missing.level, missing.code) == (Level.ERROR, "source_table_missing")
    finally:
        shop.sql(f"DROP USER '{name}'@'%'")
