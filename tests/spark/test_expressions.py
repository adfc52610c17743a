"""Compiled expressions beside Spark: same types, same values bit by bit, same errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.expressions.differ import Comparison, differ, session
from tests.spark.expressions.nasty import VALUES, nasty
from tests.spark.expressions.random_expressions import Expressions

_BINARY = ("+", "-", "*", "/", "DIV", "%", "=", "<=>", "<>", "<", "<=", ">", ">=", "||")

_FIXED = tuple((Path(__file__).parent / "expressions" / "fixed.txt").read_text(encoding="utf-8").splitlines())
_REFUSED = {"s = 'x' 'y'", "i /* no */ + 1", "s LIKE '\U0001f600_'"}

_FAILING = (
    *("t + 1Y", "h * 2S", "i + 1", "l * l", "-t", "-i", "-l", "l DIV -1", "1 / i", "1 DIV i", "1 % i", "n / n"),
    *("n % n", "n DIV n", "d / 0", "d % 0D", "CAST(l AS int)", "CAST(i AS tinyint)", "CAST(i AS decimal(3,1))"),
    *("w * w", "w * 100000000000", "t - 100Y", "mod(l, h)"),
)


@pytest.fixture(scope="module")
def ours(spark: Any) -> Any:
    return session(spark)


@pytest.fixture(scope="module")
def fast(spark: Any) -> Any:
    return session(spark, codegen=False)


def _none(found: Comparison) -> bool:
    assert found.differences == [], "\n".join([f"{len(found.differences)} differences", *found.differences[:60]])
    return True


def test_operators_forms_and_literals(ours: Any) -> None:
    found = differ(ours, _FIXED, nasty(120))
    assert _none(found)
    assert {text for text, why in found.refused.items() if not why.startswith("cast of")} == _REFUSED, found.refused


def test_rows_that_fail_fail_in_spark_too(fast: Any) -> None:
    found = differ(fast, _FAILING, nasty(60), errors=True)
    assert _none(found)
    assert set(found.failed) == set(_FAILING)


@pytest.mark.parametrize("step", [17, 1])
def test_operators_of_every_pair_of_types(ours: Any, fast: Any, step: int) -> None:
    pairs = [f"{left} {sign} {right}" for sign in _BINARY for left in VALUES for right in VALUES if right != "p"]
    found = differ(ours if step == 1 else fast, pairs[::step], nasty(60))
    assert _none(found)
    assert len(found.compared) > 900 // step, found.refused


PIECES = [
    *(pytest.param(3, count, 40, id=f"{count}-40") for count in (10, 40)),
    *(pytest.param(seed, 250, 200, id=f"piece-{seed}") for seed in range(1_000, 1_020)),
]
"""The last ones together 10^6 values; every tenth of them is compiled to Java, as in a batch, for twice as long."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("seed", "count", "rows"), PIECES)
def test_random_expressions(ours: Any, fast: Any, seed: int, count: int, rows: int) -> None:
    table = nasty(rows, seed=seed)
    found = differ(ours if seed % 10 == 0 else fast, Expressions(seed=seed).compiled(count, table), table)
    assert _none(found)
    assert found.values > count * rows // 2
