"""Write one value of a row image into the arena, by the kind of its column."""

from __future__ import annotations

from numba import njit

from databus.binlog.kernels import kinds as k
from databus.binlog.kernels.decimals import write_decimal128, write_decimal_text
from databus.binlog.kernels.images import (
    BAD_ENUM,
    BAD_VALUE,
    C_CAPACITY,
    C_DATA,
    C_KIND,
    C_META,
    C_META2,
    C_MOST,
    C_USED,
)
from databus.binlog.kernels.memory import INLINE
from databus.binlog.kernels.pointers import (
    cell,
    copy,
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
from databus.binlog.kernels.temporal import (
    CORRUPT,
    OK,
    US,
    days_from_civil,
    fraction_us,
    judge_date,
    time_is_sound,
    time_us,
)

# Slots of the cursor: where to go on, what this batch holds, and where a fault lies.
(
    K_EVENT, K_AT, K_LAST_TRANSACTION, K_NEXT_ORDINAL, K_IMAGES, K_CHANGES, K_EXCEPTIONS, K_SETS, K_COLUMN, K_STOP,
    K_WIDTH,
) = range(11)  # fmt: skip

# Columns of `changes` and of `exceptions`.
H_OP, H_BEFORE, H_AFTER, H_TRANSACTION, H_WIDTH = range(5)
X_COLUMN, X_ROW, X_VALUE, X_US, X_WIDTH = range(5)

GROW = -100
"""The arena has no room for the value: the batch must end before its row."""


@njit(**INLINE)
def note(exceptions: int, cursor: int, column: int, row: int, value: int, us: int) -> None:
    """Add a line to the exceptions."""
    used = load_64(cursor + 8 * K_EXCEPTIONS)
    line = cell(exceptions, X_WIDTH, used, 0)
    store_64(line + 8 * X_COLUMN, column)
    store_64(line + 8 * X_ROW, row)
    store_64(line + 8 * X_VALUE, value)
    store_64(line + 8 * X_US, us)
    store_64(cursor + 8 * K_EXCEPTIONS, used + 1)


@njit(**INLINE)
def write_text(
    at: int, size: int, end: int, column: int, c: int, arena: int, row: int, cursor: int, exceptions: int
) -> int:
    """Write a value of variable length behind the ones before it; returns 0, a fault, or GROW.

    A value larger than C_MOST is noted with its address and size; returns 1.
    """
    kind = load_64(column + 8 * C_KIND)
    meta = load_64(column + 8 * C_META)
    used = load_64(column + 8 * C_USED)
    capacity = load_64(column + 8 * C_CAPACITY)
    to = arena + load_64(column + 8 * C_DATA) + used
    if kind == k.DECIMAL_TEXT:
        if used + meta + 3 > capacity:
            return GROW
        written = write_decimal_text(at, meta, load_64(column + 8 * C_META2), to)
        if written < 0:
            return BAD_VALUE
        store_64(column + 8 * C_USED, used + written)
        return 0
    size -= meta
    padded = size if kind == k.STRING else load_64(column + 8 * C_META2)
    if size > padded:
        return BAD_VALUE
    if size > load_64(column + 8 * C_MOST):
        note(exceptions, cursor, c, row, at + meta, size)
        return 1
    if used + padded > capacity:
        return GROW
    at += meta
    if size <= 16 and at + 16 <= end and used + 16 <= capacity:  # the next value covers what is too much
        store_64(to, load_64(at))
        store_64(to + 8, load_64(at + 8))
    else:
        copy(to, at, size)
    for z in range(size, padded):
        store_8(to + z, 0)
    store_64(column + 8 * C_USED, used + padded)
    return 0


@njit(**INLINE)
def write_temporal(at: int, kind: int, meta: int, data: int, row: int, cursor: int, exceptions: int, c: int) -> int:
    """Write a date or time; returns 0, 1 when the value is an exception (its slot is null), or a fault."""
    if kind == k.DATETIME or kind == k.OLD_DATETIME:
        us = 0
        if kind == k.DATETIME:
            packed = read_big(at, 5) - 0x8000000000
            us = fraction_us(at + 5, meta)
            year_month = packed >> 22
            year, month, day = year_month // 13, year_month % 13, (packed >> 17) & 31
            hour, minute, second = (packed >> 12) & 31, (packed >> 6) & 63, packed & 63
        else:
            packed = load_64(at)
            day_part, clock = packed // 1_000_000, packed % 1_000_000
            year, month, day = day_part // 10_000, day_part // 100 % 100, day_part % 100
            hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
        if packed < 0 or hour > 23 or minute > 59 or second > 59 or us >= US:
            return BAD_VALUE
        verdict = judge_date(year, month, day)
        if verdict == CORRUPT:
            return BAD_VALUE
        if verdict != OK:
            note(
                exceptions,
                cursor,
                c,
                row,
                (year * 100 + month) * 100 + day,
                (hour * 3600 + minute * 60 + second) * US + us,
            )
            return 1
        store_64(
            data + 8 * row, (days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second) * US + us
        )
    elif kind == k.TIMESTAMP or kind == k.OLD_TIMESTAMP:
        if kind == k.TIMESTAMP:
            seconds, us = read_big(at, 4), fraction_us(at + 4, meta)
        else:
            seconds, us = load_32(at), 0
        if us >= US:
            return BAD_VALUE
        if seconds == 0 and us == 0:  # the zero date: the epoch itself is not a TIMESTAMP
            note(exceptions, cursor, c, row, 0, 0)
            return 1
        store_64(data + 8 * row, seconds * US + us)
    elif kind == k.DATE:
        packed = read_little(at, 3)
        year, month, day = packed >> 9, (packed >> 5) & 15, packed & 31
        verdict = judge_date(year, month, day)
        if verdict == CORRUPT:
            return BAD_VALUE
        if verdict != OK:
            note(exceptions, cursor, c, row, (year * 100 + month) * 100 + day, 0)
            return 1
        store_32(data + 4 * row, days_from_civil(year, month, day))
    elif kind == k.TIME:
        if not time_is_sound(at, meta):
            return BAD_VALUE
        store_64(data + 8 * row, time_us(at, meta))
    else:  # OLD_TIME: ±HHMMSS as a signed 3-byte number
        value = read_little(at, 3)
        if value & 0x800000:
            value -= 0x1000000
        digits = -value if value < 0 else value
        if digits // 100 % 100 > 59 or digits % 100 > 59:
            return BAD_VALUE
        us = (digits // 10_000 * 3600 + digits // 100 % 100 * 60 + digits % 100) * US
        store_64(data + 8 * row, -us if value < 0 else us)
    return 0


@njit(**INLINE)
def write_zero(data: int, width: int, row: int) -> None:
    """Fill the slot of a null, so that equal rows give equal memory."""
    if width == 8:
        store_64(data + 8 * row, 0)
    elif width == 4:
        store_32(data + 4 * row, 0)
    elif width == 2:
        store_16(data + 2 * row, 0)
    elif width == 1:
        store_8(data + row, 0)
    elif width == 16:
        store_64(data + 16 * row, 0)
        store_64(data + 16 * row + 8, 0)


@njit(**INLINE)
def write_value(
    at: int, size: int, end: int, column: int, c: int, arena: int, row: int, cursor: int, exceptions: int
) -> int:
    """Write a value whose size has been checked; returns 0, 1 for an exception, or a fault."""
    kind = load_64(column + 8 * C_KIND)
    meta = load_64(column + 8 * C_META)
    data = arena + load_64(column + 8 * C_DATA)
    if kind == k.STRING or kind == k.PADDED or kind == k.DECIMAL_TEXT:
        return write_text(at, size, end, column, c, arena, row, cursor, exceptions)
    if kind == k.RAW4:
        store_32(data + 4 * row, load_32(at))
    elif kind == k.RAW8:
        store_64(data + 8 * row, load_64(at))
    elif kind == k.RAW1:
        store_8(data + row, load_8(at))
    elif kind == k.RAW2:
        store_16(data + 2 * row, load_16(at))
    elif kind == k.DECIMAL:
        if not write_decimal128(at, meta, load_64(column + 8 * C_META2), data + 16 * row):
            return BAD_VALUE
    elif kind >= k.DATE and kind <= k.OLD_TIME:
        return write_temporal(at, kind, meta, data, row, cursor, exceptions, c)
    elif kind == k.INT3 or kind == k.UINT3:
        value = read_little(at, 3)
        if kind == k.INT3 and value & 0x800000:
            value -= 0x1000000
        store_32(data + 4 * row, value)
    elif kind == k.ENUM:
        value = read_little(at, meta)
        if value > load_64(column + 8 * C_META2):
            return BAD_ENUM
        store_16(data + 2 * row, value)
    elif kind == k.SET:
        value = read_little(at, meta)
        if load_64(column + 8 * C_META2) < 64 and value >> load_64(column + 8 * C_META2) != 0:
            return BAD_ENUM
        store_64(data + 8 * row, value)
    elif kind == k.BIT:
        store_64(data + 8 * row, read_big(at, meta))
    else:  # YEAR
        value = load_8(at)
        store_16(data + 2 * row, value + 1900 if value else 0)
    return 0
