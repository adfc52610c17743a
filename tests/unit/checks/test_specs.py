from __future__ import annotations

from datetime import timedelta

import pytest

from databus.checks.accepted_values import AcceptedValues
from databus.checks.decodable import Decodable
from databus.checks.freshness import Freshness
from databus.checks.in_range import InRange
from databus.checks.not_null import NotNull
from databus.checks.row_check import literal
from databus.checks.schema import Schema
from databus.checks.volume import Volume
from databus.core.errors import ConfigError
from databus.core.flow_specs import CheckSpec
from databus.core.spec import options_of
from databus.registry import spec_class

SPECS: list[tuple[CheckSpec, str]] = [
    (NotNull("order_id"), "not_null(order_id)"),
    (NotNull("a", tables=("shop.*", "x.y"), severity="fail"), "not_null(a)@shop.*,x.y"),
    (Decodable("value"), "decodable(value)"),
    (Decodable("value", reason="unframed", severity="warn"), "decodable(value, unframed)"),
    (AcceptedValues("status", ("new", 1, 1.5)), "accepted_values(status, new|1|1.5)"),
    (InRange("amount", 0, "9.5"), "in_range(amount, 0..9.5)"),
    (InRange("day", minimum="2024-01-01"), "in_range(day, 2024-01-01..)"),
    (Volume(minimum_rows=1), "volume(1..)"),
    (Freshness(timedelta(seconds=300)), "freshness(300s)"),
    (Schema("shop.orders", {"id": "bigint"}, severity="fail"), "schema(shop.orders)"),
]


@pytest.mark.parametrize(("spec", "name"), SPECS, ids=lambda s: getattr(s, "kind", ""))
def test_names_and_json(spec: CheckSpec, name: str) -> None:
    data = spec.to_json()

    assert spec.check_name == spec.label() == name
    assert spec_class("checks", data["kind"]).from_stored(options_of(data)) == spec
    assert spec.looks_at_rows == (data["kind"] not in ("volume", "freshness", "schema"))


def test_tables() -> None:
    assert NotNull("a").applies_to("any.table")
    assert not NotNull("a", tables=("shop.o*",)).applies_to("shop.customers")


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        (InRange, {"column": "a"}, "give minimum, maximum or both"),
        (InRange, {"column": "a", "minimum": float("inf")}, "minimum"),
        (AcceptedValues, {"column": "a", "values": ()}, "values"),
        (Volume, {}, "give minimum_rows"),
        (Volume, {"minimum_rows": 2, "maximum_rows": 1}, "above maximum_rows"),
        (Volume, {"minimum_rows": 1, "severity": "quarantine"}, "no row to quarantine"),
        (Freshness, {"max_age": timedelta(0)}, "greater than 0"),
        (NotNull, {}, "missing option 'column'"),
        (NotNull, {"column": "a", "severity": "panic"}, "severity"),
    ],
)
def test_bad_options_are_refused(kind: type[CheckSpec], options: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        kind(**options)


@pytest.mark.parametrize(
    ("value", "spark_type", "sql"),
    [
        (5, "bigint", "(5)"),
        (-100.5, "int", "(-100.5)"),
        (2**64 - 1, "decimal(20,0)", "(18446744073709551615)"),
        (0.1, "float", "CAST('0.1' AS float)"),
        ("it's", "string", "CAST('it\\'s' AS string)"),
        (5, "string", "CAST('5' AS string)"),
        ("2024-01-01", "date", "CAST('2024-01-01' AS date)"),
        ("1.50", "decimal(12,2)", "CAST('1.50' AS decimal(12,2))"),
    ],
)
def test_literals(value: str | float, spark_type: str, sql: str) -> None:
    assert literal(value, spark_type) == sql
