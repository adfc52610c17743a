"""The frame of a rows event (header, column bitmaps) and the size of each value: enough to count its rows.

Wire format: MySQL 8.0 source documentation, "Rows_event"; MariaDB Knowledge Base, "Rows_event_v1/v2".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels import kinds as k
from databus.binlog.kernels.decimals import decimal_bytes
from databus.binlog.kernels.memory import INLINE, KERNEL, Bytes, Ints
from databus.binlog.kernels.pointers import address_of, bit, cell, load_8, load_16, load_64, read_little
from databus.binlog.kernels.walk import R_AT, R_END, R_TYPE

# Columns of the matrix that describes a table's columns (one line each); C_SIZE is the size of a value in the log, −1
# when a length of C_META bytes precedes it; C_BYTES is its size in the arena, C_JSON is 1 for a JSON column, a value of
# more than C_MOST bytes is left where it is, and noted.
(
    C_KIND, C_META, C_META2, C_SIZE, C_VALIDITY, C_DATA, C_OFFSETS, C_CAPACITY, C_USED, C_BYTES, C_JSON, C_MOST,
    C_WIDTH,
) = range(13)  # fmt: skip

# Slots of a frame: addresses of the two bitmaps, columns present in each, address of the first row, images per row.
F_BITMAP, F_BITMAP2, F_PRESENT, F_PRESENT2, F_ROWS, F_IMAGES, F_WIDTH = range(7)

_FIXED = {
    k.RAW1: 1, k.YEAR: 1, k.RAW2: 2, k.INT3: 3, k.UINT3: 3, k.DATE: 3, k.OLD_TIME: 3,
    k.RAW4: 4, k.OLD_TIMESTAMP: 4, k.RAW8: 8, k.OLD_DATETIME: 8,
}  # fmt: skip
_FRACTIONAL = {k.DATETIME: 5, k.TIMESTAMP: 4, k.TIME: 3}

# Faults; all negative so that a count or an offset can stand beside them.
BAD_COLUMN_COUNT, CUT_SHORT, BAD_VALUE, LEFT_OVER, NO_IMAGE, BAD_ENUM = -1, -2, -3, -4, -5, -6


@njit(**INLINE)
def _ones(at: int, bits: int) -> int:
    count = 0
    for c in range(bits):
        count += bit(at, c)
    return count


@njit(**KERNEL)
def read_frame(event: int, end: int, kind: int, column_count: int, frame: Ints) -> int:
    """Read what precedes the rows of an event into `frame`; returns 0 or a fault.

    Args:
        event: address of the event.
        end: address of its end.
        kind: its type.
        column_count: columns of the table.
        frame: F_…, all offsets as addresses.
    """
    at = event + 19 + 8
    if kind >= 30:
        if at + 2 > end:
            return CUT_SHORT
        extra = load_16(at)
        if extra < 2:
            return CUT_SHORT
        at += extra
    if at + 1 > end:
        return CUT_SHORT
    columns = load_8(at)
    at += 1
    if columns == 252:
        if at + 2 > end:
            return CUT_SHORT
        columns = load_16(at)
        at += 2
    if columns != column_count:
        return BAD_COLUMN_COUNT
    bitmap_bytes = (columns + 7) >> 3
    update = kind == 24 or kind == 31 or kind == 39
    if at + bitmap_bytes * (2 if update else 1) > end:
        return CUT_SHORT
    frame[F_BITMAP] = at
    frame[F_PRESENT] = _ones(at, columns)
    if update:
        at += bitmap_bytes
    frame[F_BITMAP2] = at
    frame[F_PRESENT2] = _ones(at, columns)
    at += bitmap_bytes
    frame[F_ROWS] = at
    frame[F_IMAGES] = 2 if update else 1
    if frame[F_PRESENT] == 0:
        return NO_IMAGE
    return 0


def logged_size(kind: int, meta: int, meta2: int) -> int:
    """Return the size of a column's values in the log, −1 when a length precedes each."""
    if kind in (k.STRING, k.PADDED):
        return -1
    if kind in (k.DECIMAL, k.DECIMAL_TEXT):
        return int(decimal_bytes(meta, meta2))
    if kind in _FRACTIONAL:
        return _FRACTIONAL[kind] + (meta + 1) // 2
    return _FIXED.get(kind, meta)


@njit(**INLINE)
def value_bytes(at: int, end: int, size: int, meta: int) -> int:
    """Return the size of the value at an address, or CUT_SHORT when it would reach past the event.

    Args:
        at: address of the value.
        end: address after its event.
        size: its C_SIZE.
        meta: its C_META.
    """
    if size < 0:
        if at + meta > end:
            return CUT_SHORT
        size = meta + read_little(at, meta)
    return size if at + size <= end else CUT_SHORT


@njit(**INLINE)
def _skip_image(at: int, end: int, bitmap: int, present: int, columns: int, count: int) -> int:
    nulls = at
    at += (present + 7) >> 3
    if at > end:
        return CUT_SHORT
    seen = 0
    for c in range(count):
        if bit(bitmap, c):
            if bit(nulls, seen) == 0:
                line = cell(columns, C_WIDTH, c, 0)
                size = value_bytes(at, end, load_64(line + 8 * C_SIZE), load_64(line + 8 * C_META))
                if size < 0:
                    return size
                at += size
            seen += 1
    return at


@njit(**KERNEL)
def skip_options(at: int, end: int, columns: npt.NDArray[np.int64]) -> int:
    """Return the address after what precedes an after-image in a PARTIAL_UPDATE_ROWS event, or a fault.

    That is a byte of value options, and when it is 1 (PARTIAL_JSON), a bit for each JSON column of the table.
    """
    if at + 1 > end:
        return CUT_SHORT
    options = load_8(at)
    at += 1
    if options > 1:
        return BAD_VALUE
    if options == 1:
        documents = 0
        for c in range(columns.shape[0]):
            documents += columns[c, C_JSON]
        at += (documents + 7) >> 3
    return at if at <= end else CUT_SHORT


@njit(**KERNEL)
def count_part(buffer: Bytes, event: Ints, columns: npt.NDArray[np.int64], part: Ints, most_bytes: int) -> int:
    """Count row changes of one rows event from a place on, until its end or so many bytes are behind.

    Args:
        buffer: raw events.
        event: R_… line of the event.
        columns: C_… lines of the table's columns.
        part: offset to go on from, 0 to begin; set to the one to go on from next, 0 at the event's end.
        most_bytes: how far to go; a row is counted as a whole.

    Returns:
        The number of row changes, or a fault.
    """
    frame = np.zeros(F_WIDTH, dtype=np.int64)
    base = address_of(buffer)
    end = base + event[R_END]
    fault = read_frame(base + event[R_AT], end, event[R_TYPE], columns.shape[0], frame)
    if fault < 0:
        return fault
    at = frame[F_ROWS] if part[0] == 0 else base + part[0]
    stop = min(end, at + most_bytes)
    count = 0
    while at < stop:
        for image in range(frame[F_IMAGES]):
            if image == 1 and event[R_TYPE] == 39:
                at = skip_options(at, end, columns)
                if at < 0:
                    return at
            bitmap = frame[F_BITMAP] if image == 0 else frame[F_BITMAP2]
            present = frame[F_PRESENT] if image == 0 else frame[F_PRESENT2]
            at = _skip_image(at, end, bitmap, present, address_of(columns), columns.shape[0])
            if at < 0:
                return at
        count += 1
    part[0] = at - base if at < end else 0
    return count


@njit(**KERNEL)
def count_rows(buffer: Bytes, event: Ints, columns: npt.NDArray[np.int64]) -> int:
    """Return the number of row changes in one rows event, or a fault.

    Args:
        buffer: raw events.
        event: R_… line of the event.
        columns: C_… lines of the table's columns.
    """
    part = np.zeros(1, dtype=np.int64)
    return count_part(buffer, event, columns, part, event[R_END] - event[R_AT])
