"""Numba kernels of message formats: DECIMALs as unscaled big-endian bytes.

Callers pass arrays that fit one another: nothing here checks bounds. Each kernel makes one pass for the sizes and one
that writes, as `json_kernels` do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.rows.columns import Ints

_SIGN_BITS = 63


@njit(cache=True, nogil=True)
def unscaled_bytes(words: Ints, valid: npt.NDArray[np.bool_]) -> Any:
    """Return 128-bit numbers as the shortest two's complement, most significant byte first.

    Args:
        words: int64[n, 2], low word and high word.
        valid: bool[n]; the others take no bytes.

    Returns:
        Offsets int32[n + 1] and bytes.
    """
    n = words.shape[0]
    where = np.empty(n + 1, np.int32)
    where[0] = 0
    for i in range(n):
        where[i + 1] = where[i] + (_length(words[i, 0], words[i, 1]) if valid[i] else 0)
    out = np.empty(where[n], np.uint8)
    for i in range(n):
        if not valid[i]:
            continue
        p = where[i + 1] - 1
        for k in range(where[i + 1] - where[i]):
            out[p] = (words[i, k >> 3] >> (8 * (k & 7))) & 0xFF
            p -= 1
    return where, out


@njit(cache=True, nogil=True)
def _length(low: int, high: int) -> int:
    """Return how many bytes a number takes with its sign."""
    sign = high >> _SIGN_BITS
    length = 16
    while length > 1:
        k = length - 1
        byte = ((high if k >= 8 else low) >> (8 * (k & 7))) & 0xFF
        k -= 1
        next_top = ((high if k >= 8 else low) >> (8 * (k & 7) + 7)) & 1
        if byte != (sign & 0xFF) or next_top != (sign & 1):
            break
        length -= 1
    return length
