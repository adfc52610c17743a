"""Bits of integers, as Java shifts and counts them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from databus.expressions.kernels.vectors import RowValues, Vector


def bit_and(left: Vector, right: Vector) -> Vector:
    """Return left & right."""
    return left & right


def bit_or(left: Vector, right: Vector) -> Vector:
    """Return left | right."""
    return left | right


def bit_xor(left: Vector, right: Vector) -> Vector:
    """Return left ^ right."""
    return left ^ right


def bit_not(values: Vector) -> Vector:
    """Return ~values."""
    return ~values


def shift_left(values: Vector, by: Vector) -> Vector:
    """Return values << by; only the low bits of `by` count (5 of an int, 6 of a bigint)."""
    return np.left_shift(values, _masked(values, by))


def shift_right(values: Vector, by: Vector) -> Vector:
    """Return values >> by, the sign kept; only the low bits of `by` count."""
    return np.right_shift(values, _masked(values, by))


def shift_right_unsigned(values: Vector, by: Vector) -> Vector:
    """Return values >>> by, zeros shifted in; only the low bits of `by` count."""
    unsigned = np.uint32 if values.dtype == np.int32 else np.uint64
    shifted = np.right_shift(np.ascontiguousarray(values).view(unsigned), _masked(values, by).astype(unsigned))
    return np.asarray(shifted.view(values.dtype))


def bit_count(values: Vector) -> Vector:
    """Return the number of bits set in values as 64 bits, the sign extended."""
    return np.bitwise_count(values.astype(np.int64).view(np.uint64)).astype(np.int32)


def bit_get(width: int) -> Callable[[Vector, Vector], RowValues]:
    """Return the function from values and positions to the bit there; position 0 is the lowest.

    Args:
        width: bits of the values.
    """

    def bits(values: Vector, positions: Vector) -> RowValues:
        outside = (positions < 0) | (positions >= width)
        found = np.right_shift(values.astype(np.int64), np.where(outside, 0, positions).astype(np.int64)) & 1
        return RowValues(found.astype(np.int8), failures={"INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE": outside})

    return bits


def _masked(values: Vector, by: Vector) -> Vector:
    return (by & (values.dtype.itemsize * 8 - 1)).astype(values.dtype)
