"""Spark's hashes of rows: Murmur3 of 32 bits and xxHash of 64, each column taken into what those before it left.

Spark's Murmur3 takes the last bytes of a value one by one, as signed numbers, unlike the original
(`org.apache.spark.unsafe.hash.Murmur3_x86_32`). NULLs leave a row's hash as it was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.memory import INLINE, KERNEL, load_i64, load_u32
from databus.rows.columns import Bytes, Ints

Hashes32 = npt.NDArray[np.uint32]
Hashes64 = npt.NDArray[np.uint64]
Valid = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int32]

P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)
_LOW = 0xFFFFFFFF


@njit(**INLINE)
def _rotated32(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _LOW


@njit(**INLINE)
def _mixed(h: int, k: int) -> int:
    """Return a hash with four more bytes, all as int64 of 32 bits."""
    k = ((k & _LOW) * 0xCC9E2D51) & _LOW
    k = (_rotated32(k, 15) * 0x1B873593) & _LOW
    h = _rotated32(h ^ k, 13)
    return (h * 5 + 0xE6546B64) & _LOW


@njit(**INLINE)
def _finished32(h: int, size: int) -> int:
    h ^= size
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & _LOW
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & _LOW
    return h ^ (h >> 16)


@njit(**KERNEL)
def murmur3_of_ints(values: Ints, valid: Valid, hashes: Hashes32) -> None:
    """Take a column of 32-bit values into the hashes."""
    for i in range(values.size):
        if valid[i]:
            hashes[i] = _finished32(_mixed(np.int64(hashes[i]), values[i]), 4)


@njit(**KERNEL)
def murmur3_of_longs(values: Ints, valid: Valid, hashes: Hashes32) -> None:
    """Take a column of 64-bit values into the hashes."""
    for i in range(values.size):
        if valid[i]:
            h = _mixed(np.int64(hashes[i]), values[i] & _LOW)
            hashes[i] = _finished32(_mixed(h, (values[i] >> 32) & _LOW), 8)


@njit(**KERNEL)
def murmur3_of_bytes(offsets: Offsets, data: Bytes, valid: Valid, hashes: Hashes32) -> None:
    """Take a column of texts or bytes into the hashes."""
    for i in range(valid.size):
        if valid[i]:
            start = np.int64(offsets[i])
            size = np.int64(offsets[i + 1]) - start
            h = np.int64(hashes[i])
            words = size // 4
            for w in range(words):
                h = _mixed(h, load_u32(data, start + 4 * w))
            for p in range(start + 4 * words, start + size):
                byte = np.int64(data[p])
                h = _mixed(h, byte - 256 if byte > 127 else byte)
            hashes[i] = _finished32(h, size)


@njit(**INLINE)
def _rotated64(value: np.uint64, by: int) -> np.uint64:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


@njit(**INLINE)
def _finished64(h: np.uint64) -> np.uint64:
    h ^= h >> np.uint64(33)
    h *= P2
    h ^= h >> np.uint64(29)
    h *= P3
    return h ^ (h >> np.uint64(32))


@njit(**INLINE)
def _with_word(h: np.uint64, word: np.uint64) -> np.uint64:
    h ^= _rotated64(word * P2, 31) * P1
    return _rotated64(h, 27) * P1 + P4


@njit(**INLINE)
def _round(h: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated64(h + word * P2, 31) * P1


@njit(**INLINE)
def _merged(h: np.uint64, part: np.uint64) -> np.uint64:
    return (h ^ (_rotated64(part * P2, 31) * P1)) * P1 + P4


@njit(**KERNEL)
def xxhash64_of_ints(values: Ints, valid: Valid, hashes: Hashes64) -> None:
    """Take a column of 32-bit values into the hashes."""
    for i in range(values.size):
        if valid[i]:
            h = hashes[i] + P5 + np.uint64(4)
            h ^= np.uint64(values[i] & _LOW) * P1
            hashes[i] = _finished64(_rotated64(h, 23) * P2 + P3)


@njit(**KERNEL)
def xxhash64_of_longs(values: Ints, valid: Valid, hashes: Hashes64) -> None:
    """Take a column of 64-bit values into the hashes."""
    for i in range(values.size):
        if valid[i]:
            hashes[i] = _finished64(_with_word(hashes[i] + P5 + np.uint64(8), np.uint64(values[i])))


@njit(**KERNEL)
def xxhash64_of_bytes(offsets: Offsets, data: Bytes, valid: Valid, hashes: Hashes64) -> None:
    """Take a column of texts or bytes into the hashes."""
    for i in range(valid.size):
        if not valid[i]:
            continue
        p = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        size = np.uint64(stop - p)
        seed = hashes[i]
        h = seed + P5
        if stop - p >= 32:
            v1, v2, v3, v4 = seed + P1 + P2, seed + P2, seed, seed - P1
            while p + 32 <= stop:
                v1 = _round(v1, np.uint64(load_i64(data, p)))
                v2 = _round(v2, np.uint64(load_i64(data, p + 8)))
                v3 = _round(v3, np.uint64(load_i64(data, p + 16)))
                v4 = _round(v4, np.uint64(load_i64(data, p + 24)))
                p += 32
            h = _rotated64(v1, 1) + _rotated64(v2, 7) + _rotated64(v3, 12) + _rotated64(v4, 18)
            h = _merged(_merged(_merged(_merged(h, v1), v2), v3), v4)
        h += size
        while p + 8 <= stop:
            h = _with_word(h, np.uint64(load_i64(data, p)))
            p += 8
        if p + 4 <= stop:
            h ^= np.uint64(load_u32(data, p)) * P1
            h = _rotated64(h, 23) * P2 + P3
            p += 4
        while p < stop:
            h ^= np.uint64(data[p]) * P5
            h = _rotated64(h, 11) * P1
            p += 1
        hashes[i] = _finished64(h)
