"""Kernels of integers, decimals, bits and texts beside Python's unbounded numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest

from databus.expressions.errors import ExpressionError
from databus.expressions.kernels import bits, decimals, doubles, integers, number_texts
from databus.expressions.kernels.vectors import RowValues

_WIDTHS = [np.int8, np.int16, np.int32, np.int64]


def _ends(kind: type[np.signedinteger]) -> np.ndarray:
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    near = [least, least + 1, least // 2, -16, -15, -5, -2, -1, 0, 1, 2, 3, 5, 15, 25, 45, 55, most // 2, most // 2 + 1]
    return np.array([*near, most - 1, most], kind)


@pytest.mark.parametrize("kind", _WIDTHS)
@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (integers.add, lambda a, b: a + b),
        (integers.subtract, lambda a, b: a - b),
        (integers.multiply, lambda a, b: a * b),
    ],
)
def test_overflow_is_marked_and_nothing_else(
    kind: type[np.signedinteger], function: Callable[..., RowValues], exact: Callable[[int, int], int]
) -> None:
    ends = _ends(kind)
    left, right = (each.ravel() for each in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        made = function(left, right)
    for a, b, value, over in zip(left, right, made.values, made.failures[integers.OVERFLOW], strict=True):
        true = exact(int(a), int(b))
        assert over == (not np.iinfo(kind).min <= true <= np.iinfo(kind).max), (a, b)
        assert over or value == true, (a, b)


@pytest.mark.parametrize("kind", _WIDTHS)
@pytest.mark.parametrize("half_even", [True, False])
@pytest.mark.parametrize("digits", [1, 2, 3, 18, 19, 20])
def test_integers_are_rounded_to_tens(kind: type[np.signedinteger], half_even: bool, digits: int) -> None:
    values = _ends(kind)
    with np.errstate(all="ignore"):
        made = integers.rounded(digits, half_even=half_even)(values)
    over = made.failures.get(integers.OVERFLOW, np.zeros(len(values), np.bool_))
    unit = Decimal((0, (1,), digits))
    for value, found, failed in zip(values, made.values, over, strict=True):
        true = int(Decimal(int(value)).quantize(unit, ROUND_HALF_EVEN if half_even else ROUND_HALF_UP))
        assert failed == (not np.iinfo(kind).min <= true <= np.iinfo(kind).max), value
        assert failed or found == true, value


def test_pmod_is_not_negative_for_positive_divisors_and_adds_as_java_does() -> None:
    left, right = np.array([-7, 7, -128, -1], np.int8), np.array([3, -3, -128, 127], np.int8)
    assert integers.positive_remainder(left, right).values.tolist() == [2, 1, 0, 126]
    ends = np.array([-(2**31) + 1], np.int32), np.array([-(2**31)], np.int32)
    with np.errstate(all="ignore"):
        assert integers.positive_remainder(*ends).values.tolist() == [1]


def test_doubles_become_the_nearest_bigint() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 2.0**63, -(2.0**63), 1e300, 3.0])
    most, least = 2**63 - 1, -(2**63)
    assert doubles.long_of(values).tolist() == [0, most, least, most, least, most, 3]


def test_shifts_take_the_low_bits_of_their_count() -> None:
    by = np.array([33, -1, 31], np.int32)
    ones = np.array([1, 1, -1], np.int32)
    assert bits.shift_left(ones, by).tolist() == [2, -(2**31), -(2**31)]
    assert bits.shift_right_unsigned(np.array([-1] * 3, np.int32), by).tolist() == [2**31 - 1, 1, 1]


def test_decimals_are_rounded_half_up_and_their_overflow_is_seen() -> None:
    values = pa.array(["99.95", None, "-99.95", "0.05", "-0.04"]).cast(pa.decimal128(4, 2))
    assert decimals.rescaled(4, 1)(values).to_pylist() == [
        *(Decimal("100.0"), None, Decimal("-100.0"), Decimal("0.1"), Decimal("0.0")),
    ]
    assert decimals.rescaled(3, 1, fails=False)(values).to_pylist()[:3] == [None, None, None]
    with pytest.raises(ExpressionError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        decimals.rescaled(3, 1)(values)


def test_decimals_become_the_nearest_double() -> None:
    random = np.random.default_rng(5)
    with localcontext() as context:
        context.prec = 40
        for scale in (0, 2, 22, 23, 38):
            exact = [
                Decimal(int("".join(map(str, random.integers(0, 10, random.integers(1, 39)))))).scaleb(-scale)
                for _ in range(300)
            ]
            values = pa.array([*exact, None], pa.decimal128(38, scale))
            assert decimals.doubles(values).to_pylist() == [*map(float, exact), None]
            assert decimals.doubles(values.slice(7)).to_pylist() == [*map(float, exact[7:]), None]


def test_texts_between_two_floats_are_rounded_once() -> None:
    texts = pa.array(["1.00000005960464477539062500000001", "1.000000059604644775390625", "16777217", "1e39", "-7e-46"])
    assert number_texts.doubles(pa.float32(), fails=True)(texts).to_pylist() == [
        *(float(np.nextafter(np.float32(1), np.float32(2))), 1.0, 16777216.0, float("inf"), -0.0),
    ]


def test_decimals_have_texts_without_exponents() -> None:
    values = pa.array(["0", "0.0000000001", "-12.5", None]).cast(pa.decimal128(38, 10))
    assert decimals.plain_texts(values).to_pylist() == ["0.0000000000", "0.0000000001", "-12.5000000000", None]
    assert decimals.plain_texts(values.slice(2)).to_pylist() == ["-12.5000000000", None]


@pytest.mark.parametrize("text", ["", "x", "1.5", "1e3", "--1", "1 2", "１", "99999999999999999999", "+"])
def test_texts_that_are_no_integer_fail(text: str) -> None:
    with pytest.raises(ExpressionError, match="CAST_INVALID_INPUT"):
        number_texts.integers(pa.int64(), fails=True, fraction=False)(pa.array(["1", text]))
    quiet = number_texts.integers(pa.int64(), fails=False, fraction=False)
    assert quiet(pa.array(["\t+7\x7f", None, text])).to_pylist() == [7, None, None]


def test_bases_are_converted_as_64_bits() -> None:
    assert number_texts.converted("-10", 16, -10) == "-16"
    assert number_texts.converted("-10", 16, 10) == "18446744073709551600"
    assert number_texts.converted("12x", 10, 2) == "1100"
    assert number_texts.converted("1", 1, 10) is None
    with pytest.raises(ExpressionError, match="ARITHMETIC_OVERFLOW"):
        number_texts.converted("1" + "0" * 16, 16, 10)


def test_small_decimals_are_rounded_as_large_ones_are() -> None:
    r = random.Random(3)
    edges = ["0", "0.0049", "0.0050", "-0.0050", "-0.0049", "99.9949", "99.9950", "-99.9950", "999.9949", "999.9950"]
    texts = [*edges, *(f"{r.randrange(-(10**7), 10**7)}e-4" for _ in range(500))]
    values = pa.array([*(Decimal(text) for text in texts), None], pa.decimal128(20, 4))
    huge = pa.array([Decimal("9" * 16)], pa.decimal128(20, 4))
    for digits, scale in ((20, 2), (5, 2), (12, 0), (4, 1), (3, 3)):
        rescale = decimals.rescaled(digits, scale, fails=False)
        # One large value sends all of them the long way.
        long_way = rescale(pa.concat_arrays([values, huge]))[:-1]
        found = rescale(values)
        assert found.validate(full=True) is None
        assert found.equals(long_way), (digits, scale)
        assert rescale(values[7:]).equals(long_way[7:])
