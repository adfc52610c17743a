"""Numba kernels that write columns as Avro: each is measured, then each writes at every row's cursor.

Format: Avro 1.12 specification, "Binary Encoding". Integers are zigzag varints, bytes and texts have their length in
front, a union of null and a type begins with the branch, 0 or 1 (written 0x00, 0x02).

`state` is int8[rows]: ABSENT, NULL or VALUE, as in `variant_kernels`; both of the first are null here. With `union` 1 a
value has its branch in front, with 0 it stands alone and rows without a value write nothing. Callers pass arrays that
fit one another: nothing here checks bounds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.memory import INLINE, KERNEL, copy_bytes
from databus.rows.columns import Bytes, Ints
from databus.rows.variant_kernels import VALUE, State

Offsets = npt.NDArray[np.int32]

NULL_BRANCH, VALUE_BRANCH = b"\0", b"\2"
"""Branches of a union of null and a type."""


@njit(**INLINE)
def varint_size(value: int) -> int:
    """Return the bytes of a zigzag varint."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    size = np.int64(1)
    while rest >= np.uint64(128):
        rest >>= np.uint64(7)
        size += 1
    return size  # type: ignore[return-value]  # numba's int64 is Python's int outside


@njit(**INLINE)
def put_varint(out: Bytes, p: int, value: int) -> int:
    """Write a zigzag varint; return the position after it."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(128):
        out[p] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        p += 1
    out[p] = np.uint8(rest)
    return p + 1


@njit(**INLINE)
def signed_size(low: int, high: int) -> int:
    """Return the fewest bytes that hold a signed number of 128 bits (Java's `BigInteger.toByteArray`)."""
    word, size = high, np.int64(9)
    if high == low >> 63:
        word, size = low, np.int64(1)
    if word < 0:
        word = ~word
    while word > 127:
        word >>= 8
        size += 1
    return size  # type: ignore[return-value]  # as above


@njit(**KERNEL)
def measure_longs(values: Ints, state: State, union: int, sizes: Ints) -> None:
    """Add the bytes of a column of int or long."""
    for i in range(state.size):
        sizes[i] += union
        if state[i] == VALUE:
            sizes[i] += varint_size(values[i])


@njit(**KERNEL)
def put_longs(values: Ints, state: State, union: int, cursor: Ints, start: int, stop: int, out: Bytes) -> None:
    """Write a column of int or long."""
    for i in range(start, stop):
        p = cursor[i]
        if union:
            out[p] = 2 if state[i] == VALUE else 0
            p += 1
        if state[i] == VALUE:
            p = put_varint(out, p, values[i])
        cursor[i] = p


@njit(**KERNEL)
def measure_signed(words: Ints, state: State, union: int, sizes: Ints) -> None:
    """Add the bytes of a column of decimals, int64[rows, 2] (low, high)."""
    for i in range(state.size):
        sizes[i] += union
        if state[i] == VALUE:
            sizes[i] += 1 + signed_size(words[i, 0], words[i, 1])


@njit(**KERNEL)
def put_signed(words: Ints, state: State, union: int, cursor: Ints, start: int, stop: int, out: Bytes) -> None:
    """Write a column of decimals: their unscaled numbers, most significant byte first, in as few bytes as can be."""
    for i in range(start, stop):
        p = cursor[i]
        if union:
            out[p] = 2 if state[i] == VALUE else 0
            p += 1
        if state[i] == VALUE:
            low, high = words[i, 0], words[i, 1]
            size = signed_size(low, high)
            out[p] = size << 1
            for k in range(size):
                place = size - 1 - k
                word = low >> (8 * place) if place < 8 else high >> (8 * (place - 8))
                out[p + 1 + k] = word & 255
            p += 1 + size
        cursor[i] = p


@njit(**KERNEL)
def measure_fixed(width: int, state: State, union: int, sizes: Ints) -> None:
    """Add the bytes of a column whose values all take `width` bytes."""
    for i in range(state.size):
        sizes[i] += union
        if state[i] == VALUE:
            sizes[i] += width


@njit(**KERNEL)
def put_fixed(
    data: Bytes, width: int, state: State, union: int, cursor: Ints, start: int, stop: int, out: Bytes
) -> None:
    """Write a column of float, double or boolean: `data` holds `width` bytes a row, as they are in Avro."""
    for i in range(start, stop):
        p = cursor[i]
        if union:
            out[p] = 2 if state[i] == VALUE else 0
            p += 1
        if state[i] == VALUE:
            copy_bytes(out, p, data, i * width, width)  # type: ignore[call-arg] # numba passes the context
            p += width
        cursor[i] = p


@njit(**KERNEL)
def measure_bytes(offsets: Offsets, state: State, union: int, sizes: Ints) -> None:
    """Add the bytes of a column of bytes or text."""
    for i in range(state.size):
        sizes[i] += union
        if state[i] == VALUE:
            size = np.int64(offsets[i + 1]) - offsets[i]
            sizes[i] += size + varint_size(size)


@njit(**KERNEL)
def put_bytes(
    offsets: Offsets, data: Bytes, state: State, union: int, cursor: Ints, start: int, stop: int, out: Bytes
) -> None:
    """Write a column of bytes or text, with their lengths."""
    for i in range(start, stop):
        p = cursor[i]
        if union:
            out[p] = 2 if state[i] == VALUE else 0
            p += 1
        if state[i] == VALUE:
            size = np.int64(offsets[i + 1]) - offsets[i]
            p = put_varint(out, p, size)
            copy_bytes(out, p, data, offsets[i], size)  # type: ignore[call-arg] # as above
            p += size
        cursor[i] = p


@njit(**KERNEL)
def put_chosen(offsets: Offsets, data: Bytes, index: Offsets, cursor: Ints, start: int, stop: int, out: Bytes) -> None:
    """Write bytes as they are: of each row the value that `index` names."""
    for i in range(start, stop):
        j = index[i]
        size = np.int64(offsets[j + 1]) - offsets[j]
        copy_bytes(out, cursor[i], data, offsets[j], size)  # type: ignore[call-arg] # as above
        cursor[i] += size


@njit(**KERNEL)
def gather(data: Bytes, starts: Ints, where: Offsets, out: Bytes) -> None:
    """Copy chosen values back to back: value i begins at starts[i] and goes to out[where[i]:where[i + 1]]."""
    for i in range(starts.size):
        copy_bytes(out, where[i], data, starts[i], np.int64(where[i + 1]) - where[i])  # type: ignore[call-arg] # as above
