"""Decode the rows of a prepared statement's result into Arrow buffers inside one arena.

Wire format: MySQL 8.0 source documentation, "MySQL Packets" and "Binary Protocol Resultset Row" (a zero byte, a NULL
bitmap that begins at its third bit, then the values that are not NULL).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.images import (
    BAD_VALUE,
    C_BYTES,
    C_DATA,
    C_OFFSETS,
    C_USED,
    C_VALIDITY,
    C_WIDTH,
    CUT_SHORT,
)
from databus.binlog.kernels.memory import KERNEL, Bytes, Ints
from databus.binlog.kernels.pointers import (
    address_of,
    bit,
    cell,
    load_8,
    load_16,
    load_32,
    load_64,
    store_8,
    store_32,
    store_64,
)
from databus.binlog.kernels.result_values import BY_LENGTH, write_sent
from databus.binlog.kernels.values import GROW, K_AT, K_COLUMN, K_EXCEPTIONS, K_IMAGES, write_zero

# Why decoding stopped: the buffer ends inside a packet; no row more fits; the next row is in several packets; the
# result ends; an error takes the place of a row; a packet that none of these is. Faults are negative.
STARVED, FULL, SEVERAL_PACKETS, END_OF_RESULT, SERVER_ERROR, BAD_PACKET = range(6)

MAX_PACKET = 0xFFFFFF
_HEADER = 4


@njit(**KERNEL)
def _sent_size(at: int, end: int, way: int, place: Ints) -> int:
    """Return the size of a value and write the address of its first byte; CUT_SHORT where it is not all there."""
    size = way
    if way < 0:
        if at >= end:
            return CUT_SHORT
        size = load_8(at)
        at += 1
        if way == BY_LENGTH and size > 250:
            if size == 251 or size == 255:
                return BAD_VALUE
            width = 2 if size == 252 else (3 if size == 253 else 8)
            if at + width > end:
                return CUT_SHORT
            if width == 2:
                size = load_16(at)
            elif width == 3:
                size = load_16(at) | load_8(at + 2) << 16
            else:
                size = load_64(at)
            at += width
    place[0] = at
    return size if size >= 0 and at + size <= end else CUT_SHORT


@njit(**KERNEL)
def _write_row(
    at: int, end: int, ways: Ints, columns: int, arena: int, row: int, cursor: int, exceptions: int, place: Ints
) -> int:
    """Decode one row into line `row`; returns 0, a fault, or GROW."""
    count = ways.shape[0]
    nulls = at + 1
    at = nulls + ((count + 9) >> 3)
    if at > end:
        return CUT_SHORT
    for c in range(count):
        column = cell(columns, C_WIDTH, c, 0)
        null = bit(nulls, c + 2) != 0
        if not null:
            outcome = size = _sent_size(at, end, ways[c], place)
            if size >= 0:
                at = place[0]
                outcome = write_sent(at, size, end, column, c, arena, row, cursor, exceptions)
            if outcome < 0:
                store_64(cursor + 8 * K_COLUMN, c)
                return outcome
            null = outcome == 1
            at += size
        bytes_each = load_64(column + 8 * C_BYTES)
        if null:
            byte = arena + load_64(column + 8 * C_VALIDITY) + (row >> 3)
            store_8(byte, load_8(byte) & ~(1 << (row & 7)))
            write_zero(arena + load_64(column + 8 * C_DATA), bytes_each, row)
        if bytes_each == 0:
            store_32(arena + load_64(column + 8 * C_OFFSETS) + 4 * (row + 1), load_64(column + 8 * C_USED))
    if at != end:
        store_64(cursor + 8 * K_COLUMN, -1)
        return BAD_VALUE
    return 0


@njit(**KERNEL)
def _take_back(columns: npt.NDArray[np.int64], arena: int, row: int) -> None:
    """Undo the line of a row that did not fit."""
    for c in range(columns.shape[0]):
        byte = arena + columns[c, C_VALIDITY] + (row >> 3)
        store_8(byte, load_8(byte) | (1 << (row & 7)))
        if columns[c, C_BYTES] == 0:
            columns[c, C_USED] = load_32(arena + columns[c, C_OFFSETS] + 4 * row)


@njit(**KERNEL)
def decode_row(
    buffer: Bytes,
    start: int,
    end: int,
    ways: Ints,
    columns: npt.NDArray[np.int64],
    cursor: Ints,
    arena: Bytes,
    exceptions: npt.NDArray[np.int64],
) -> int:
    """Decode the row that buffer[start:end] holds without packet headers; arguments as of `decode_result`.

    Returns:
        0, GROW when it does not fit, or a fault.
    """
    place = np.zeros(1, dtype=np.int64)
    base, memory = address_of(buffer), address_of(arena)
    row, noted = cursor[K_IMAGES], cursor[K_EXCEPTIONS]
    outcome = _write_row(
        base + start,
        base + end,
        ways,
        address_of(columns),
        memory,
        row,
        address_of(cursor),
        address_of(exceptions),
        place,
    )
    if outcome == GROW:
        _take_back(columns, memory, row)
        cursor[K_EXCEPTIONS] = noted
    elif outcome == 0:
        cursor[K_IMAGES] = row + 1
    return outcome


@njit(**KERNEL)
def decode_result(
    buffer: Bytes,
    end: int,
    ways: Ints,
    columns: npt.NDArray[np.int64],
    cursor: Ints,
    max_images: int,
    arena: Bytes,
    exceptions: npt.NDArray[np.int64],
) -> int:
    """Decode rows from the cursor on until the buffer ends inside a packet, the batch is full, or no row comes.

    Args:
        buffer: bytes as received.
        end: bytes of it that are filled.
        ways: per column how its values are sent (`result_values`).
        columns: C_… per column, with its places in the arena.
        cursor: K_…; carries on between calls. K_AT is the offset of the next packet's header.
        max_images: rows that fit.
        arena: validity bits (set), data and offsets of all columns.
        exceptions: X_… per value that Arrow cannot hold; must hold one row more than it is ever asked to.

    Returns:
        Why it stopped, or a fault (negative) with cursor[K_COLUMN] at its place.
    """
    place = np.zeros(1, dtype=np.int64)
    base, memory = address_of(buffer), address_of(arena)
    count = ways.shape[0]
    at = cursor[K_AT]
    while True:
        cursor[K_AT] = at
        if at + _HEADER > end:
            return STARVED
        length = load_32(base + at) & MAX_PACKET
        if length == MAX_PACKET:
            return SEVERAL_PACKETS
        if at + _HEADER + length > end:
            return STARVED
        if length == 0:
            return BAD_PACKET
        first = load_8(base + at + _HEADER)
        if first != 0:
            if first == 0xFE and length < 9:
                return END_OF_RESULT
            return SERVER_ERROR if first == 0xFF else BAD_PACKET
        row, noted = cursor[K_IMAGES], cursor[K_EXCEPTIONS]
        if row >= max_images or noted + count > exceptions.shape[0]:
            return FULL
        outcome = _write_row(
            base + at + _HEADER,
            base + at + _HEADER + length,
            ways,
            address_of(columns),
            memory,
            row,
            address_of(cursor),
            address_of(exceptions),
            place,
        )
        if outcome == GROW:
            _take_back(columns, memory, row)
            cursor[K_EXCEPTIONS] = noted
            return FULL
        if outcome < 0:
            return outcome
        cursor[K_IMAGES] = row + 1
        at += _HEADER + length


@njit(**KERNEL)
def sent_sizes(buffer: Bytes, start: int, end: int, ways: Ints, sizes: Ints) -> int:
    """Write the size of each value of a row without packet headers, 0 for NULL; returns 0 or a fault."""
    place = np.zeros(1, dtype=np.int64)
    base = address_of(buffer)
    count = ways.shape[0]
    nulls = base + start + 1
    at = nulls + ((count + 9) >> 3)
    if at > base + end:
        return CUT_SHORT
    for c in range(count):
        sizes[c] = 0
        if bit(nulls, c + 2) == 0:
            size = _sent_size(at, base + end, ways[c], place)
            if size < 0:
                return size
            sizes[c] = size if ways[c] == BY_LENGTH else 0
            at = place[0] + size
    return 0
