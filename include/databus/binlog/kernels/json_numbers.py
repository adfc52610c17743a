"""JSON numbers: integers, and doubles, those of at most 15 significant digits the short way."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from databus.binlog.kernels.doubles import write_shortest
from databus.binlog.kernels.memory import INLINE, KERNEL
from databus.binlog.kernels.pointers import load_64, store_8, store_16

_MINUS, _POINT, _ZERO = 45, 46, 48
_TWO_53 = 9007199254740992.0
_DIGITS_15 = 1e15
_LEAST_FIXED = 1e-4  # below, the shortest text has an exponent
_MAX_SCALE = 18  # 10^-4 · 10^19 has more than 15 digits
_POWER = np.array([10.0**k for k in range(_MAX_SCALE + 1)])
"""Powers of ten, all exact as doubles."""
_INTEGER_POWER = np.array([10**k for k in range(_MAX_SCALE + 1)], dtype=np.int64)


@intrinsic
def _load_double(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's calling convention
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        value = builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))
        value.align = 1
        return value

    return types.float64(types.int64), codegen


@njit(**INLINE)
def _write_digits(value: np.uint64, digits: int, to: int) -> int:
    """Write the lowest digits of a number; returns the address after them."""
    ten = np.uint64(10)
    at = to + digits
    while at > to:
        at -= 1
        rest = value // ten
        store_8(at, np.int64(value - rest * ten) + _ZERO)
        value = rest
    return to + digits


@njit(**KERNEL)
def write_unsigned(value: np.uint64, to: int) -> int:
    """Write an unsigned 64-bit number of at most 20 digits; returns the address after it."""
    digits = 1
    bound = np.uint64(10)
    while digits < 20 and value >= bound:
        digits += 1
        bound = bound * np.uint64(10)  # wraps at the twentieth digit, where the count ends the loop
    return _write_digits(value, digits, to)  # type: ignore[no-any-return]


@njit(**INLINE)
def write_signed(value: int, to: int) -> int:
    """Write a signed 64-bit number; returns the address after it."""
    if value < 0:
        store_8(to, _MINUS)
        return write_unsigned(np.uint64(0) - np.uint64(value), to + 1)
    return write_unsigned(np.uint64(value), to)


@njit(**KERNEL)
def write_double(at: int, to: int) -> int:
    """Write the double at an address as Python's `repr`; returns the address after it, −1 for NaN and infinity.

    Integers below 2^53 and decimals of at most 15 significant digits from 10^-4 on go without big numbers.
    Distinct decimals of at most 15 digits are distinct doubles (IEEE 754-2019, 5.12.2), and m / 10^k is rounded
    correctly while both are exact doubles (m < 2^53, k ≤ 22): so the decimal found is the only one so short, and the
    least k gives its text.
    """
    value = _load_double(at)
    bits = load_64(at)
    if bits < 0:
        store_8(to, _MINUS)  # also of −0.0
        to += 1
        value = -value
    if not value < _TWO_53:  # NaN too
        return write_shortest(bits, to)  # type: ignore[no-any-return]
    whole = np.int64(value)
    if np.float64(whole) == value:
        to = write_unsigned(np.uint64(whole), to)
        store_16(to, _POINT | _ZERO << 8)
        return to + 2
    if value < _LEAST_FIXED:
        return write_shortest(bits, to)  # type: ignore[no-any-return]
    for scale in range(1, _MAX_SCALE + 1):
        power = _POWER[scale]
        product = value * power
        if product >= _DIGITS_15:
            break
        # The product is off by less than 1/8, so adding a half and cutting finds the only candidate.
        scaled = np.int64(product + 0.5)
        if np.float64(scaled) / power == value:
            unit = _INTEGER_POWER[scale]
            whole = scaled // unit
            to = write_unsigned(np.uint64(whole), to)
            store_8(to, _POINT)
            return _write_digits(np.uint64(scaled - whole * unit), scale, to + 1)  # type: ignore[no-any-return]
    return write_shortest(bits, to)  # type: ignore[no-any-return]
