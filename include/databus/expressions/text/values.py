"""Arguments of kernels: columns and constants, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.rows.columns import view

Value: TypeAlias = pa.Array | pa.Scalar
"""An argument or a result: a column, or a constant where all arguments are."""


def is_constant(value: Value) -> bool:
    """Return whether an argument is the same for all rows."""
    return isinstance(value, pa.Scalar)


def rowwise(kind: pa.DataType, function: Callable[..., Any], *arguments: Value) -> Value:
    """Return a Python function of each row's values; NULL where one of them is NULL.

    Args:
        kind: Arrow type of the result.
        function: takes one value for each argument; None is NULL.
        arguments: columns of one length, and constants.
    """
    rows = [len(each) for each in arguments if isinstance(each, pa.Array)]
    if not rows:
        values = [each.as_py() for each in arguments]
        return pa.scalar(None if None in values else function(*values), kind)
    if any(isinstance(each, pa.Scalar) and not each.is_valid for each in arguments):
        return pa.nulls(rows[0], kind)
    if len(arguments) == 1:
        return pa.array([None if value is None else function(value) for value in python_values(arguments[0])], kind)
    if len(rows) == 1:
        return _over_one_column(kind, function, arguments)
    columns: list[Iterable[Any]] = [
        python_values(each) if isinstance(each, pa.Array) else repeat(each.as_py(), rows[0]) for each in arguments
    ]
    found = (None if any(v is None for v in row) else function(*row) for row in zip(*columns, strict=True))
    return pa.array(found, kind, size=rows[0])


def _over_one_column(kind: pa.DataType, function: Callable[..., Any], arguments: tuple[Value, ...]) -> pa.Array:
    place = next(k for k, each in enumerate(arguments) if isinstance(each, pa.Array))
    before = [each.as_py() for each in arguments[:place]]
    after = [each.as_py() for each in arguments[place + 1 :]]
    values = python_values(arguments[place])
    return pa.array([None if v is None else function(*before, v, *after) for v in values], kind)


def python_values(column: pa.Array) -> list[Any]:
    """Return a column's values; texts and bytes come four times as fast as by `to_pylist`."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return list(column.to_numpy(zero_copy_only=False))
    return list(column.to_pylist())


def as_column(value: Value) -> pa.Array:
    """Return a value as a column; a constant is one row."""
    return value if isinstance(value, pa.Array) else pa.array([value.as_py()], value.type)


def like_arguments(result: pa.Array, *arguments: Value) -> Value:
    """Return a result as a constant where all arguments are."""
    return result if any(isinstance(each, pa.Array) for each in arguments) else result[0]


def text_buffers(column: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return (int32[rows + 1] offsets, bytes) of a column of texts or bytes; NULLs may have any bytes."""
    _, offsets, data = column.buffers()
    found = view(offsets, np.int32, len(column) + 1, column.offset * 4)
    return found, view(data if data is not None and data.size else bytes(1), np.uint8)


def is_ascii(column: pa.Array) -> bool:
    """Return whether all texts of a column are of ASCII characters alone."""
    if not len(column):
        return True
    offsets, data = text_buffers(column)
    return not (data[offsets[0] : offsets[-1]] & 0x80).any()


def fixed_width_texts(digits: bytes | np.ndarray[Any, Any], width: int, like: pa.Array) -> pa.Array:
    """Return texts of one width from their characters; NULL where `like` is."""
    rows = len(like)
    offsets = np.arange(0, width * (rows + 1), width, dtype=np.int32) if width else np.zeros(rows + 1, np.int32)
    valid = None
    if like.null_count:
        valid = pa.py_buffer(np.packbits(pc.is_valid(like).to_numpy(zero_copy_only=False), bitorder="little"))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(digits), valid)
