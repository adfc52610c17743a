"""JSON strings from UTF-8: checked and escaped while they are copied.

Escapes are those of RFC 8259 that Python's `json.dumps(ensure_ascii=False)` writes; UTF-8 is checked as in RFC 3629.
"""

from __future__ import annotations

from numba import njit

from databus.binlog.kernels.memory import INLINE, KERNEL
from databus.binlog.kernels.pointers import load_8, load_64, store_8, store_16, store_32, store_64

_TOPS = -0x7F7F7F7F7F7F7F80  # 0x80 in each of eight bytes
_ONES = 0x0101010101010101
_QUOTES = 0x22 * _ONES
_BACKSLASHES = 0x5C * _ONES
_BLANKS = 0x20 * _ONES
_QUOTE, _BACKSLASH = 0x22, 0x5C
_U00 = 0x3030755C  # \u00, first character lowest


@njit(**INLINE)
def _continues(byte: int) -> bool:
    return (byte & 0xC0) == 0x80


@njit(**INLINE)
def _hex(digit: int) -> int:
    return digit + (48 if digit < 10 else 87)


@njit(**KERNEL)
def character_bytes(at: int, end: int) -> int:
    """Return the length of the UTF-8 character at a byte ≥ 0x80; 0 when it is none."""
    lead = load_8(at)
    if lead < 0xC2 or lead > 0xF4:
        return 0
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if at + size > end:
        return 0
    second = load_8(at + 1)
    if not _continues(second):
        return 0
    if size > 2 and not _continues(load_8(at + 2)):
        return 0
    if size > 3 and not _continues(load_8(at + 3)):
        return 0
    # Longer than needed (E0, F0), a UTF-16 surrogate (ED), or beyond U+10FFFF (F4).
    if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F):
        return 0
    if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
        return 0
    return size


@njit(**INLINE)
def _write_escape(byte: int, to: int) -> int:
    """Write the escape of a quote, a backslash or a control character; returns the address after it."""
    short = 0
    if byte == _QUOTE or byte == _BACKSLASH:
        short = byte
    elif byte == 8:
        short = 98  # b
    elif byte == 9:
        short = 116  # t
    elif byte == 10:
        short = 110  # n
    elif byte == 12:
        short = 102  # f
    elif byte == 13:
        short = 114  # r
    if short:
        store_16(to, _BACKSLASH | short << 8)
        return to + 2
    store_32(to, _U00)
    store_16(to + 4, _hex(byte >> 4) | _hex(byte & 15) << 8)
    return to + 6


@njit(**KERNEL)
def write_string(at: int, size: int, to: int) -> int:
    """Write a quoted JSON string; returns the address after it, −1 when the bytes are not UTF-8.

    At most 6 · size + 2 bytes are written.
    """
    end = at + size
    store_8(to, _QUOTE)
    to += 1
    while at < end:
        if at + 8 <= end:
            word = load_64(at)
            quote = word ^ _QUOTES
            backslash = word ^ _BACKSLASHES
            # Each term has a top bit where a byte is below the subtracted one; `word` where it is no ASCII.
            special = (
                word | ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash) | ((word - _BLANKS) & ~word)
            )
            if special & _TOPS == 0:
                store_64(to, word)
                at += 8
                to += 8
                continue
        stop = min(at + 8, end)
        while at < stop:
            byte = load_8(at)
            if byte >= 0x80:
                length = character_bytes(at, end)
                if length == 0:
                    return -1
                for k in range(length):
                    store_8(to + k, load_8(at + k))
                at += length
                to += length
            else:
                if byte < 0x20 or byte == _QUOTE or byte == _BACKSLASH:
                    to = _write_escape(byte, to)
                else:
                    store_8(to, byte)
                    to += 1
                at += 1
    store_8(to, _QUOTE)
    return to + 1
