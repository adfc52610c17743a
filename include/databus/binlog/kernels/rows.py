"""Decode the rows events of one table into Arrow buffers inside one arena."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.images import (
    C_BYTES,
    C_DATA,
    C_META,
    C_OFFSETS,
    C_SIZE,
    C_USED,
    C_VALIDITY,
    C_WIDTH,
    CUT_SHORT,
    F_BITMAP,
    F_BITMAP2,
    F_IMAGES,
    F_PRESENT,
    F_PRESENT2,
    F_ROWS,
    F_WIDTH,
    read_frame,
    value_bytes,
)
from databus.binlog.kernels.memory import KERNEL, Bytes, Ints
from databus.binlog.kernels.pointers import address_of, bit, cell, load_8, load_32, load_64, store_8, store_32, store_64
from databus.binlog.kernels.values import (
    GROW,
    H_AFTER,
    H_BEFORE,
    H_OP,
    H_TRANSACTION,
    K_AT,
    K_CHANGES,
    K_COLUMN,
    K_EVENT,
    K_EXCEPTIONS,
    K_IMAGES,
    K_LAST_TRANSACTION,
    K_NEXT_ORDINAL,
    K_SETS,
    K_STOP,
    write_value,
    write_zero,
)
from databus.binlog.kernels.walk import R_AT, R_END, R_TRANSACTION, R_TYPE

FINISHED, FULL = 0, 1


@njit(**KERNEL)
def _presence_set(bitmap: int, size: int, sets: int, places: int, used: int) -> int:
    """Return the number of the set that equals a bitmap, added as set `used` when new; −1 when no place is left."""
    for s in range(used):
        same = True
        for b in range(size):
            if load_8(sets + s * size + b) != load_8(bitmap + b):
                same = False
                break
        if same:
            return s
    if used == places:
        return -1
    for b in range(size):
        store_8(sets + used * size + b, load_8(bitmap + b))
    return used


@njit(**KERNEL)
def _write_image(
    at: int,
    end: int,
    bitmap: int,
    present: int,
    columns: int,
    count: int,
    arena: int,
    row: int,
    cursor: int,
    exceptions: int,
) -> int:
    """Decode one row image into line `row`; returns the address after it, a fault, or GROW."""
    nulls = at
    at += (present + 7) >> 3
    if at > end:
        return CUT_SHORT
    seen = 0
    for c in range(count):
        column = cell(columns, C_WIDTH, c, 0)
        null = True
        if present == count or bit(bitmap, c):
            null = bit(nulls, seen) != 0
            seen += 1
        if not null:
            size = value_bytes(at, end, load_64(column + 8 * C_SIZE), load_64(column + 8 * C_META))
            outcome = size
            if size >= 0:
                outcome = write_value(at, size, end, column, c, arena, row, cursor, exceptions)
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
    return at


@njit(**KERNEL)
def _take_back(columns: npt.NDArray[np.int64], arena: int, first: int, images: int) -> None:
    """Undo the lines of a row change that did not fit."""
    for c in range(columns.shape[0]):
        for row in range(first, first + images):
            byte = arena + columns[c, C_VALIDITY] + (row >> 3)
            store_8(byte, load_8(byte) | (1 << (row & 7)))
        if columns[c, C_BYTES] == 0:
            columns[c, C_USED] = load_32(arena + columns[c, C_OFFSETS] + 4 * first)


@njit(**KERNEL)
def decode_rows(
    buffer: Bytes,
    events: npt.NDArray[np.int64],
    bases: Ints,
    columns: npt.NDArray[np.int64],
    cursor: Ints,
    max_images: int,
    arena: Bytes,
    changes: npt.NDArray[np.int32],
    ordinals: Ints,
    presence: npt.NDArray[np.int32],
    sets: npt.NDArray[np.uint8],
    exceptions: npt.NDArray[np.int64],
) -> int:
    """Decode from the cursor on until the events end or the batch is full.

    Args:
        buffer: raw events.
        events: R_… lines of the table's rows events.
        bases: ordinal of each event's first row change; −1 to count on within the transaction.
        columns: C_… per column, with its places in the arena.
        cursor: K_…; carries on between calls. The batch ends at the first row behind offset K_STOP.
        max_images: images that fit.
        arena: validity bits (set), data and offsets of all columns.
        changes: H_… per row change.
        ordinals: ordinal per row change.
        presence: number of the presence set per image; set 0 must hold all columns.
        sets: presence bitmaps.
        exceptions: X_… per value that Arrow cannot hold; must hold two images more than it is ever asked to.

    Returns:
        FINISHED, FULL, or a fault (negative) with cursor[K_EVENT], [K_AT] and [K_COLUMN] at its place.
    """
    frame = np.zeros(F_WIDTH, dtype=np.int64)
    base = address_of(buffer)
    memory = address_of(arena)
    count = columns.shape[0]
    bitmap_bytes = (count + 7) >> 3
    while cursor[K_EVENT] < events.shape[0]:
        event = events[cursor[K_EVENT]]
        kind = event[R_TYPE]
        end = base + event[R_END]
        fault = read_frame(base + event[R_AT], end, kind, count, frame)
        if fault < 0:
            cursor[K_COLUMN] = -1
            return fault
        op = 0 if kind == 23 or kind == 30 else (1 if kind == 24 or kind == 31 else 2)
        images = frame[F_IMAGES]
        set1 = set2 = 0
        if frame[F_PRESENT] < count or frame[F_PRESENT2] < count:
            set1 = _presence_set(frame[F_BITMAP], bitmap_bytes, address_of(sets), sets.shape[0], cursor[K_SETS])
            cursor[K_SETS] = max(cursor[K_SETS], set1 + 1)
            set2 = _presence_set(frame[F_BITMAP2], bitmap_bytes, address_of(sets), sets.shape[0], cursor[K_SETS])
            cursor[K_SETS] = max(cursor[K_SETS], set2 + 1)
            if set1 < 0 or set2 < 0:
                return FULL
        transaction = event[R_TRANSACTION]
        at = frame[F_ROWS]
        if cursor[K_AT] != 0:
            at = base + cursor[K_AT]
        else:
            if bases[cursor[K_EVENT]] >= 0:
                cursor[K_NEXT_ORDINAL] = bases[cursor[K_EVENT]]
            elif cursor[K_LAST_TRANSACTION] != transaction:
                cursor[K_NEXT_ORDINAL] = 0
            cursor[K_LAST_TRANSACTION] = transaction
        while at < end:
            row = cursor[K_IMAGES]
            change = cursor[K_CHANGES]
            noted = cursor[K_EXCEPTIONS]
            cursor[K_AT] = at - base
            if row + images > max_images or noted + 2 * count > exceptions.shape[0]:
                return FULL
            if cursor[K_AT] > cursor[K_STOP] and row > 0:
                return FULL
            for image in range(images):
                bitmap = frame[F_BITMAP] if image == 0 else frame[F_BITMAP2]
                present = frame[F_PRESENT] if image == 0 else frame[F_PRESENT2]
                at = _write_image(
                    at,
                    end,
                    bitmap,
                    present,
                    address_of(columns),
                    count,
                    memory,
                    row + image,
                    address_of(cursor),
                    address_of(exceptions),
                )
                if at == GROW:
                    _take_back(columns, memory, row, images)
                    cursor[K_EXCEPTIONS] = noted
                    return FULL
                if at < 0:
                    return at
                presence[row + image] = set1 if image == 0 else set2
            changes[change, H_OP] = op
            changes[change, H_BEFORE] = -1 if op == 0 else row
            changes[change, H_AFTER] = -1 if op == 2 else (row + 1 if op == 1 else row)
            changes[change, H_TRANSACTION] = transaction
            ordinals[change] = cursor[K_NEXT_ORDINAL]
            cursor[K_NEXT_ORDINAL] += 1
            cursor[K_IMAGES] = row + images
            cursor[K_CHANGES] = change + 1
        cursor[K_EVENT] += 1
        cursor[K_AT] = 0
    return FINISHED
