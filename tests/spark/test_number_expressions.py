"""Numeric, decimal and temporal functions and casts beside Spark: same values bit by bit, same errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.spark.expressions.differ import differ, session
from tests.spark.expressions.number_expressions import CASTS, FAILING, NUMERIC, TEMPORAL
from tests.spark.expressions.number_rows import rows

_FUNCTION = re.compile(r"\w+(?=\()|[^\w\s(),']+")


@pytest.fixture(scope="module")
def ours(spark: Any) -> Any:
    return session(spark)


@pytest.fixture(scope="module")
def fast(spark: Any) -> Any:
    return session(spark, codegen=False)


def _function(text: str) -> str:
    found = _FUNCTION.search(text)
    return text if found is None else found[0]


def _sample(step: int) -> list[str]:
    """Return every `step`-th expression, and for small samples the first of each function."""
    every = [*NUMERIC, *CASTS, *TEMPORAL]
    first = {_function(text): text for text in reversed(every)} if step > 1 else {}
    return list(dict.fromkeys([*first.values(), *every[::step]]))


@pytest.mark.parametrize(("step", "count", "values"), [(29, 60, 8_000), (1, 260, 400_000)])
def test_functions_and_casts(ours: Any, fast: Any, step: int, count: int, values: int) -> None:
    found = differ(fast if step > 1 else ours, _sample(step), rows(count))
    assert found.differences == [], "\n".join([f"{len(found.differences)} differences", *found.differences[:60]])
    assert len({_function(text) for text in found.compared}) >= 110, found.refused
    assert found.values > values


@pytest.mark.parametrize("step", [10, 1])
def test_rows_that_fail_fail_in_spark_too(fast: Any, step: int) -> None:
    found = differ(fast, FAILING[::step], rows(130), errors=True)
    assert found.differences == [], "\n".join(found.differences)
    assert set(found.failed) == set(FAILING[::step])
