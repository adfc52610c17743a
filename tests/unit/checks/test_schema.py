"""Columns and types of a table, as a plan's definitions have them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.checks.schema import Schema
from databus.core.errors import ConfigError, QualityGateError
from databus.core.flow import Flow
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.runtime.check import enforce, evaluate_batch_checks
from databus.sinks.noop import Noop
from databus.sources.mock.spec import Mock
from databus.testing.table_batches import table

NOW = datetime(2024, 1, 1, tzinfo=UTC)
ORDERS = table("shop.orders", {"id": "bigint unsigned", "total": "decimal(12,2)", "status": "varchar(9)"})
FULL = {"id": "BIGINT UNSIGNED", "total": "decimal(12, 2)", "status": "varchar"}


def planned(*tables: Any) -> SourcePlan:
    return SourcePlan(
        OffsetRange(BinlogOffset("binlog.000001", 4), BinlogOffset("binlog.000001", 9)), tables, len(tables), 100
    )


@pytest.mark.parametrize(
    ("columns", "exact", "drift"),
    [
        (FULL, True, ""),
        ({"id": ""}, False, ""),
        ({"id": ""}, True, "total decimal(12,2) is new; status varchar(9) is new"),
        ({"ID": "", "total": "decimal(10,2)"}, False, "ID is missing; total is decimal(12,2), not decimal(10,2)"),
        ({"id": "bigint", "status": "varchar(10)"}, False,
         "id is bigint unsigned, not bigint; status is varchar(9), not varchar(10)"),
    ],
)  # fmt: skip
def test_drift_is_named(columns: dict[str, str], exact: bool, drift: str) -> None:
    result = Schema("shop.orders", columns, exact=exact).evaluate(planned(ORDERS), NOW)

    assert (result.table, result.evaluated, result.violations) == ("shop.orders", 1, int(bool(drift)))
    assert result.observed == (drift or f"{len(columns)} columns as expected")


def test_each_definition_inside_a_batch_is_judged_and_other_tables_are_not() -> None:
    after = replace(table("shop.orders", {"id": "bigint unsigned", "total": "double"}, schema_id=1))
    people = table("shop.people", {"x": "int"}, schema_id=2)
    result = Schema("shop.orders", FULL).evaluate(planned(ORDERS, after, people), NOW)

    assert result.observed == "total is double, not decimal(12, 2); status is missing"
    none = Schema("shop.orders", FULL).evaluate(planned(people), NOW)
    assert (none.evaluated, none.violations, none.observed) == (0, 0, "no rows")


def test_drift_fails_the_batch_or_warns() -> None:
    def flow(severity: str) -> Flow:
        check = Schema("shop.orders", {"gone": ""}, severity=severity)
        return Flow(name="f", source=Mock(rows=1), checks=(check,), sinks=(Noop(),))

    enforce(flow("warn"), evaluate_batch_checks(flow("warn"), planned(ORDERS), NOW))
    with pytest.raises(QualityGateError, match=r"schema\(shop.orders\) on shop.orders: 1 of 1 \(gone is missing\)"):
        enforce(flow("fail"), evaluate_batch_checks(flow("fail"), planned(ORDERS), NOW))


def test_bad_options_are_refused() -> None:
    for options in ({"table": "orders", "columns": FULL}, {"table": "a.b", "columns": {}}):
        with pytest.raises(ConfigError):
            Schema(**options)
    with pytest.raises(ConfigError, match="no row to quarantine"):
        Schema("a.b", FULL, severity="quarantine")
