"""Integer arithmetic with Java's widths: exact results, and the rows that overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from databus.expressions.kernels.vectors import RowValues, Vector

OVERFLOW: Final = "ARITHMETIC_OVERFLOW"
BY_ZERO: Final = "DIVIDE_BY_ZERO"
REMAINDER_BY_ZERO: Final = "REMAINDER_BY_ZERO"
_FACTORIALS = np.array([math.factorial(n) for n in range(21)], np.int64)


def add(left: Vector, right: Vector) -> RowValues:
    """Return left + right."""
    made = left + right
    return RowValues(made, failures={OVERFLOW: ((left ^ made) & (right ^ made)) < 0})


def subtract(left: Vector, right: Vector) -> RowValues:
    """Return left - right."""
    made = left - right
    return RowValues(made, failures={OVERFLOW: ((left ^ right) & (left ^ made)) < 0})


def multiply(left: Vector, right: Vector) -> RowValues:
    """Return left * right."""
    if left.dtype != np.int64:
        wide = left.astype(np.int64) * right
        made = wide.astype(left.dtype)
        return RowValues(made, failures={OVERFLOW: wide != made})
    made = left * right
    rough = np.abs(left.astype(np.float64) * right.astype(np.float64))
    safe = np.where(left == 0, 1, left)
    lowest = np.iinfo(np.int64).min
    wrong = (left != 0) & ((made // safe != right) | ((left == -1) & (right == lowest)))
    return RowValues(made, failures={OVERFLOW: wrong & (rough > 2.0**62)})


def negative(values: Vector) -> RowValues:
    """Return -values."""
    return RowValues(-values, failures={OVERFLOW: values == np.iinfo(values.dtype).min})


def absolute(values: Vector) -> RowValues:
    """Return |values|."""
    return RowValues(np.abs(values), failures={OVERFLOW: values == np.iinfo(values.dtype).min})


def divide(left: Vector, right: Vector) -> RowValues:
    """Return left / right without its fraction (`div`), as int64."""
    wide, by = left.astype(np.int64), right.astype(np.int64)
    zero = by == 0
    over = (wide == np.iinfo(np.int64).min) & (by == -1)
    safe = np.where(zero | over, 1, by)
    made = wide // safe
    made = made + ((made * safe != wide) & ((wide < 0) != (safe < 0)))
    return RowValues(made, failures={BY_ZERO: zero, OVERFLOW: over})


def remainder(left: Vector, right: Vector) -> RowValues:
    """Return left % right, with the sign of left."""
    zero = right == 0
    safe = np.where(zero | (right == -1), 1, right)
    made = np.fmod(left, safe)
    return RowValues(made.astype(left.dtype), failures={REMAINDER_BY_ZERO: zero})


def positive_remainder(left: Vector, right: Vector) -> RowValues:
    """Return `pmod`: the remainder, the divisor added to a negative one."""
    first = remainder(left, right)
    made = first.values
    work = made if left.dtype in (np.int32, np.int64) else made.astype(np.int32)  # Java adds in at least an int
    second = remainder(work + right.astype(work.dtype), right.astype(work.dtype)).values.astype(left.dtype)
    return RowValues(np.where(made < 0, second, made), failures=first.failures)


def factorial(values: Vector) -> RowValues:
    """Return values!, NULL outside 0 to 20."""
    outside = (values < 0) | (values > 20)
    return RowValues(_FACTORIALS[np.where(outside, 0, values)], null=outside)


def rounded(digits: int, *, half_even: bool) -> Callable[[Vector], RowValues]:
    """Return the function that rounds integers to tens, hundreds, ….

    Args:
        digits: how many digits are made 0.
        half_even: whether a half goes to the even neighbour; otherwise away from 0.
    """

    def round_them(values: Vector) -> RowValues:
        if digits > 19:
            return RowValues(np.zeros_like(values))
        unit = 10**digits
        magnitude = np.abs(values.astype(np.int64)).view(np.uint64)  # |-2^63| is 2^63 there
        whole, rest = np.divmod(magnitude, np.uint64(unit))
        half = np.uint64(unit // 2)
        up = (rest > half) | ((rest == half) & ((whole % np.uint64(2) == 1) if half_even else True))
        steps = whole + up.astype(np.uint64)
        most = np.iinfo(values.dtype)
        limit = np.where(values < 0, np.uint64(-int(most.min)), np.uint64(int(most.max)))
        over = steps > limit // np.uint64(unit)
        made = (steps * np.uint64(unit)).astype(np.uint64)
        signed = np.where(values < 0, np.uint64(0) - made, made).view(np.int64).astype(values.dtype)
        return RowValues(np.where(over, 0, signed), failures={OVERFLOW: over})

    return round_them


def within(kind: type[np.signedinteger], function: Callable[[Vector], Vector]) -> Callable[[Vector], RowValues]:
    """Return a function of int64 values with its results in a narrower type; what does not fit is an overflow."""
    limits = np.iinfo(kind)

    def cast(values: Vector) -> RowValues:
        made = function(values)
        outside = (made < limits.min) | (made > limits.max)
        return RowValues(made.astype(kind), failures={"CAST_OVERFLOW": outside})

    return cast
