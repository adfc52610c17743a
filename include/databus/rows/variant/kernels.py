"""Numba kernels of the VARIANT encoder: each column is measured, the rows are laid out, then each column is written.

Format: https://github.com/apache/parquet-format/blob/master/VariantEncoding.md (value encoding, version 1). A header
byte is `type_info << 2 | basic_type`; basic types: 0 primitive, 1 short string, 2 object. Integers are little-endian.

`sizes` and `positions` are int64[columns, rows]: bytes of a value, later the place where it begins; -1 where the row
has no such field. `state` is int8[rows]: ABSENT, NULL or VALUE.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.rows.columns import Bytes, Ints

ABSENT, NULL, VALUE = 0, 1, 2

_NULL_HEADER = 0 << 2
_INT8, _INT16, _INT32, _INT64 = 3 << 2, 4 << 2, 5 << 2, 6 << 2
_DECIMAL4, _DECIMAL8, _DECIMAL16 = 8 << 2, 9 << 2, 10 << 2
BINARY_HEADER, STRING_HEADER = 15 << 2, 16 << 2
FLOAT_HEADER, DOUBLE_HEADER = 14 << 2, 7 << 2
_LONGEST_SHORT_STRING = 63

State = npt.NDArray[np.int8]


@njit(cache=True, nogil=True)
def _int_bytes(value: int) -> int:
    if -0x80 <= value <= 0x7F:
        return 1
    if -0x8000 <= value <= 0x7FFF:
        return 2
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return 4
    return 8


@njit(cache=True, nogil=True)
def _put_le(out: Bytes, p: int, value: int, width: int) -> None:
    for k in range(width):
        out[p + k] = (value >> (8 * k)) & 0xFF


@njit(cache=True, nogil=True)
def _put_int(out: Bytes, p: int, value: int) -> None:
    width = _int_bytes(value)
    if width == 1:
        out[p] = _INT8
        out[p + 1] = value & 0xFF
    elif width == 2:
        out[p] = _INT16
        _put_le(out, p + 1, value, 2)
    elif width == 4:
        out[p] = _INT32
        _put_le(out, p + 1, value, 4)
    else:
        out[p] = _INT64
        _put_le(out, p + 1, value, 8)


@njit(cache=True, nogil=True)
def measure_fixed(state: State, width: int, sizes: Ints) -> None:
    """Measure a column whose values all take `width` bytes."""
    for i in range(state.size):
        if state[i] == VALUE:
            sizes[i] = width
        else:
            sizes[i] = 1 if state[i] == NULL else -1


@njit(cache=True, nogil=True)
def measure_ints(values: Ints, state: State, sizes: Ints) -> None:
    """Measure signed integers, each in the narrowest of 1, 2, 4, 8 bytes."""
    for i in range(state.size):
        if state[i] == VALUE:
            sizes[i] = 1 + _int_bytes(values[i])
        else:
            sizes[i] = 1 if state[i] == NULL else -1


@njit(cache=True, nogil=True)
def write_ints(values: Ints, state: State, positions: Ints, out: Bytes) -> None:
    """Write signed integers."""
    for i in range(state.size):
        if state[i] == VALUE:
            _put_int(out, positions[i], values[i])
        elif state[i] == NULL:
            out[positions[i]] = _NULL_HEADER


@njit(cache=True, nogil=True)
def measure_unsigned(values: Ints, state: State, sizes: Ints) -> None:
    """Measure unsigned 64-bit integers given by their bits: above 2^63 - 1 they become decimal(20, 0)."""
    for i in range(state.size):
        if state[i] == VALUE:
            sizes[i] = 1 + _int_bytes(values[i]) if values[i] >= 0 else 18
        else:
            sizes[i] = 1 if state[i] == NULL else -1


@njit(cache=True, nogil=True)
def write_unsigned(values: Ints, state: State, positions: Ints, out: Bytes) -> None:
    """Write unsigned 64-bit integers given by their bits."""
    for i in range(state.size):
        p = positions[i]
        if state[i] == VALUE:
            if values[i] >= 0:
                _put_int(out, p, values[i])
            else:
                out[p] = _DECIMAL16
                out[p + 1] = 0
                _put_le(out, p + 2, values[i], 8)
                _put_le(out, p + 10, 0, 8)
        elif state[i] == NULL:
            out[p] = _NULL_HEADER


@njit(cache=True, nogil=True)
def _decimal_width(low: int, high: int, scale: int) -> int:
    # Readers refuse a 4-byte decimal of more than 9 digits or scale above 9, an 8-byte one above 18.
    if high == low >> 63:
        if scale <= 9 and -1_000_000_000 < low < 1_000_000_000:
            return 4
        if scale <= 18 and -1_000_000_000_000_000_000 < low < 1_000_000_000_000_000_000:
            return 8
    return 16


@njit(cache=True, nogil=True)
def measure_decimals(words: Ints, scale: int, state: State, sizes: Ints) -> None:
    """Measure 128-bit decimals given as int64[rows, 2] (low, high), each in the narrowest of 4, 8, 16 bytes."""
    for i in range(state.size):
        if state[i] == VALUE:
            sizes[i] = 2 + _decimal_width(words[i, 0], words[i, 1], scale)
        else:
            sizes[i] = 1 if state[i] == NULL else -1


@njit(cache=True, nogil=True)
def write_decimals(words: Ints, scale: int, state: State, positions: Ints, out: Bytes) -> None:
    """Write 128-bit decimals given as int64[rows, 2] (low, high)."""
    for i in range(state.size):
        p = positions[i]
        if state[i] == VALUE:
            low, high = words[i, 0], words[i, 1]
            width = _decimal_width(low, high, scale)
            out[p + 1] = scale
            if width == 4:
                out[p] = _DECIMAL4
                _put_le(out, p + 2, low, 4)
            else:
                out[p] = _DECIMAL8 if width == 8 else _DECIMAL16
                _put_le(out, p + 2, low, 8)
                if width == 16:
                    _put_le(out, p + 10, high, 8)
        elif state[i] == NULL:
            out[p] = _NULL_HEADER


@njit(cache=True, nogil=True)
def write_floats(bits: Ints, width: int, header: int, state: State, positions: Ints, out: Bytes) -> None:
    """Write IEEE 754 numbers of 4 or 8 bytes given by their bits."""
    for i in range(state.size):
        p = positions[i]
        if state[i] == VALUE:
            out[p] = header
            if width == 8:
                _put_le(out, p + 1, bits[i], 8)
            else:
                _put_le(out, p + 1, bits[i], 4)
        elif state[i] == NULL:
            out[p] = _NULL_HEADER


@njit(cache=True, nogil=True)
def measure_bytes(offsets: npt.NDArray[np.int32], short: bool, state: State, sizes: Ints) -> None:
    """Measure strings (`short` allows the one-byte header up to 63 bytes) or binaries."""
    for i in range(state.size):
        if state[i] == VALUE:
            length = np.int64(offsets[i + 1]) - offsets[i]
            sizes[i] = length + (1 if short and length <= _LONGEST_SHORT_STRING else 5)
        else:
            sizes[i] = 1 if state[i] == NULL else -1


@njit(cache=True, nogil=True)
def write_bytes(
    offsets: npt.NDArray[np.int32], data: Bytes, header: int, state: State, positions: Ints, out: Bytes
) -> None:
    """Write strings or binaries, distinguished by `header`."""
    for i in range(state.size):
        p = positions[i]
        if state[i] == VALUE:
            start = np.int64(offsets[i])
            length = offsets[i + 1] - start
            if header == STRING_HEADER and length <= _LONGEST_SHORT_STRING:
                out[p] = length << 2 | 1
                p += 1
            else:
                out[p] = header
                _put_le(out, p + 1, length, 4)
                p += 5
            for k in range(length):
                out[p + k] = data[start + k]
        elif state[i] == NULL:
            out[p] = _NULL_HEADER


@njit(cache=True, nogil=True)
def _width_of(largest: int) -> int:
    if largest <= 0xFF:
        return 1
    if largest <= 0xFFFF:
        return 2
    if largest <= 0xFFFFFF:
        return 3
    return 4


@njit(cache=True, nogil=True)
def measure_rows(sizes: Ints) -> Any:
    """Return int64[rows + 1], the offsets of the encoded objects."""
    columns, rows = sizes.shape
    id_width = _width_of(columns - 1)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    for i in range(rows):
        data = 0
        fields = 0
        for c in range(columns):
            if sizes[c, i] >= 0:
                data += sizes[c, i]
                fields += 1
        head = 1 + (1 if fields <= 0xFF else 4) + fields * id_width + (fields + 1) * _width_of(data)
        offsets[i + 1] = offsets[i] + head + data
    return offsets


@njit(cache=True, nogil=True)
def write_heads(sizes: Ints, offsets: Ints, start: int, stop: int, out: Bytes) -> None:
    """Write header, field ids and field offsets of the rows [start, stop); turns their `sizes` into positions in place.

    Columns come in dictionary order, so that the ids ascend by name as readers expect.
    """
    columns = sizes.shape[0]
    id_width = _width_of(columns - 1)
    for i in range(start, stop):
        data = 0
        fields = 0
        for c in range(columns):
            if sizes[c, i] >= 0:
                data += sizes[c, i]
                fields += 1
        width = _width_of(data)
        large = fields > 0xFF
        p = offsets[i]
        out[p] = (large << 4 | (id_width - 1) << 2 | (width - 1)) << 2 | 2
        _put_le(out, p + 1, fields, 4 if large else 1)
        ids = p + (5 if large else 2)
        places = ids + fields * id_width
        values = places + (fields + 1) * width
        at = 0
        for c in range(columns):
            size = sizes[c, i]
            if size >= 0:
                _put_le(out, ids, c, id_width)
                ids += id_width
                _put_le(out, places, at, width)
                places += width
                sizes[c, i] = values + at
                at += size
        _put_le(out, places, at, width)


@njit(cache=True, nogil=True)
def gather(data: Bytes, starts: Ints, where: npt.NDArray[np.int32]) -> Bytes:
    """Copy chosen values back to back: value i begins at starts[i] and goes to out[where[i]:where[i + 1]]."""
    out = np.empty(where[-1], np.uint8)
    for i in range(starts.size):
        to = np.int64(where[i])
        for k in range(where[i + 1] - to):
            out[to + k] = data[starts[i] + k]
    return out
