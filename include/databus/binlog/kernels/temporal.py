"""Dates and times of row images.

Wire format: MySQL 8.0 source, my_time.cc (my_datetime_packed_from_binary and its neighbours); before 5.6:
Field_timestamp, Field_datetime.
"""

from __future__ import annotations

from numba import njit

from databus.binlog.kernels.memory import INLINE
from databus.binlog.kernels.pointers import read_big

US = 1_000_000

OK, IMPOSSIBLE, CORRUPT = range(3)
"""Verdict on a date: a day of the calendar; one that is not but that servers store; bits that no server writes."""


@njit(**INLINE)
def days_from_civil(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms")."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    year_of_era = y - era * 400
    shifted = month - 3 if month > 2 else month + 9
    day_of_year = (153 * shifted + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468


@njit(**INLINE)
def judge_date(year: int, month: int, day: int) -> int:
    """Return whether a date exists in the calendar."""
    if month > 12 or day > 31 or year > 9999:
        return CORRUPT
    if year < 1 or month < 1 or day < 1:
        return IMPOSSIBLE
    if day <= 28:
        return OK
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return OK if day == 29 and leap else IMPOSSIBLE
    if day == 31 and (month == 4 or month == 6 or month == 9 or month == 11):
        return IMPOSSIBLE
    return OK


@njit(**INLINE)
def fraction_us(at: int, digits: int) -> int:
    """Read the fraction stored in (digits + 1) // 2 big-endian bytes, as microseconds."""
    if digits == 0:
        return 0
    if digits <= 2:
        return read_big(at, 1) * 10_000
    if digits <= 4:
        return read_big(at, 2) * 100
    return read_big(at, 3)


@njit(**INLINE)
def time_us(at: int, digits: int) -> int:
    """Read a TIME as signed microseconds: an offset-binary number of 3 + (digits + 1) // 2 bytes with its fraction."""
    fraction_bytes = (digits + 1) // 2
    value = read_big(at, 3 + fraction_bytes) - (0x800000 << (8 * fraction_bytes))
    magnitude = -value if value < 0 else value
    clock = magnitude >> (8 * fraction_bytes)
    fraction = magnitude & ((1 << (8 * fraction_bytes)) - 1)
    if fraction_bytes == 1:
        fraction *= 10_000
    elif fraction_bytes == 2:
        fraction *= 100
    us = (((clock >> 12) & 1023) * 3600 + ((clock >> 6) & 63) * 60 + (clock & 63)) * US + fraction
    return -us if value < 0 else us


@njit(**INLINE)
def time_is_sound(at: int, digits: int) -> bool:
    """Return whether the minutes, seconds and fraction of a TIME are in range."""
    fraction_bytes = (digits + 1) // 2
    value = read_big(at, 3 + fraction_bytes) - (0x800000 << (8 * fraction_bytes))
    magnitude = -value if value < 0 else value
    clock = magnitude >> (8 * fraction_bytes)
    fraction = magnitude & ((1 << (8 * fraction_bytes)) - 1)
    limit = 1 if fraction_bytes == 0 else (100 if fraction_bytes == 1 else (10_000 if fraction_bytes == 2 else US))
    return ((clock >> 6) & 63) < 60 and (clock & 63) < 60 and fraction < limit and (clock >> 22) == 0
