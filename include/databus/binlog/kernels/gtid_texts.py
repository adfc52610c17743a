"""The texts of MySQL GTIDs, a whole column at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.memory import KERNEL, Bytes

MOST_BYTES = 36 + 1 + 20
"""Of one text."""

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8).copy()


@njit(**KERNEL)
def write_mysql_gtids(
    sources: npt.NDArray[np.uint8], numbers: npt.NDArray[np.int64], offsets: npt.NDArray[np.int32], text: Bytes
) -> None:
    """Write "uuid:number" for each line, end to end.

    Args:
        sources: uint8[n, 16], server uuids.
        numbers: int64[n], not negative.
        offsets: int32[n + 1], target: where each text begins.
        text: target of MOST_BYTES per line.
    """
    at = 0
    offsets[0] = 0
    for i in range(len(numbers)):
        for b in range(16):
            if b == 4 or b == 6 or b == 8 or b == 10:
                text[at] = 45  # "-"
                at += 1
            text[at] = _HEX[sources[i, b] >> 4]
            text[at + 1] = _HEX[sources[i, b] & 15]
            at += 2
        text[at] = 58  # ":"
        at += 1
        left, digits = numbers[i], 1
        while left >= 10:
            left //= 10
            digits += 1
        left = numbers[i]
        for d in range(digits - 1, -1, -1):
            text[at + d] = 48 + left % 10
            left //= 10
        at += digits
        offsets[i + 1] = at
