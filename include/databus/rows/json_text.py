"""Columns as JSON literals, byte for byte what `json.dumps(…, ensure_ascii=False)` writes for the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from databus.binlog.kernels.memory import copy_bytes
from databus.core.errors.source import DecodeError
from databus.core.tables.schemas import ColumnSchema
from databus.rows.columns import Bytes, string_array, text, validity
from databus.rows.temporal import is_temporal, iso_text

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHORT_ESCAPES = np.zeros(128, np.uint8)
for _character, _escape in {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}.items():
    _SHORT_ESCAPES[ord(_character)] = ord(_escape)

_LARGEST_PLAIN_SCALE = 6


def json_literals(array: pa.Array, column: ColumnSchema) -> pa.StringArray:
    """Return each value as a JSON literal: numbers bare, text and temporals quoted, binary in base64; nulls stay null.

    Raises:
        DecodeError: a column type that cannot stand in a key.
    """
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return array.cast(pa.string())
    if pa.types.is_decimal128(kind):
        return _decimals(array)
    if is_temporal(kind):
        return quoted(iso_text(array, column))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return quoted(array)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        valid = validity(array)
        where, data = _base64(*text(array), _BASE64)
        return string_array(where, data, valid)
    if pa.types.is_floating(kind):
        return array.cast(pa.string())
    raise DecodeError(f"key column {column.name} has the Arrow type {kind}, which has no JSON form")


def quoted(array: pa.Array) -> pa.StringArray:
    """Return a text column as JSON strings."""
    where, data = _quote(*text(array), _SHORT_ESCAPES, _HEX)
    return string_array(where, data, validity(array))


def _decimals(array: pa.Array) -> pa.StringArray:
    # Arrow goes over to exponents where the first digit stands past the sixth decimal place.
    if array.type.scale <= _LARGEST_PLAIN_SCALE:
        return array.cast(pa.string())
    return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], pa.string())


@njit(cache=True, nogil=True)
def _quote(offsets: npt.NDArray[np.int32], data: Bytes, escapes: Bytes, digits: Bytes) -> Any:
    n = offsets.size - 1
    plain = np.ones(n, np.bool_)
    total = 2 * n + np.int64(offsets[n]) - offsets[0]
    # A column in which no value wants an escape, as most are, is looked at as one text.
    for i in range(n if _wants_escapes(data[offsets[0] : offsets[n]]) else 0):
        value = data[offsets[i] : offsets[i + 1]]
        if not _wants_escapes(value):
            continue
        plain[i] = False
        for k in range(value.size):
            if value[k] < 32:
                total += 1 if escapes[value[k]] else 5
            else:
                total += (value[k] == 34) | (value[k] == 92)
    out = np.empty(total, np.uint8)
    where = np.empty(n + 1, np.int32)
    p = 0
    for i in range(n):
        where[i] = p
        out[p] = 34
        p += 1
        if plain[i]:
            size = np.int64(offsets[i + 1]) - offsets[i]
            copy_bytes(out, p, data, offsets[i], size)  # type: ignore[call-arg] # numba passes the context
            p += size
        else:
            p = _put_escaped(data[offsets[i] : offsets[i + 1]], escapes, digits, out, p)
        out[p] = 34
        p += 1
    where[n] = p
    return where, out


@njit(cache=True, nogil=True)
def _wants_escapes(value: Bytes) -> bool:
    """Return whether JSON wants any byte of a text escaped; without a branch, so that many are compared at once."""
    found = False
    for k in range(value.size):
        found = found | (value[k] == 34) | (value[k] == 92) | (value[k] < 32)
    return found


@njit(cache=True, nogil=True)
def _put_escaped(value: Bytes, escapes: Bytes, digits: Bytes, out: Bytes, p: int) -> int:
    """Write a text with what JSON wants escaped (RFC 8259, 7); return the position after it."""
    for k in range(value.size):
        c = value[k]
        if c >= 32 and c not in (34, 92):
            out[p] = c
            p += 1
            continue
        out[p] = 92
        if escapes[c]:
            out[p + 1] = escapes[c]
            p += 2
        else:
            out[p + 1] = 117
            out[p + 2] = 48
            out[p + 3] = 48
            out[p + 4] = digits[c >> 4]
            out[p + 5] = digits[c & 15]
            p += 6
    return p


@njit(cache=True, nogil=True)
def _base64(offsets: npt.NDArray[np.int32], data: Bytes, alphabet: Bytes) -> Any:
    n = offsets.size - 1
    where = np.empty(n + 1, np.int32)
    where[0] = 0
    for i in range(n):
        where[i + 1] = where[i] + 2 + (offsets[i + 1] - offsets[i] + 2) // 3 * 4
    out = np.empty(where[n], np.uint8)
    for i in range(n):
        p = np.int64(where[i])
        out[p] = 34
        p += 1
        k = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        while k < end:
            word = np.int64(data[k]) << 16
            if k + 1 < end:
                word |= np.int64(data[k + 1]) << 8
            if k + 2 < end:
                word |= np.int64(data[k + 2])
            out[p] = alphabet[word >> 18]
            out[p + 1] = alphabet[word >> 12 & 63]
            out[p + 2] = alphabet[word >> 6 & 63] if k + 1 < end else 61
            out[p + 3] = alphabet[word & 63] if k + 2 < end else 61
            p += 4
            k += 3
        out[p] = 34
    return where, out
