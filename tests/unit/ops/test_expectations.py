"""What becomes of a flow's expectations over a run: by row, by counts, and what is said where they cannot be judged."""

from __future__ import annotations

from typing import Any

import pytest

from databus import Expectations, Filter, Flow, Mock, Noop
from databus.checks.expected import expected_checks
from databus.core.batches.counts import TableCounts
from databus.core.errors import ConfigError
from databus.core.expectations import BY_ROW, MISSING, Expectation
from databus.ops.runs.expectations import by_counts, by_row, judge_of
from databus.records.quality.findings import worst
from databus.records.quality.judged_expectations import with_judged
from databus.records.quality.metrics import Metric
from databus.records.summary import RunSummary


def flow(*expectations: Any, **options: Any) -> Flow:
    return Flow(
        name="f", source=Mock(tables=("shop.orders",), rows=1), sinks=(Noop(),), expectations=expectations, **options
    )


def expect(kind: str, **kwargs: Any) -> Expectation:
    return Expectation(type=f"expect_{kind}", kwargs=kwargs)


def summary(**tables: TableCounts) -> RunSummary:
    named = {name.replace("__", "."): counts for name, counts in tables.items()}
    return RunSummary("f", "r", "", (1, 2), None, None, 0, {}, None, named, (), ())


def metric(name: str, evaluated: int, violations: int, kind: str = BY_ROW) -> Metric:
    return Metric(name, kind, "c", "shop.orders", "warn", evaluated, violations)


@pytest.mark.parametrize(
    ("mostly", "nulls", "unexpected", "success"),
    [
        (1, 0, 0, True),
        (1, 0, 1, False),
        (0.9, 0, 10, True),
        (0.9, 50, 10, False),
        (0.9, 50, 5, True),
        (0.5, 100, 0, True),
    ],
)
def test_mostly_is_a_share_of_the_values_that_are_there(
    mostly: float, nulls: int, unexpected: int, success: bool
) -> None:
    expected = expect("column_values_to_be_between", column="c", min_value=0, mostly=mostly)
    found = [
        metric(expected.name, 40, unexpected),
        metric(expected.name, 60, 0),
        metric("missing(c)", 100, nulls, MISSING),
    ]

    judged = by_row(expected, found)

    assert (judged.success, judged.evaluated, judged.violations) == (success, 100, unexpected)
    assert ("missing_count" in judged.result) == (mostly < 1)


def test_counts_are_of_the_tables_meant() -> None:
    rows = summary(shop__orders=TableCounts(12, 2, 3, 7), shop__items=TableCounts(5, 0, 0, 5))
    equal = expect("table_row_count_to_equal", value=10)
    strict = expect("table_row_count_to_be_between", min_value=10, strict_min=True)

    assert by_counts(flow(equal), equal, rows).success
    assert not by_counts(flow(strict), strict, rows).success
    assert by_counts(flow(strict), strict, rows).result == {"observed_value": 10}
    superseded = summary(shop__orders=TableCounts(16, 2, 3, 7, 4, 9))  # the log has their newer state, which counts
    assert by_counts(flow(equal), equal, superseded).result == {"observed_value": 10}


def test_what_cannot_be_judged_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    unique = expect("column_values_to_be_unique", column="id")
    flow_ = flow(unique, transforms=(Filter("id > 0"),))

    (judged,) = judge_of(flow_, None)(summary(shop__orders=TableCounts(1, 0, 0, 1)), [], [])  # type: ignore[arg-type]

    assert not judged.success
    assert worst(with_judged({"results": []}, [judged])) == "warn"
    assert "transforms that look at values (filter" in judged.error.lower()


@pytest.mark.parametrize(
    ("expectation", "code"),
    [
        (expect("column_values_to_be_unique", column="c"), "expectation_not_by_row"),
        (expect("column_values_to_be_null", column="c", row_condition="x > 1"), "expectation_not_by_row"),
        (expect("column_proportion_of_non_null_values_to_be_between", column="c"), "expectation_not_by_row"),
        (expect("column_values_to_be_in_set", column="c"), "expectation_arguments"),
    ],
)
def test_what_holds_back_no_row_is_refused(expectation: Expectation, code: str) -> None:
    held = expectation.model_copy(update={"action": "quarantine"})
    with pytest.raises(ConfigError) as raised:
        expected_checks(flow(held))
    assert raised.value.code == code
    assert expectation.type in raised.value.message


def test_actions_become_severities() -> None:
    null = {"type": "expect_column_values_to_be_null", "kwargs": {"column": "c"}}
    share = {"type": "expect_column_values_to_be_null", "kwargs": {"column": "c", "mostly": 0.5}}
    made = flow(
        Expectations(null, action="fail"),
        Expectations(share, action="fail"),
        Expectations(null, "quarantine", ("a.*",)),
    )

    assert [(c.severity, c.tables) for c in expected_checks(made)] == [
        ("fail", ("shop.orders",)), ("warn", ("shop.orders",)), ("quarantine", ("a.*",)),
    ]  # fmt: skip
