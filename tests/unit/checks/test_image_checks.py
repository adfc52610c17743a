"""Row checks judged on decoded columns: the same cases as in Spark, and exact comparisons against Python's numbers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.checks.accepted_values import AcceptedValues
from databus.checks.arrow_bounds import at_least, at_most, can_compare, is_one_of
from databus.checks.in_range import InRange
from databus.checks.not_null import NotNull
from databus.checks.row_check import RowCheck
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.rows.violation_bits import MARKS
from databus.rows.violations import ImageMarks
from databus.testing.table_batches import batch, column, transactions
from tests.contract.row_check_cases import CASES, ROWS, SCHEMA, row


def violating(check: RowCheck, rows: list[tuple[Any, Any]]) -> list[int]:
    marks = ImageMarks({SCHEMA.schema_id: ((5, check.column.lower(), check),)})
    emitted = emit(batch(SCHEMA, rows), transactions(1), "srv", json_form({}, marks))
    return [
        ordinal
        for piece in emitted
        for ordinal, mark in zip(piece["ordinal"].to_pylist(), piece[MARKS].to_pylist(), strict=True)
        if mark == 1 << 5
    ]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        *CASES,
        (AcceptedValues("amount", (1.501,)), [0, 2, 3]),
        (AcceptedValues("n", (5.5, 2**70)), [0, 2, 3]),
        (InRange("n", maximum=2**40), []),
        (InRange("n", minimum=2**40), [0, 2, 3]),
        (InRange("status", "a", "z"), [2, 3]),
    ],
)
def test_which_rows_violate(check: RowCheck, expected: list[int]) -> None:
    assert violating(check, ROWS) == expected


def test_a_change_of_the_key_is_judged_by_its_second_half() -> None:
    changed = [(row(0, n=None), row(9, n=None)), (row(1, n=None), row(1))]

    assert violating(NotNull("n"), changed) == [0]


def test_moments_are_those_of_utc() -> None:
    at = dt.datetime(2024, 1, 31, 10, 0, 0, 1)  # noqa: DTZ001 - DATETIME has no zone
    plain, zoned = pa.array([at], pa.timestamp("us")), pa.array([at.replace(tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    bound = "2024-01-31 10:00:00.000001"

    for array, kind in ((plain, "datetime(6)"), (zoned, "timestamp(6)")):
        assert at_least(array, bound, column("at", kind)).tolist() == [True]
        assert at_most(array, "2024-01-31", column("at", kind)).tolist() == [False]
        assert is_one_of(array, (bound,), column("at", kind)).tolist() == [True]


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("x", "int"), ("1.0", "int"), ("1e400", "decimal(9,2)"), ("12345678.9", "decimal(9,2)"),
        ("NaN", "decimal(9,2)"),
        ("today", "date"), ("2024-02-30", "date"), (5, "date"), ("2024-01-01T00:00:00Z", "timestamp"), ("x", "double"),
        ("a", "blob"), ("{}", "json"), ("10:00:00", "time"),
    ],
)  # fmt: skip
def test_what_spark_has_to_judge_is_left_to_it(option: Any, kind: str) -> None:
    assert not can_compare([option], column("c", kind))


_NUMBERS = st.one_of(
    st.integers(-(2**66), 2**66),
    st.decimals(-1000, 1000, places=3).map(float),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1), _NUMBERS)
def test_integers_are_compared_exactly(values: list[int | None], bound: float) -> None:
    array, exact, kind = pa.array(values, pa.int64()), Decimal(repr(bound)), column("n", "bigint")

    assert at_least(array, bound, kind).tolist() == [v is not None and v >= exact for v in values]
    assert at_most(array, bound, kind).tolist() == [v is not None and v <= exact for v in values]
    assert is_one_of(array, (bound,), kind).tolist() == [v is not None and v == exact for v in values]


@given(st.lists(st.one_of(st.none(), st.decimals(-99999, 99999, places=2)), min_size=1), _NUMBERS)
def test_decimals_are_compared_exactly(values: list[Decimal | None], bound: float) -> None:
    array, exact, kind = pa.array(values, pa.decimal128(12, 2)), Decimal(repr(bound)), column("n", "decimal(12,2)")

    assert at_least(array, bound, kind).tolist() == [v is not None and v >= exact for v in values]
    assert at_most(array, bound, kind).tolist() == [v is not None and v <= exact for v in values]
    assert is_one_of(array, (bound,), kind).tolist() == [v is not None and v == exact for v in values]


def test_the_two_zeros_are_equal() -> None:
    array = pa.array([0.0, -0.0, 1.0, None])

    assert is_one_of(array, (0,), column("d", "double")).tolist() == [True, True, False, False]
    assert is_one_of(array, ("-0.0",), column("d", "double")).tolist() == [True, True, False, False]


def test_marks_are_none_where_no_check_applies() -> None:
    marks = ImageMarks({}).of(batch(SCHEMA, [(None, row(0, n=None))]))

    assert marks.dtype == np.int64
    assert marks.tolist() == [0]
