"""Kafka's default key hash, so that a row's partition is known before it is produced.

Source: org.apache.kafka.common.utils.Utils.murmur2 and toPositive (Kafka 4.3); partition = key_hash % partitions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from databus.rows.columns import Bytes, text

_SEED = 0x9747B28C
_M = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the signed 32-bit murmur2 of `data`, as `Utils.murmur2` does."""
    offsets = np.array([0, len(data)], np.int32)
    return int(_hashes(offsets, np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8))[0])


def key_hashes_of(keys: pa.BinaryArray) -> pa.Int32Array:
    """Return the hash of each key; null of null."""
    found = pa.array(key_hashes(*text(keys.fill_null(b""))))
    return pc.if_else(keys.is_valid(), found, pa.scalar(None, pa.int32())) if keys.null_count else found


def key_hashes(offsets: npt.NDArray[np.int32], data: Bytes) -> npt.NDArray[np.int32]:
    """Return murmur2 & 0x7fffffff of each key; keys lie back to back in `data`."""
    positive: npt.NDArray[np.int32] = _hashes(offsets, data) & np.int32(0x7FFFFFFF)
    return positive


@njit(cache=True, nogil=True)
def _hashes(offsets: npt.NDArray[np.int32], data: Bytes) -> npt.NDArray[np.int32]:
    n = offsets.size - 1
    out = np.empty(n, np.int32)
    for i in range(n):
        p = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - p
        h = (_SEED ^ length) & _WORD
        for _ in range(length // 4):
            k = (
                np.int64(data[p])
                | np.int64(data[p + 1]) << 8
                | np.int64(data[p + 2]) << 16
                | np.int64(data[p + 3]) << 24
            )
            k = (k * _M) & _WORD
            k ^= k >> 24
            k = (k * _M) & _WORD
            h = ((h * _M) & _WORD) ^ k
            p += 4
        rest = length % 4
        if rest == 3:
            h ^= np.int64(data[p + 2]) << 16
        if rest >= 2:
            h ^= np.int64(data[p + 1]) << 8
        if rest >= 1:
            h = ((h ^ np.int64(data[p])) * _M) & _WORD
        h ^= h >> 13
        h = (h * _M) & _WORD
        h ^= h >> 15
        out[i] = np.int32(h if h <= 0x7FFFFFFF else h - 0x100000000)
    return out
