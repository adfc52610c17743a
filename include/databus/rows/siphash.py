"""128-bit hashes of texts in an Arrow column: SipHash-2-4-128 under a secret key.

Source: Aumasson, Bernstein, SipHash (2012), and `siphash.c` of its reference implementation for the form of 128 bits.
Nobody who does not know the key can make two texts of one hash.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from databus.rows.columns import Bytes, text

KEY_BYTES = 16

Hashes = npt.NDArray[np.uint64]

_U = np.uint64
_LANES = np.array([0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573], np.uint64)


def hashes(column: pa.Array, key: bytes) -> Hashes:
    """Return uint64[n, 2]: a hash of each value of a string or binary column; zeros where a slot is null.

    Args:
        column: the values.
        key: 16 bytes.
    """
    offsets, data = text(column)
    found: Hashes = _hashes(offsets, data, np.frombuffer(key, np.uint64))
    if column.null_count:
        found[np.asarray(column.is_null())] = 0
    return found


@njit(cache=True, nogil=True)
def _turned(v: Any, bits: int) -> Any:
    return (v << _U(bits)) | (v >> _U(64 - bits))


@njit(cache=True, nogil=True)
def _mixed(v0: Any, v1: Any, v2: Any, v3: Any, rounds: int) -> Any:
    for _ in range(rounds):
        v0 = v0 + v1
        v2 = v2 + v3
        v1 = _turned(v1, 13) ^ v0
        v3 = _turned(v3, 16) ^ v2
        v0 = _turned(v0, 32)
        v2 = v2 + v1
        v0 = v0 + v3
        v1 = _turned(v1, 17) ^ v2
        v3 = _turned(v3, 21) ^ v0
        v2 = _turned(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True, nogil=True)
def _word(data: Bytes, p: Any, size: Any) -> Any:
    """Return up to 8 bytes as a little-endian number."""
    word = _U(0)
    for k in range(size):
        word |= _U(data[p + k]) << _U(8 * k)
    return word


@njit(cache=True, nogil=True)
def _hashes(offsets: npt.NDArray[np.int32], data: Bytes, key: Hashes) -> Hashes:
    n = offsets.size - 1
    out = np.empty((n, 2), np.uint64)
    for i in range(n):
        p, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        length = end - p
        v0, v1 = key[0] ^ _LANES[0], key[1] ^ _LANES[1] ^ _U(0xEE)
        v2, v3 = key[0] ^ _LANES[2], key[1] ^ _LANES[3]
        while p + 8 <= end:
            word = _word(data, p, 8)
            v0, v1, v2, v3 = _mixed(v0, v1, v2, v3 ^ word, 2)
            v0 ^= word
            p += 8
        word = _word(data, p, end - p) | (_U(length & 255) << _U(56))
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3 ^ word, 2)
        v0, v1, v2, v3 = _mixed(v0 ^ word, v1, v2 ^ _U(0xEE), v3, 4)
        out[i, 0] = v0 ^ v1 ^ v2 ^ v3
        v0, v1, v2, v3 = _mixed(v0, v1 ^ _U(0xDD), v2, v3, 4)
        out[i, 1] = v0 ^ v1 ^ v2 ^ v3
    return out
