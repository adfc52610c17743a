"""Arithmetic of decimals with Arrow's wide decimals, beside the same one by one in exact arithmetic."""

from __future__ import annotations

import random
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from databus.expressions.errors import ExpressionError, NotCompiledError
from databus.expressions.functions import Arguments, resolve
from databus.expressions.functions import decimal_arithmetic as exact
from databus.expressions.functions.registry import MISSING
from databus.expressions.types import arrow_of, decimal_of

_KINDS = (
    "decimal(1,0)",
    "decimal(10,2)",
    "decimal(5,5)",
    "decimal(20,0)",
    "decimal(38,10)",
    "decimal(38,0)",
    "decimal(38,37)",
)


def _numbers(kind: str, random_: random.Random) -> list[Decimal | None]:
    digits, scale = decimal_of(kind)
    sizes = [random_.randint(1, digits) for _ in range(60)]
    found: list[Decimal | None] = [Decimal(random_.choice((-1, 1)) * random_.randrange(10**size)) for size in sizes]
    return [None, *(number.scaleb(-scale, exact._EXACT) for number in found if number)]


def _reference(name: str, kind: str) -> Any:
    digits, scale = (38, 0) if kind == "bigint" else decimal_of(kind)
    operator = {
        "+": exact._EXACT.add,
        "-": exact._EXACT.subtract,
        "*": exact._EXACT.multiply,
        "/": partial(exact._quotient, scale),
        "%": exact._EXACT.remainder,
        "div": exact._EXACT.divide_int,
    }[name]
    return partial(exact.by_row, operator, digits, scale, "")


@pytest.mark.parametrize("name", ["+", "-", "*", "/", "%", "div"])
def test_the_same_one_by_one(name: str) -> None:
    chance = random.Random(7)
    compared = 0
    for left in _KINDS:
        for right in _KINDS:
            try:
                call = resolve(Arguments(name, (left, right), (MISSING, MISSING), written=(False, False)))
            except NotCompiledError:
                continue
            for one, other in zip(_numbers(left, chance), _numbers(right, chance), strict=False):
                values = pa.array([one], arrow_of(left)), pa.array([other], arrow_of(right))
                try:
                    wanted = _reference(name, call.type)(*values)
                except ExpressionError:
                    with pytest.raises(ExpressionError):
                        call.kernel(*values)
                    continue
                found = call.kernel(*values)
                assert found.type == arrow_of(call.type)
                assert found.to_pylist() == wanted.to_pylist(), (name, left, right, one, other)
                compared += 1
    assert compared > (300 if name in ("/", "%", "div") else 1500)


def test_a_quotient_that_arrow_gives_wrong() -> None:
    call = resolve(Arguments("/", ("decimal(5,0)", "decimal(20,10)"), (MISSING, MISSING), written=(False, False)))
    divisor = pa.array([Decimal("1084202172.4855044341")], pa.decimal128(20, 10))
    found = call.kernel(pa.array([Decimal(9)], pa.decimal128(5, 0)), divisor)
    assert found.to_pylist() == [Decimal("8.301034833169E-9")]


def test_a_quotient_of_more_digits_than_a_decimal_has_is_left_to_spark() -> None:
    with pytest.raises(NotCompiledError, match="rounds twice"):
        resolve(Arguments("/", ("decimal(38,10)", "decimal(5,0)"), (MISSING, MISSING), written=(False, False)))


def test_an_error_does_not_show_the_values_of_a_row() -> None:
    kinds = ("decimal(38,0)", "decimal(38,0)")
    call = resolve(Arguments("*", kinds, (MISSING, MISSING), written=(False, False)))
    values = (pa.array([Decimal(text)], pa.decimal128(38, 0)) for text in ("4711" * 9, "10000"))
    with pytest.raises(ExpressionError, match="a decimal cannot be held by") as caught:
        call.kernel(*values)
    assert "4711" not in str(caught.value)
