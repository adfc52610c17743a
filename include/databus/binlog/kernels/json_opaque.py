"""Opaque values inside MySQL's binary JSON: decimals, dates and times, and bytes, in the text that SELECT shows.

Wire format: MySQL 8.0 source, sql-common/json_dom.cc (`wrapper_to_string`) and my_time.cc (packed times).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from databus.binlog.kernels.decimals import decimal_bytes, write_decimal_text
from databus.binlog.kernels.memory import INLINE, KERNEL
from databus.binlog.kernels.pointers import load_8, load_64, store_8, store_32, store_64

DECIMAL, TIMESTAMP, DATE, TIME, DATETIME = 246, 7, 10, 11, 12
_QUOTE, _ZERO, _MINUS, _POINT, _COLON, _BLANK, _EQUALS = 34, 48, 45, 46, 58, 32, 61
_MAX_DIGITS = 81  # as in `databus.binlog.values.value_texts`
_BASE64_T = int.from_bytes(b"base64:t", "little")
_YPE = int.from_bytes(b"ype", "little")
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).astype(
    np.int64
)


@njit(**INLINE)
def _write_two(value: int, to: int) -> int:
    store_8(to, value // 10 + _ZERO)
    store_8(to + 1, value % 10 + _ZERO)
    return to + 2


@njit(**INLINE)
def _write_clock(seconds: int, fraction: int, to: int) -> int:
    """Write `:MM:SS.ffffff`."""
    store_8(to, _COLON)
    to = _write_two((seconds >> 6) & 63, to + 1)
    store_8(to, _COLON)
    to = _write_two(seconds & 63, to + 1)
    store_8(to, _POINT)
    to = _write_two(fraction // 10_000, to + 1)
    to = _write_two(fraction // 100 % 100, to)
    return _write_two(fraction % 100, to)  # type: ignore[no-any-return]


@njit(**KERNEL)
def _write_moment(packed: int, field_type: int, to: int) -> int:
    """Write a packed date or time; returns the address after it, −1 for one that no server packs."""
    negative = packed < 0
    if negative:
        packed = -packed
    fraction = packed & 0xFFFFFF
    seconds = packed >> 24
    if fraction > 999_999 or packed < 0:
        return -1
    store_8(to, _QUOTE)
    to += 1
    if field_type == TIME:
        hour = seconds >> 12
        if hour > 999 or (seconds >> 6) & 63 > 59 or seconds & 63 > 59:
            return -1
        if negative:
            store_8(to, _MINUS)
            to += 1
        if hour > 99:
            store_8(to, hour // 100 + _ZERO)
            to += 1
        to = _write_clock(seconds, fraction, _write_two(hour % 100, to))
    else:
        day_part = seconds >> 17
        year_month = day_part >> 5
        year = year_month // 13
        if negative or year > 9999:
            return -1
        to = _write_two(year % 100, _write_two(year // 100, to))
        store_8(to, _MINUS)
        to = _write_two(year_month % 13, to + 1)
        store_8(to, _MINUS)
        to = _write_two(day_part & 31, to + 1)
        if field_type != DATE:
            store_8(to, _BLANK)
            to = _write_clock(seconds, fraction, _write_two((seconds >> 12) & 31, to + 1))
    store_8(to, _QUOTE)
    return to + 1


@njit(**KERNEL)
def _write_base64(at: int, size: int, field_type: int, to: int) -> int:
    """Write `"base64:type252:AP8="`."""
    store_8(to, _QUOTE)
    store_64(to + 1, _BASE64_T)
    store_32(to + 9, _YPE)
    to += 12
    if field_type > 99:
        store_8(to, field_type // 100 + _ZERO)
        to += 1
    if field_type > 9:
        store_8(to, field_type // 10 % 10 + _ZERO)
        to += 1
    store_8(to, field_type % 10 + _ZERO)
    store_8(to + 1, _COLON)
    to += 2
    end = at + size
    while at < end:
        word = load_8(at) << 16
        if at + 1 < end:
            word |= load_8(at + 1) << 8
        if at + 2 < end:
            word |= load_8(at + 2)
        store_8(to, _ALPHABET[word >> 18])
        store_8(to + 1, _ALPHABET[(word >> 12) & 63])
        store_8(to + 2, _ALPHABET[(word >> 6) & 63] if at + 1 < end else _EQUALS)
        store_8(to + 3, _ALPHABET[word & 63] if at + 2 < end else _EQUALS)
        at += 3
        to += 4
    store_8(to, _QUOTE)
    return to + 1


@njit(**KERNEL)
def write_opaque(field_type: int, at: int, size: int, to: int) -> int:
    """Write an opaque value of `size` bytes; returns the address after it, −1 when it is damaged or of no known form.

    At most 4 · size + 20 bytes are written.
    """
    if field_type == DECIMAL:
        if size < 3:
            return -1
        precision, scale = load_8(at), load_8(at + 1)
        if precision < 1 or precision > _MAX_DIGITS or scale > precision or size - 2 != decimal_bytes(precision, scale):
            return -1
        written = write_decimal_text(at + 2, precision, scale, to)
        return -1 if written < 0 else to + written
    if field_type == DATE or field_type == TIME or field_type == DATETIME or field_type == TIMESTAMP:
        return -1 if size != 8 else _write_moment(load_64(at), field_type, to)
    return _write_base64(at, size, field_type, to)  # type: ignore[no-any-return]
