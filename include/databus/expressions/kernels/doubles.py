"""Arithmetic of doubles and floats where IEEE 754 leaves one answer: the same bits as Java's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from databus.expressions.kernels.integers import BY_ZERO, REMAINDER_BY_ZERO
from databus.expressions.kernels.vectors import RowValues, Vector

_MOST_BUCKETS = 2**63 - 1


def sign(values: Vector) -> Vector:
    """Return -1, 0 or 1 as a double; NaN and zeros stay what they are."""
    return np.where(np.isnan(values) | (values == 0), values, np.copysign(1.0, values))


def long_of(values: Vector) -> Vector:
    """Return whole doubles as bigint as Java casts them: the nearest bigint, 0 for NaN."""
    inside = (values >= -(2.0**63)) & (values < 2.0**63)
    most = np.where(values >= 2.0**63, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    return np.where(inside, np.where(inside, values, 0).astype(np.int64), np.where(np.isnan(values), 0, most))


def ceiling(values: Vector) -> Vector:
    """Return the smallest bigint not below values."""
    return long_of(np.ceil(values))


def floor(values: Vector) -> Vector:
    """Return the largest bigint not above values."""
    return long_of(np.floor(values))


def square_root(values: Vector) -> Vector:
    """Return the square root; NaN below 0."""
    return np.sqrt(values)


def nearest(values: Vector) -> Vector:
    """Return the nearest whole double, a half to the even one (`rint`)."""
    return np.rint(values)


def degrees(values: Vector) -> Vector:
    """Return radians as degrees."""
    return values * 57.29577951308232


def radians(values: Vector) -> Vector:
    """Return degrees as radians."""
    return values * 0.017453292519943295


def is_nan(values: Vector, valid: Vector) -> Vector:
    """Return whether values are NaN; NULL is none."""
    return np.isnan(values) & valid


def divide(left: Vector, right: Vector) -> RowValues:
    """Return left / right."""
    zero = right == 0
    return RowValues(left / np.where(zero, 1, right).astype(left.dtype), failures={BY_ZERO: zero})


def remainder(left: Vector, right: Vector) -> RowValues:
    """Return left % right, with the sign of left."""
    zero = right == 0
    return RowValues(np.fmod(left, np.where(zero, 1, right).astype(left.dtype)), failures={REMAINDER_BY_ZERO: zero})


def positive_remainder(left: Vector, right: Vector) -> RowValues:
    """Return `pmod`: the remainder, the divisor added to a negative one."""
    first = remainder(left, right)
    made = first.values
    second = remainder(made + right, right).values
    return RowValues(np.where(made < 0, second, made), failures=first.failures)


def width_bucket(values: Vector, first: Vector, second: Vector, buckets: Vector) -> RowValues:
    """Return the number of the equally wide bucket between two ends that values fall into."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    rising = first < second
    below = np.where(rising, values < low, values > high)
    beyond = np.where(rising, values >= high, values <= low)
    far = buckets.astype(np.float64) * np.where(rising, values - low, high - values) / (high - low)
    made = np.where(below, 0, np.where(beyond, buckets + 1, long_of(np.trunc(far)) + 1))
    null = (buckets <= 0) | (buckets == _MOST_BUCKETS) | np.isnan(values) | (first == second)
    return RowValues(made, null=null | ~np.isfinite(first) | ~np.isfinite(second))


def whole(kind: type[np.signedinteger]) -> Callable[[Vector], RowValues]:
    """Return the cast of doubles or floats to an integer type: toward 0, outside its range an overflow."""
    limits = np.iinfo(kind)

    def cast(values: Vector) -> RowValues:
        wide = values.astype(np.float64)
        inside = (np.floor(wide) <= float(limits.max)) & (np.ceil(wide) >= float(limits.min))
        made = long_of(np.trunc(np.where(inside, wide, 0)))
        return RowValues(made.astype(kind), failures={"CAST_OVERFLOW": ~inside})

    return cast
