"""Doubles as the shortest text that reads back as the same number, spelled as Python's `repr`.

Algorithm: Raffaele Giulietti, "The Schubfach way to render doubles" (2020), figures 4 and 6: of the shortest decimals
between the neighbours' midpoints it takes the one nearest to the number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from databus.binlog.kernels.memory import INLINE, KERNEL
from databus.binlog.kernels.pointers import store_8

_LEAST_POWER, _MOST_POWER = -292, 324
_HIDDEN = 1 << 52
_BIAS = 1023 + 52
_INFINITE = 0x7FF
_ZERO, _POINT, _PLUS, _MINUS, _E = 48, 46, 43, 45, 101
# Python's repr has an exponent where the point would stand left of the fourth zero or right of the sixteenth digit.
_LEAST_POINT, _MOST_POINT = -3, 16


def _power_table() -> np.ndarray:
    """Return int64[powers, 2]: the upper and lower 64 of the first 128 bits of 10^k, rounded up."""
    lines = []
    for k in range(_LEAST_POWER, _MOST_POWER + 1):
        shift = ((k * 1741647) >> 19) - 127  # floor(log2(10^k)) - 127
        if k >= 0:
            value = 10**k << -shift if shift < 0 else -(-(10**k) >> shift)
        else:
            value = -(-(1 << -shift) // 10**-k)
        lines.append([value >> 64, value & 0xFFFFFFFFFFFFFFFF])
    return np.array(lines, dtype=np.uint64).view(np.int64)


_POWERS = _power_table()


@intrinsic
def _round_to_odd(typing_context: Any, high: Any, low: Any, factor: Any) -> Any:  # noqa: ARG001 - numba's convention
    """(high, low: 128 bits) · factor / 2^128, its lowest bit set when the rest was not nothing."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        wide, word = ir.IntType(128), ir.IntType(64)
        upper, lower, by = (builder.zext(arg, wide) for arg in args)
        carried = builder.lshr(builder.mul(lower, by), wide(64))
        total = builder.add(builder.mul(upper, by), carried)
        rest = builder.icmp_unsigned(">", builder.trunc(total, word), word(1))
        return builder.or_(builder.trunc(builder.lshr(total, wide(64)), word), builder.zext(rest, word))

    return types.int64(types.int64, types.int64, types.int64), codegen


@njit(**INLINE)
def _shortest(fraction: int, exponent: int) -> tuple[int, int]:
    """Return digits and power of ten; the digits may end in zeros."""
    c = fraction
    q = 1 - _BIAS
    if exponent != 0:
        c = _HIDDEN | fraction
        q = exponent - _BIAS
    odd = c & 1
    closer = 1 if fraction == 0 and exponent > 1 else 0
    k = (q * 1262611 - 524031 * closer) >> 22
    h = q + ((-k * 1741647) >> 19) + 1
    high, low = _POWERS[-k - _LEAST_POWER, 0], _POWERS[-k - _LEAST_POWER, 1]
    lower = _round_to_odd(high, low, (4 * c - 2 + closer) << h) + odd
    middle = _round_to_odd(high, low, (4 * c) << h)
    upper = _round_to_odd(high, low, (4 * c + 2) << h) - odd
    s = middle >> 2
    if s >= 10:
        tens = s // 10
        below = lower <= 40 * tens
        above = 40 * tens + 40 <= upper
        if below != above:
            return tens + (1 if above else 0), k + 1
    below = lower <= 4 * s
    above = 4 * s + 4 <= upper
    if below != above:
        return s + (1 if above else 0), k
    half = 4 * s + 2
    up = middle > half or (middle == half and s & 1 != 0)
    return s + (1 if up else 0), k


@njit(**INLINE)
def _write_number(value: int, digits: int, to: int) -> int:
    at = to + digits
    while at > to:
        at -= 1
        rest = value // 10
        store_8(at, value - rest * 10 + _ZERO)
        value = rest
    return to + digits


@njit(**INLINE)
def _write_zeros(count: int, to: int) -> int:
    for k in range(count):
        store_8(to + k, _ZERO)
    return to + count


@njit(**KERNEL)
def write_shortest(bits: int, to: int) -> int:
    """Write a finite double other than zero, without its sign; returns the address after it, −1 for NaN and infinity.

    Args:
        bits: the double's 64 bits.
        to: where to write; there are 24 bytes.
    """
    exponent = (bits >> 52) & _INFINITE
    if exponent == _INFINITE:
        return -1
    number, power = _shortest(bits & (_HIDDEN - 1), exponent)
    while number % 10 == 0:
        number //= 10
        power += 1
    digits = 1
    bound = np.int64(10)
    while digits < 17 and number >= bound:
        digits += 1
        bound *= 10
    point = digits + power
    if _LEAST_POINT <= point <= _MOST_POINT:
        if point <= 0:
            store_8(to, _ZERO)
            store_8(to + 1, _POINT)
            return _write_number(number, digits, _write_zeros(-point, to + 2))  # type: ignore[no-any-return]
        if power >= 0:
            to = _write_zeros(power, _write_number(number, digits, to))
            store_8(to, _POINT)
            store_8(to + 1, _ZERO)
            return to + 2
        unit = np.int64(1)
        for _ in range(-power):
            unit *= 10
        to = _write_number(number // unit, point, to)
        store_8(to, _POINT)
        return _write_number(number % unit, -power, to + 1)  # type: ignore[no-any-return]
    unit = np.int64(1)
    for _ in range(digits - 1):
        unit *= 10
    store_8(to, number // unit + _ZERO)
    to += 1
    if digits > 1:
        store_8(to, _POINT)
        to = _write_number(number % unit, digits - 1, to + 1)
    store_8(to, _E)
    exponent = point - 1
    store_8(to + 1, _MINUS if exponent < 0 else _PLUS)
    if exponent < 0:
        exponent = -exponent
    return _write_number(exponent, 3 if exponent > 99 else 2, to + 2)  # type: ignore[no-any-return]
