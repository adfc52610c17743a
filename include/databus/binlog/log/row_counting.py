"""Row changes per rows event; those of a large event window by window, so that it need not be in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels import images, row_counts
from databus.binlog.kernels.walk import LARGE_BYTES, R_AT, R_END, R_SLOT
from databus.binlog.log.mapped import WINDOW_BYTES, release

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def count_events(buffer: Bytes, rows: Ints, columns: Ints, places: Ints, counts: Ints) -> int:
    """Count the row changes of each rows event into `counts`; arguments and result are those of the kernel's."""
    large = np.flatnonzero((rows[:, R_END] - rows[:, R_AT] > LARGE_BYTES) & (rows[:, R_SLOT] >= 0))
    if not len(large):
        return int(row_counts.count_events(buffer, rows, columns, places, counts))
    small = rows.copy()
    small[large, R_SLOT] = -1
    bad = int(row_counts.count_events(buffer, small, columns, places, counts))
    for number in large.tolist():
        if 0 <= bad < number:
            break
        first, lines = places[rows[number, R_SLOT]].tolist()
        counts[number] = count_rows(buffer, rows[number], columns[first : first + lines])
        if counts[number] < 0:
            return int(number)
    return bad


def count_rows(buffer: Bytes, event: Ints, columns: Ints) -> int:
    """Return the number of row changes in one rows event, or a fault; arguments are those of the kernel's."""
    if event[R_END] - event[R_AT] <= LARGE_BYTES:
        return int(images.count_rows(buffer, event, columns))
    part, total = np.zeros(1, np.int64), 0
    while True:
        at = max(int(part[0]), int(event[R_AT]))
        count = int(images.count_part(buffer, event, columns, part, WINDOW_BYTES))
        release(buffer[at : int(part[0]) or int(event[R_END])])
        if count < 0:
            return count
        total += count
        if not part[0]:
            return total
