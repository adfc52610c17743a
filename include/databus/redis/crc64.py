"""CRC-64 of RDB files and DUMP payloads: Jones' polynomial, reflected, from 0, eight bytes a step.

Source: the header comment of Redis' `crc64.c` (poly 0xad93d23594c935a9; of "123456789": 0xe9c6d914c4b8d9ca).
"""

from __future__ import annotations

import struct
from functools import cache

_REFLECTED = 0x95AC9329AC4BC9B5


@cache
def _tables() -> tuple[tuple[int, ...], ...]:
    first = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_REFLECTED if value & 1 else 0)
        first.append(value)
    tables = [tuple(first)]
    for _ in range(7):
        tables.append(tuple(first[value & 255] ^ (value >> 8) for value in tables[-1]))
    return tuple(tables)


def crc64(data: bytes, value: int = 0) -> int:
    """Return the CRC-64 of `data` behind bytes whose CRC-64 is `value`."""
    t0, t1, t2, t3, t4, t5, t6, t7 = _tables()
    words = len(data) // 8
    for word in struct.unpack_from(f"<{words}Q", data):
        mixed = value ^ word
        value = (
            t7[mixed & 255]
            ^ t6[mixed >> 8 & 255]
            ^ t5[mixed >> 16 & 255]
            ^ t4[mixed >> 24 & 255]
            ^ t3[mixed >> 32 & 255]
            ^ t2[mixed >> 40 & 255]
            ^ t1[mixed >> 48 & 255]
            ^ t0[mixed >> 56]
        )
    for byte in data[words * 8 :]:
        value = t0[(value ^ byte) & 255] ^ (value >> 8)
    return value
