"""Positions of the values in one row image, for what is done row by row outside kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.images import C_META, C_SIZE, CUT_SHORT, value_bytes
from databus.binlog.kernels.memory import KERNEL, Bytes
from databus.binlog.kernels.pointers import address_of, bit

ABSENT, NULL = -1, -2


@njit(**KERNEL)
def locate_values(
    buffer: Bytes, at: int, end: int, bitmap: int, columns: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
) -> int:
    """Write (start, end) of each value of the image at an offset to `places`; ABSENT or NULL where there is none.

    Args:
        buffer: events.
        at: offset of the image.
        end: offset after its event.
        bitmap: offset of the columns present.
        columns: C_… lines.
        places: int64[columns, 2], target.

    Returns:
        The offset after the image, or a fault.
    """
    base = address_of(buffer)
    count = columns.shape[0]
    present = 0
    for c in range(count):
        present += bit(base + bitmap, c)
    nulls = at
    at += (present + 7) >> 3
    if at > end:
        return CUT_SHORT
    seen = 0
    for c in range(count):
        places[c, 0] = places[c, 1] = ABSENT
        if bit(base + bitmap, c):
            places[c, 0] = places[c, 1] = NULL
            if bit(base + nulls, seen) == 0:
                size = value_bytes(base + at, base + end, columns[c, C_SIZE], columns[c, C_META])
                if size < 0:
                    return size  # type: ignore[no-any-return]
                places[c, 0] = at
                at += size
                places[c, 1] = at
            seen += 1
    return at
