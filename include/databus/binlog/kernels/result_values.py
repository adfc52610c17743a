"""Write one value of a prepared statement's result into the arena, by the kind of its column.

Wire format: MySQL 8.0 source documentation, "Binary Protocol Value".
"""

from __future__ import annotations

import numpy as np
from numba import njit

from databus.binlog.kernels import kinds as k
from databus.binlog.kernels.images import BAD_ENUM, BAD_VALUE, C_DATA, C_KIND, C_META2
from databus.binlog.kernels.memory import INLINE, KERNEL
from databus.binlog.kernels.pointers import (
    load_8,
    load_16,
    load_32,
    load_64,
    read_big,
    read_little,
    store_8,
    store_16,
    store_32,
    store_64,
)
from databus.binlog.kernels.temporal import CORRUPT, OK, US, days_from_civil, judge_date
from databus.binlog.kernels.values import note, write_text

BY_LENGTH, BY_DATE, BY_TIME = -1, -2, -3
"""Ways in which values are sent: behind their length, as a date with or without its clock, as a TIME; a positive
number is the bytes of each value."""

_MINUS, _POINT, _ZERO = 45, 46, 48
_SHORT_DIGITS = 18
"""Digits that 64 bits hold, whichever they are."""


@njit(**KERNEL)
def write_decimal(at: int, size: int, scale: int, to: int) -> bool:
    """Write a decimal's text as Arrow's 16-byte two's complement; returns False for no number of this scale."""
    end = at + size
    negative = at < end and load_8(at) == _MINUS
    if negative:
        at += 1
    # Four limbs of 32 bits, or one of 64 as long as that is enough.
    short = np.int64(0)
    l0 = l1 = l2 = l3 = np.int64(0)
    digits = 0
    missing = scale
    pointed = False
    wide = False
    while at < end or missing > 0:
        digit = np.int64(0)
        if at < end:
            byte = load_8(at)
            at += 1
            if byte == _POINT and not pointed:
                pointed = True
                continue
            digit = byte - _ZERO
            if digit < 0 or digit > 9:
                return False
            if pointed:
                missing -= 1
                if missing < 0:
                    return False
        else:
            missing -= 1
        digits += 1 if digits > 0 or digit != 0 else 0
        if digits > _SHORT_DIGITS and not wide:
            wide = True
            l0 = short & 0xFFFFFFFF
            l1 = short >> 32
        if not wide:
            short = short * 10 + digit
            continue
        if digits > 38:
            return False
        carry = l0 * 10 + digit
        l0 = carry & 0xFFFFFFFF
        carry = l1 * 10 + (carry >> 32)
        l1 = carry & 0xFFFFFFFF
        carry = l2 * 10 + (carry >> 32)
        l2 = carry & 0xFFFFFFFF
        l3 = (l3 * 10 + (carry >> 32)) & 0xFFFFFFFF
    low = l0 | (l1 << 32) if wide else short
    high = l2 | (l3 << 32)
    if negative:
        low = ~low + 1
        high = ~high + (1 if low == 0 else 0)
    store_64(to, low)
    store_64(to + 8, high)
    return True


@njit(**INLINE)
def _write_date(at: int, size: int, kind: int, data: int, row: int, cursor: int, exceptions: int, c: int) -> int:
    """Write a DATE, DATETIME or TIMESTAMP; returns 0, 1 for an exception (its slot is null), or a fault."""
    year = month = day = us = np.int64(0)
    if size >= 4:
        year, month, day = load_16(at), load_8(at + 2), load_8(at + 3)
    if size >= 7:
        hour, minute, second = load_8(at + 4), load_8(at + 5), load_8(at + 6)
        if hour > 23 or minute > 59 or second > 59:
            return BAD_VALUE
        us = (hour * 3600 + minute * 60 + second) * US
    if size == 11:
        fraction = load_32(at + 7)
        if fraction >= US:
            return BAD_VALUE
        us += fraction
    if size != 0 and size != 4 and size != 7 and size != 11:
        return BAD_VALUE
    verdict = judge_date(year, month, day)
    if verdict == CORRUPT:
        return BAD_VALUE
    if verdict != OK:
        note(exceptions, cursor, c, row, (year * 100 + month) * 100 + day, 0 if kind == k.DATE else us)
        return 1
    days = days_from_civil(year, month, day)
    if kind == k.DATE:
        store_32(data + 4 * row, days)
    else:
        store_64(data + 8 * row, days * 86400 * US + us)
    return 0


@njit(**INLINE)
def _write_time(at: int, size: int, data: int, row: int) -> int:
    """Write a TIME as signed microseconds; returns 0 or a fault."""
    us = np.int64(0)
    if size >= 8:
        hour, minute, second = load_8(at + 5), load_8(at + 6), load_8(at + 7)
        if hour > 23 or minute > 59 or second > 59:
            return BAD_VALUE
        us = ((load_32(at + 1) * 24 + hour) * 3600 + minute * 60 + second) * US
        if size == 12:
            fraction = load_32(at + 8)
            if fraction >= US:
                return BAD_VALUE
            us += fraction
        if load_8(at) != 0:
            us = -us
    if size != 0 and size != 8 and size != 12:
        return BAD_VALUE
    store_64(data + 8 * row, us)
    return 0


@njit(**INLINE)
def write_sent(
    at: int, size: int, end: int, column: int, c: int, arena: int, row: int, cursor: int, exceptions: int
) -> int:
    """Write a value whose size has been checked; returns 0, 1 for an exception, a fault, or GROW.

    Args:
        at: address of the value, behind its length.
        size: its bytes.
        end: address after its row.
        column: address of its C_… line.
        c: number of the column.
        arena: address of the arena.
        row: line to write.
        cursor: address of K_….
        exceptions: address of X_… lines.
    """
    kind = load_64(column + 8 * C_KIND)
    data = arena + load_64(column + 8 * C_DATA)
    if kind == k.STRING or kind == k.PADDED:
        return write_text(at, size, end, column, c, arena, row, cursor, exceptions)
    if kind == k.RAW4 or kind == k.INT3 or kind == k.UINT3:
        store_32(data + 4 * row, load_32(at))
    elif kind == k.RAW8:
        store_64(data + 8 * row, load_64(at))
    elif kind == k.RAW1:
        store_8(data + row, load_8(at))
    elif kind == k.RAW2 or kind == k.YEAR:
        store_16(data + 2 * row, load_16(at))
    elif kind == k.DECIMAL:
        if not write_decimal(at, size, load_64(column + 8 * C_META2), data + 16 * row):
            return BAD_VALUE
    elif kind == k.DATE or kind == k.DATETIME or kind == k.TIMESTAMP:
        return _write_date(at, size, kind, data, row, cursor, exceptions, c)
    elif kind == k.TIME:
        return _write_time(at, size, data, row)
    elif kind == k.ENUM:
        value = read_little(at, size)
        if value < 0 or value > load_64(column + 8 * C_META2):
            return BAD_ENUM
        store_16(data + 2 * row, value)
    elif kind == k.SET:
        value = read_little(at, size)
        if load_64(column + 8 * C_META2) < 64 and value >> load_64(column + 8 * C_META2) != 0:
            return BAD_ENUM
        store_64(data + 8 * row, value)
    else:  # BIT
        if size > 8:
            return BAD_VALUE
        store_64(data + 8 * row, read_big(at, size))
    return 0
