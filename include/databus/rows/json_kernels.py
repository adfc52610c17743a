"""Numba kernels that put JSON literals together: images from columns, envelopes from pieces.

`sizes` and `positions` are int64[columns, rows]: bytes of a literal, later the place where it begins; -1 where the row
has no such field. `state` is int8[rows]: ABSENT, NULL or VALUE, as in `variant_kernels`. Callers pass arrays that fit
one another: nothing here checks bounds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.memory import KERNEL, copy_bytes
from databus.rows.columns import Bytes, Ints
from databus.rows.variant.kernels import ABSENT, VALUE, State

Offsets = npt.NDArray[np.int32]
Valid = npt.NDArray[np.bool_]

NULL_TEXT = np.frombuffer(b"null", np.uint8)


@njit(**KERNEL)
def measure_literals(offsets: Offsets, state: State, sizes: Ints) -> None:
    """Measure a column of literals: NULL takes the four bytes of `null`."""
    for i in range(state.size):
        if state[i] == VALUE:
            sizes[i] = np.int64(offsets[i + 1]) - offsets[i]
        else:
            sizes[i] = -1 if state[i] == ABSENT else 4


@njit(**KERNEL)
def measure_objects(sizes: Ints, label_offsets: Ints) -> Ints:
    """Return int64[rows + 1], the offsets of the objects: braces, labels, commas, literals."""
    columns, rows = sizes.shape
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    for i in range(rows):
        total = np.int64(2)
        fields = 0
        for c in range(columns):
            if sizes[c, i] >= 0:
                total += sizes[c, i] + label_offsets[c + 1] - label_offsets[c]
                fields += 1
        offsets[i + 1] = offsets[i] + total + max(0, fields - 1)
    return offsets


@njit(**KERNEL)
def write_labels(
    sizes: Ints, labels: Bytes, label_offsets: Ints, offsets: Ints, start: int, stop: int, out: Bytes
) -> None:
    """Write braces, commas and labels of the rows [start, stop); turns their `sizes` into positions in place."""
    columns = sizes.shape[0]
    for i in range(start, stop):
        p = offsets[i]
        out[p] = 123  # {
        p += 1
        first = True
        for c in range(columns):
            size = sizes[c, i]
            if size < 0:
                continue
            if not first:
                out[p] = 44  # ,
                p += 1
            first = False
            length = label_offsets[c + 1] - label_offsets[c]
            copy_bytes(out, p, labels, label_offsets[c], length)
            p += length
            sizes[c, i] = p
            p += size
        out[p] = 125  # }


@njit(**KERNEL)
def write_literals(
    offsets: Offsets, data: Bytes, state: State, null: Bytes, positions: Ints, start: int, stop: int, out: Bytes
) -> None:
    """Write the literals of the rows [start, stop) at their positions."""
    for i in range(start, stop):
        if state[i] == VALUE:
            copy_bytes(out, positions[i], data, offsets[i], np.int64(offsets[i + 1]) - offsets[i])
        elif state[i] != ABSENT:
            copy_bytes(out, positions[i], null, 0, 4)


@njit(**KERNEL)
def gather(data: Bytes, starts: Ints, where: Offsets, out: Bytes) -> None:
    """Copy chosen values back to back: value i begins at starts[i] and goes to out[where[i]:where[i + 1]]."""
    for i in range(starts.size):
        copy_bytes(out, where[i], data, starts[i], np.int64(where[i + 1]) - where[i])


@njit(**KERNEL)
def add_lengths(offsets: Offsets, index: Offsets, valid: Valid, lengths: Ints) -> None:
    """Add the length of each row's value: number index[i], or i where `index` is empty; four for `null`."""
    for i in range(lengths.size):
        j = index[i] if index.size else i
        lengths[i] += np.int64(offsets[j + 1]) - offsets[j] if valid.size == 0 or valid[j] else 4


@njit(**KERNEL)
def put_values(
    offsets: Offsets,
    data: Bytes,
    index: Offsets,
    valid: Valid,
    null: Bytes,
    cursor: Ints,
    start: int,
    stop: int,
    out: Bytes,
) -> None:
    """Write each row's value, or `null`, at its cursor, and move the cursor past it."""
    for i in range(start, stop):
        j = index[i] if index.size else i
        p = cursor[i]
        if valid.size == 0 or valid[j]:
            size = np.int64(offsets[j + 1]) - offsets[j]
            copy_bytes(out, p, data, offsets[j], size)
            cursor[i] = p + size
        else:
            copy_bytes(out, p, null, 0, 4)
            cursor[i] = p + 4


@njit(**KERNEL)
def put_constant(text: Bytes, cursor: Ints, start: int, stop: int, out: Bytes) -> None:
    """Write the same bytes at each row's cursor, and move the cursor past them."""
    for i in range(start, stop):
        copy_bytes(out, cursor[i], text, 0, text.size)
        cursor[i] += text.size
