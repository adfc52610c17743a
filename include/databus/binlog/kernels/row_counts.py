"""Row changes per rows event, without decoding them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.images import count_rows
from databus.binlog.kernels.memory import KERNEL, Bytes, Ints
from databus.binlog.kernels.walk import R_SLOT


@njit(**KERNEL)
def count_events(
    buffer: Bytes,
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    counts: Ints,
) -> int:
    """Count the row changes of each rows event into `counts`; events of tables that are not captured (slot −1) count 0.

    Args:
        buffer: raw events.
        rows: R_… lines.
        columns: C_… lines of all captured tables, one table after the other.
        places: per slot the first line in `columns` and the number of lines.
        counts: filled with one number per event.

    Returns:
        −1, or the index of an event that cannot be counted, with the fault in `counts` there.
    """
    for e in range(rows.shape[0]):
        slot = rows[e, R_SLOT]
        if slot < 0:
            counts[e] = 0
            continue
        first = places[slot, 0]
        counts[e] = count_rows(buffer, rows[e], columns[first : first + places[slot, 1]])
        if counts[e] < 0:
            return e
    return -1
