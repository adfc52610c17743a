"""Numeric, decimal and temporal functions and casts have Spark's values, bit by bit, and its errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.spark.expressions.differ import Comparison, differ, session
from tests.spark.expressions.number_expressions import CASTS, FAILING, NUMERIC, REFUSED, TEMPORAL
from tests.spark.expressions.number_rows import rows

_WORD = re.compile(r"\w+(?=\()|[^\w\s(),']+")


@pytest.fixture(scope="module")
def ours(spark: Any) -> Any:
    return session(spark)


def _sample(expressions: Sequence[str], step: int) -> list[str]:
    """Return the first expression of each function or sign, and every `step`-th of all."""
    first: dict[str, str] = {}
    for text in expressions:
        if text not in REFUSED:
            first.setdefault(_function(text), text)
    return list(dict.fromkeys([*first.values(), *expressions[::step]]))


def _function(text: str) -> str:
    found = _WORD.search(text)
    assert found is not None, text
    return found[0]


def _equal(found: Comparison) -> None:
    assert found.differences == []
    assert set(found.refused) <= REFUSED, set(found.refused) - REFUSED


def test_a_sample_of_all_functions(ours: Any) -> None:
    expressions = [*_sample(NUMERIC, 60), *_sample(CASTS, 20), *_sample(TEMPORAL, 30)]
    found = differ(ours, expressions, rows(120))
    _equal(found)
    assert len({_function(text) for text in found.compared}) >= 120
    assert found.values > 20_000


@pytest.mark.parametrize("expressions", [NUMERIC, CASTS, TEMPORAL], ids=["numeric", "casts", "temporal"])
def test_every_expression(ours: Any, expressions: list[str]) -> None:
    found = differ(ours, expressions, rows(300))
    _equal(found)
    assert found.values > 60_000


def test_errors_have_spark_s_classes(ours: Any) -> None:
    found = differ(ours, FAILING, rows(120), errors=True)
    assert found.differences == []
    assert {text: error for text, (_, error) in found.failed.items()} == FAILING
