"""DECIMAL of row images.

Groups of nine digits lie in four big-endian bytes, fewer digits in fewer bytes; the sign is the top bit.

Wire format: MySQL 8.0 source, strings/decimal.cc (decimal2bin).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from databus.binlog.kernels.memory import INLINE, KERNEL
from databus.binlog.kernels.pointers import load_8, store_8, store_64

GROUP_BYTES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], dtype=np.int64)
_POWER = np.array([10**k for k in range(10)], dtype=np.int64)


@njit(**INLINE)
def decimal_bytes(precision: int, scale: int) -> int:
    """Return the length of a stored DECIMAL(precision, scale)."""
    whole = precision - scale
    return (whole // 9) * 4 + GROUP_BYTES[whole % 9] + (scale // 9) * 4 + GROUP_BYTES[scale % 9]


@njit(**INLINE)
def group_digits(precision: int, scale: int, group: int) -> int:
    """Return how many digits a group holds; −1 past the last."""
    whole = precision - scale
    whole_groups = whole // 9
    scale_groups = scale // 9
    if group == 0:
        return whole % 9
    if group <= whole_groups + scale_groups:
        return 9
    return scale % 9 if group == whole_groups + scale_groups + 1 else -1


@njit(**INLINE)
def read_group(at: int, size: int, flip: int, mask: int) -> int:
    """Read one group; `flip` undoes the sign bit of the first byte, `mask` the complement of negative values."""
    value = np.int64(0)
    for k in range(size):
        value = (value << 8) | ((load_8(at + k) ^ (flip if k == 0 else 0)) ^ mask)
    return value  # type: ignore[return-value]  # numba's int64 is Python's int outside


@njit(**KERNEL)
def write_decimal128(at: int, precision: int, scale: int, to: int) -> bool:
    """Decode into Arrow's 16-byte two's complement; returns False when a group holds more than its digits."""
    negative = (load_8(at) & 0x80) == 0
    mask = np.int64(0xFF) if negative else np.int64(0)
    flip = np.int64(0x80)
    # Four limbs of 32 bits: a group (< 10^9 < 2^30) times a limb stays below 2^63.
    l0 = l1 = l2 = l3 = np.int64(0)
    group = 0
    while True:
        digits = group_digits(precision, scale, group)
        if digits < 0:
            break
        group += 1
        if digits == 0:
            continue
        size = GROUP_BYTES[digits]
        value = read_group(at, size, flip, mask)
        flip = np.int64(0)
        at += size
        power = _POWER[digits]
        if value >= power:
            return False
        carry = l0 * power + value
        l0 = carry & 0xFFFFFFFF
        carry = l1 * power + (carry >> 32)
        l1 = carry & 0xFFFFFFFF
        carry = l2 * power + (carry >> 32)
        l2 = carry & 0xFFFFFFFF
        l3 = (l3 * power + (carry >> 32)) & 0xFFFFFFFF
    low = l0 | (l1 << 32)
    high = l2 | (l3 << 32)
    if negative:
        low = ~low + 1
        high = ~high + (1 if low == 0 else 0)
    store_64(to, low)
    store_64(to + 8, high)
    return True


@njit(**KERNEL)
def write_decimal_text(at: int, precision: int, scale: int, to: int) -> int:
    """Decode into text as SELECT shows it (no leading zeros, all of the scale); returns its length, −1 for a bad group.

    The text is at most precision + 3 bytes.
    """
    negative = (load_8(at) & 0x80) == 0
    mask = np.int64(0xFF) if negative else np.int64(0)
    flip = np.int64(0x80)
    whole = precision - scale
    start = to
    if negative:
        store_8(to, 45)  # "-"
        to += 1
    seen = 0
    shown = False
    group = 0
    while True:
        digits = group_digits(precision, scale, group)
        if digits < 0:
            break
        group += 1
        if digits == 0:
            continue
        size = GROUP_BYTES[digits]
        value = read_group(at, size, flip, mask)
        flip = np.int64(0)
        at += size
        power = _POWER[digits]
        if value >= power:
            return -1
        for _ in range(digits):
            if seen == whole:
                if not shown:
                    store_8(to, 48)  # "0" before the point
                    to += 1
                    shown = True
                store_8(to, 46)  # "."
                to += 1
            power //= 10
            digit = value // power
            value -= digit * power
            seen += 1
            if shown or digit != 0:
                store_8(to, 48 + digit)
                to += 1
                shown = True
    if not shown:
        store_8(to, 48)
        to += 1
    return to - start
