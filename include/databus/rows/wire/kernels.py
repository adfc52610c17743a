"""Numba kernels that write columns in a binary format: each is measured, then each writes at every row's cursor.

Formats: Avro 1.12 specification, "Binary Encoding"; Protocol Buffers, "Encoding". Both write integers as varints (Avro
zigzag), and bytes and texts with their length in front.

`state` is int8[rows]: ABSENT, NULL or VALUE, as in `variant_kernels`; both of the first are null here. Callers pass
arrays that fit one another: nothing here checks bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.memory import INLINE, KERNEL, copy_bytes
from databus.rows.columns import Bytes, Ints
from databus.rows.variant.kernels import VALUE, State

Offsets = npt.NDArray[np.int32]


class Framing(NamedTuple):
    """Framing of a column's values.

    Attributes:
        head: uint8[…] in front of each value: the branch of Avro's union, the tag of a Protobuf field.
        none: uint8[…] where there is no value.
        zigzag: 1 where varints are zigzag, lengths too; else 0.
    """

    head: Bytes
    none: Bytes
    zigzag: int


def framing(head: bytes, none: bytes, *, zigzag: bool) -> Framing:
    """Return a framing; all have arrays of one type, so that each kernel is compiled once."""
    return Framing(np.array(bytearray(head), np.uint8), np.array(bytearray(none), np.uint8), int(zigzag))


@njit(**INLINE)
def varint_size(value: int, zigzag: int) -> int:
    """Return the bytes of a varint of 64 bits."""
    rest = np.uint64((value << 1) ^ (value >> 63)) if zigzag else np.uint64(value)
    size = np.int64(1)
    while rest >= np.uint64(128):
        rest >>= np.uint64(7)
        size += 1
    return size  # type: ignore[return-value]  # numba's int64 is Python's int outside


@njit(**INLINE)
def put_varint(out: Bytes, p: int, value: int, zigzag: int) -> int:
    """Write a varint of 64 bits; return the position after it."""
    rest = np.uint64((value << 1) ^ (value >> 63)) if zigzag else np.uint64(value)
    while rest >= np.uint64(128):
        out[p] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        p += 1
    out[p] = np.uint8(rest)
    return p + 1


@njit(**INLINE)
def put_head(out: Bytes, p: int, head: Bytes) -> int:
    """Write what stands in front of a value; return the position after it."""
    for k in range(head.size):
        out[p + k] = head[k]
    return p + head.size


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
def measure_longs(values: Ints, state: State, frame: Framing, sizes: Ints) -> None:
    """Add the bytes of a column of int or long."""
    for i in range(state.size):
        if state[i] != VALUE:
            sizes[i] += frame.none.size
        else:
            sizes[i] += frame.head.size + varint_size(values[i], frame.zigzag)


@njit(**KERNEL)
def put_longs(values: Ints, state: State, frame: Framing, cursor: Ints, start: int, stop: int, out: Bytes) -> None:
    """Write a column of int or long."""
    for i in range(start, stop):
        p = put_head(out, cursor[i], frame.head if state[i] == VALUE else frame.none)
        if state[i] == VALUE:
            p = put_varint(out, p, values[i], frame.zigzag)
        cursor[i] = p


@njit(**KERNEL)
def measure_signed(words: Ints, state: State, frame: Framing, sizes: Ints) -> None:
    """Add the bytes of a column of decimals, int64[rows, 2] (low, high)."""
    for i in range(state.size):
        if state[i] != VALUE:
            sizes[i] += frame.none.size
        else:
            sizes[i] += frame.head.size + 1 + signed_size(words[i, 0], words[i, 1])


@njit(**KERNEL)
def put_signed(words: Ints, state: State, frame: Framing, cursor: Ints, start: int, stop: int, out: Bytes) -> None:
    """Write a column of decimals: their unscaled numbers, most significant byte first, in as few bytes as can be."""
    for i in range(start, stop):
        p = put_head(out, cursor[i], frame.head if state[i] == VALUE else frame.none)
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
def measure_fixed(width: int, state: State, frame: Framing, sizes: Ints) -> None:
    """Add the bytes of a column whose values all take `width` bytes."""
    for i in range(state.size):
        if state[i] != VALUE:
            sizes[i] += frame.none.size
        else:
            sizes[i] += frame.head.size + width


@njit(**KERNEL)
def put_fixed(
    data: Bytes, width: int, state: State, frame: Framing, cursor: Ints, start: int, stop: int, out: Bytes
) -> None:
    """Write a column of float, double or boolean: `data` holds `width` bytes a row, little-endian."""
    for i in range(start, stop):
        p = put_head(out, cursor[i], frame.head if state[i] == VALUE else frame.none)
        if state[i] == VALUE:
            copy_bytes(out, p, data, i * width, width)  # type: ignore[call-arg] # numba passes the context
            p += width
        cursor[i] = p


@njit(**KERNEL)
def measure_bytes(offsets: Offsets, state: State, frame: Framing, sizes: Ints) -> None:
    """Add the bytes of a column of bytes or text."""
    for i in range(state.size):
        if state[i] != VALUE:
            sizes[i] += frame.none.size
        else:
            size = np.int64(offsets[i + 1]) - offsets[i]
            sizes[i] += frame.head.size + size + varint_size(size, frame.zigzag)


@njit(**KERNEL)
def put_bytes(
    offsets: Offsets, data: Bytes, state: State, frame: Framing, cursor: Ints, start: int, stop: int, out: Bytes
) -> None:
    """Write a column of bytes or text, with their lengths."""
    for i in range(start, stop):
        p = put_head(out, cursor[i], frame.head if state[i] == VALUE else frame.none)
        if state[i] == VALUE:
            size = np.int64(offsets[i + 1]) - offsets[i]
            p = put_varint(out, p, size, frame.zigzag)
            copy_bytes(out, p, data, offsets[i], size)  # type: ignore[call-arg] # as above
            p += size
        cursor[i] = p


@njit(**KERNEL)
def measure_lengths(sizes: Ints, lengths: Ints) -> None:
    """Measure plain varints of `sizes` themselves."""
    for i in range(sizes.size):
        lengths[i] = varint_size(sizes[i], 0)


@njit(**KERNEL)
def put_lengths(sizes: Ints, cursor: Ints, out: Bytes) -> None:
    """Write `sizes` as plain varints, and move the cursors behind them."""
    for i in range(sizes.size):
        cursor[i] = put_varint(out, cursor[i], sizes[i], 0)


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
