"""JSON as the server writes it, without the blanks between its values, a whole column at once.

The log's documents come out without blanks, and with doubles as Python's `repr`; the server puts a blank behind each
comma and colon. Doubles whose text differs are rare: rows that may have one are marked and left to
`databus.binlog.values.json_sent`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.memory import KERNEL, Bytes
from databus.binlog.kernels.pointers import address_of, load_8, store_8

_QUOTE, _BACKSLASH, _BLANK, _ZERO, _NINE, _POINT, _E = 34, 92, 32, 48, 57, 46, 101


@njit(**KERNEL)
def write_without_blanks(
    data: Bytes, offsets: npt.NDArray[np.int32], text: Bytes, text_offsets: npt.NDArray[np.int32], marked: Bytes
) -> int:
    """Copy the texts of all rows without blanks outside of strings.

    Args:
        data: texts as sent.
        offsets: int32[rows + 1], where each begins.
        text: target, as large as the data.
        text_offsets: int32[rows + 1], target; the first is 0.
        marked: uint8[rows], target: 1 for a row with a number that has an exponent, or none before four zeros.

    Returns:
        How many rows are marked.
    """
    base, to = address_of(data), address_of(text)
    first = to
    found = 0
    for row in range(offsets.shape[0] - 1):
        marked[row] = 0
        at, end = base + offsets[row], base + offsets[row + 1]
        inside = False
        zeros = -1  # behind the point of a number that begins with one zero
        before = _BLANK
        while at < end:
            byte = load_8(at)
            at += 1
            if inside:
                if byte == _BACKSLASH and at < end:
                    store_8(to, byte)
                    to += 1
                    byte = load_8(at)
                    at += 1
                elif byte == _QUOTE:
                    inside = False
            elif byte == _BLANK:
                before = byte
                continue
            elif byte == _QUOTE:
                inside = True
            else:
                digit = before >= _ZERO and before <= _NINE
                if byte == _E and digit:
                    marked[row] = 1
                if byte == _POINT:
                    zeros = 0 if before == _ZERO else -1
                elif byte == _ZERO and zeros >= 0:
                    zeros += 1
                    if zeros == 4:
                        marked[row] = 1
                else:
                    zeros = -1
            before = byte
            store_8(to, byte)
            to += 1
        text_offsets[row + 1] = to - first
        found += marked[row]
    return found
