"""Spark's `hash` and `xxhash64` of any columns."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.text.values import Value, like_arguments, text_buffers

SEED = 42

_Name = Literal["murmur3", "xxhash64"]


def murmur3(*values: Value) -> Value:
    """Return Spark's 32-bit hash of rows, seed 42; NULLs add nothing, -0.0 is 0.0 and all NaNs are one."""
    return _hashed("murmur3", pa.int32(), np.uint32, values)


def xxhash64(*values: Value) -> Value:
    """Return Spark's 64-bit hash of rows, seed 42; NULLs add nothing, -0.0 is 0.0 and all NaNs are one."""
    return _hashed("xxhash64", pa.int64(), np.uint64, values)


def _hashed(name: _Name, kind: pa.DataType, width: Any, values: tuple[Value, ...]) -> Value:
    rows = max((len(each) for each in values if isinstance(each, pa.Array)), default=1)
    hashes = np.full(rows, SEED, width)
    for value in values:
        if value.type != pa.null():
            column = value if isinstance(value, pa.Array) else pa.repeat(value, rows)
            _take(name, column, hashes)
    return like_arguments(pa.array(hashes.view(kind.to_pandas_dtype()), kind), *values)


def _take(name: _Name, column: pa.Array, hashes: np.ndarray[Any, Any]) -> None:
    """Take a column into the hashes, in place."""
    from databus.expressions.text import row_hash_kernels as kernels

    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    kind = column.type
    if pa.types.is_decimal(kind) and kind.precision > 18:
        column = _unscaled_bytes(column)
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        getattr(kernels, f"{name}_of_bytes")(*text_buffers(column), valid, hashes)
        return
    numbers, size = _numbers(column)
    getattr(kernels, f"{name}_of_{size}")(numbers, valid, hashes)


def _numbers(column: pa.Array) -> tuple[np.ndarray[Any, Any], str]:
    """Return (int64 values, "ints" or "longs") as Spark hashes a column; NULLs may be any number."""
    kind = column.type
    if pa.types.is_floating(kind):
        values = np.array(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False))
        values[values == 0] = 0.0
        values[np.isnan(values)] = np.nan
        bits = values.view(np.int32 if kind == pa.float32() else np.int64)
        return bits.astype(np.int64), "ints" if kind == pa.float32() else "longs"
    if pa.types.is_decimal(kind):
        unscaled = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), column.offset * 16)[::2]
        return np.ascontiguousarray(unscaled), "longs"
    short = pa.types.is_boolean(kind) or pa.types.is_date(kind) or (pa.types.is_integer(kind) and kind.bit_width <= 32)
    plain = column.cast(pa.int32()) if short else column.cast(pa.int64())
    return pc.fill_null(plain, 0).to_numpy(zero_copy_only=False).astype(np.int64), "ints" if short else "longs"


def _unscaled_bytes(column: pa.Array) -> pa.Array:
    """Return decimals as the shortest two's complement, big-endian, of their digits (Java's `toByteArray`)."""
    raw = column.buffers()[1].to_pybytes()[column.offset * 16 : (column.offset + len(column)) * 16]
    valid = pc.is_valid(column).to_pylist()
    return pa.array(
        [
            _shortest(int.from_bytes(raw[16 * k : 16 * k + 16], "little", signed=True)) if v else None
            for k, v in enumerate(valid)
        ],
        pa.binary(),
    )


def _shortest(number: int) -> bytes:
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
