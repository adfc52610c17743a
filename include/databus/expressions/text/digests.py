"""Digests of bytes, or of texts in UTF-8: MD5, SHA-1, SHA-2, CRC-32."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from databus.expressions.text.binary import as_bytes
from databus.expressions.text.values import Value, as_column, fixed_width_texts, like_arguments, rowwise, text_buffers

_MOST_BLOCKS = 2**15 - 1
"""Blocks that an int16 holds, which NumPy sorts by radix."""


def md5(data: Value) -> Value:
    """Return MD5 in 32 lower-case hex digits."""
    return _by_hashlib(data, hashlib.md5)


def sha1(data: Value) -> Value:
    """Return SHA-1 in 40 lower-case hex digits."""
    return _by_hashlib(data, hashlib.sha1)


def sha2(data: Value, bits: int) -> Value:
    """Return SHA-2 in lower-case hex digits.

    Args:
        data: texts or bytes.
        bits: 224, 256, 384 or 512; 0 is 256; others give NULL.
    """
    if bits in (0, 256, 224):
        return _sha256(data, 7 if bits == 224 else 8)
    if bits in (384, 512):
        return _by_hashlib(data, hashlib.sha384 if bits == 384 else hashlib.sha512)
    return like_arguments(pa.nulls(len(as_column(data)), pa.string()), data)


def crc32(data: Value) -> Value:
    """Return CRC-32 (that of zlib) as an unsigned number."""
    return rowwise(pa.int64(), zlib.crc32, as_bytes(data))


def _by_hashlib(data: Value, algorithm: Callable[..., Any]) -> Value:
    return rowwise(pa.string(), lambda value: algorithm(value, usedforsecurity=False).hexdigest(), as_bytes(data))


def _sha256(data: Value, words: int) -> Value:
    """Return the first words of SHA-256, or SHA-224 (7 words)."""
    # Numba is loaded when a value is to be hashed.
    from databus.expressions.text import sha256_kernels as kernels

    column = as_column(data)
    offsets, content = text_buffers(column)
    blocks = kernels.block_counts(offsets)
    order = _by_blocks(blocks)
    digits = np.empty(len(column) * 4 * words, np.uint16)
    initial = kernels.SHA256 if words == 8 else kernels.SHA224
    kernels.digest_digits(content, offsets, order, blocks, initial, kernels.HEX_PAIRS, words, digits)
    return like_arguments(fixed_width_texts(digits, 8 * words, column), data)


def _by_blocks(blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the messages by their count of blocks, so that those hashed together end together."""
    if not blocks.size or blocks.min() == blocks.max():
        return np.arange(blocks.size)
    small = blocks.astype(np.int16) if blocks.max() <= _MOST_BLOCKS else blocks
    return np.argsort(small, kind="stable")
