"""CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320) sixteen bytes a step.

Method: M. Kounavis, F. Berry, "A Systematic Approach to Building High Performance, Software-based, CRC Generators"
(2005), "slicing".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.memory import KERNEL, Bytes, load_u32


def _tables(slices: int) -> npt.NDArray[np.uint32]:
    table = np.zeros((slices, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        table[0, byte] = value
    for k in range(1, slices):
        table[k] = (table[k - 1] >> np.uint32(8)) ^ table[0, table[k - 1] & np.uint32(0xFF)]
    return table


_TABLE = _tables(16)


@njit(**KERNEL)
def crc32(buffer: Bytes, start: int, end: int) -> int:
    """Return the CRC-32 of buffer[start:end] as an unsigned number."""
    crc = np.int64(0xFFFFFFFF)
    at = start
    t = _TABLE
    while at + 16 <= end:
        a = load_u32(buffer, at) ^ crc
        b = load_u32(buffer, at + 4)
        c = load_u32(buffer, at + 8)
        d = load_u32(buffer, at + 12)
        crc = np.int64(
            t[15, a & 0xFF]
            ^ t[14, (a >> 8) & 0xFF]
            ^ t[13, (a >> 16) & 0xFF]
            ^ t[12, a >> 24]
            ^ t[11, b & 0xFF]
            ^ t[10, (b >> 8) & 0xFF]
            ^ t[9, (b >> 16) & 0xFF]
            ^ t[8, b >> 24]
            ^ t[7, c & 0xFF]
            ^ t[6, (c >> 8) & 0xFF]
            ^ t[5, (c >> 16) & 0xFF]
            ^ t[4, c >> 24]
            ^ t[3, d & 0xFF]
            ^ t[2, (d >> 8) & 0xFF]
            ^ t[1, (d >> 16) & 0xFF]
            ^ t[0, d >> 24]
        )
        at += 16
    while at < end:
        crc = (crc >> 8) ^ np.int64(t[0, (crc ^ np.int64(buffer[at])) & 0xFF])
        at += 1
    return crc ^ 0xFFFFFFFF  # type: ignore[return-value]  # numba's int64 is Python's int outside
