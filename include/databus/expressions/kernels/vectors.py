"""Vectors of a kernel: NumPy values and validity of Arrow columns, and the way back.

A kernel's function sees whole arrays, also the undefined values under NULLs. It marks the rows where Spark fails; an
error is raised only for a row whose arguments are all there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.expressions.errors import ExpressionError
from databus.expressions.functions.registry import Kernel, Value

Vector = npt.NDArray[Any]

_STORED: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_date32, pa.int32()),
    (pa.types.is_timestamp, pa.int64()),
)

_MESSAGES = {
    "ARITHMETIC_OVERFLOW": "a result overflows its type",
    "CAST_INVALID_INPUT": "a value cannot be cast to the type",
    "CAST_OVERFLOW": "a value cannot be held by the type it is cast to",
    "DATETIME_FIELD_OUT_OF_BOUNDS": "a date or time has no such field",
    "java.lang.ArithmeticException": "a time overflows 64 bits",
    "DIVIDE_BY_ZERO": "division by zero",
    "REMAINDER_BY_ZERO": "remainder by zero",
}


@dataclass(frozen=True)
class RowValues:
    """Values of a kernel.

    Attributes:
        values: one each row; undefined where NULL.
        null: rows that are NULL although their arguments are not.
        failures: error class of Spark → rows that raise it.
    """

    values: Vector
    null: Vector | None = None
    failures: Mapping[str, Vector] = field(default_factory=dict)


def vectorized(
    function: Callable[..., Vector | RowValues], kind: pa.DataType, *, fails: bool = True, keeps_null: bool = True
) -> Kernel:
    """Return the kernel of a function over NumPy arrays.

    Args:
        function: values of each argument, all of one length → values of the result.
        kind: Arrow type of the result.
        fails: whether a failure is raised; otherwise it is NULL, as the `try_` functions have it.
        keeps_null: whether a NULL argument makes the result NULL; otherwise the function takes the validities of the
            arguments after their values.

    Raises:
        ExpressionError: by the kernel, for the first failure in `RowValues.failures` that a row has.
    """

    def kernel(*columns: Value) -> Value:
        rows = next((len(each) for each in columns if isinstance(each, pa.Array)), None)
        length = 1 if rows is None else rows
        vectors = [_vector(each, length) for each in columns]
        valid = np.ones(length, np.bool_)
        if keeps_null:
            for _, there in vectors:
                valid &= there
        arguments = [values for values, _ in vectors]
        if not keeps_null:
            arguments += [there for _, there in vectors]
        with np.errstate(all="ignore"):
            made = function(*arguments)
        outcome = made if isinstance(made, RowValues) else RowValues(made)
        if outcome.null is not None:
            valid &= ~outcome.null
        for error, failed in outcome.failures.items():
            reached = failed & valid
            if reached.any():
                if fails:
                    raise ExpressionError(error, _MESSAGES.get(error, "a value is out of range"))
                valid &= ~reached
        array = arrow(outcome.values, valid, kind)
        return array if rows is not None else array[0]

    return kernel


def arrow(values: Vector, valid: Vector, kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow array, NULL where not valid."""
    mask = None if valid.all() else ~valid
    stored = next((stored for matches, stored in _STORED if matches(kind)), None)
    if stored is not None:
        return pa.array(values, stored, mask=mask).view(kind)
    return pa.array(values, kind, mask=mask)


def numbers(array: pa.Array) -> tuple[Vector, Vector]:
    """Return the values of a column (0 where NULL) and its validity; dates are days, timestamps microseconds."""
    stored = next((stored for matches, stored in _STORED if matches(array.type)), None)
    if stored is not None:
        array = array.view(stored)
    if array.null_count == 0:
        return array.to_numpy(zero_copy_only=False), np.ones(len(array), np.bool_)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return array.fill_null(False if pa.types.is_boolean(array.type) else 0).to_numpy(zero_copy_only=False), valid


def one(value: pa.Scalar) -> pa.Array:
    """Return a constant as an array of one."""
    return pa.repeat(value, 1) if value.is_valid else pa.nulls(1, value.type)


def row_wise(function: Callable[..., Any], kind: pa.DataType, *, fails: bool = True) -> Kernel:
    """Return the kernel of a function over Python values, one row at a time.

    Args:
        function: the row's values, none of them None → value or None; it raises ExpressionError.
        kind: Arrow type of the result.
        fails: whether its error is raised; otherwise it is NULL.
    """

    def kernel(*columns: Value) -> Value:
        rows = next((len(each) for each in columns if isinstance(each, pa.Array)), None)
        lists = [_values(each, 1 if rows is None else rows) for each in columns]
        made = pa.array([_called(function, row, fails) for row in zip(*lists, strict=True)], kind)
        return made if rows is not None else made[0]

    return kernel


def _called(function: Callable[..., Any], row: Sequence[Any], fails: bool) -> Any:
    if any(value is None for value in row):
        return None
    try:
        return function(*row)
    except ExpressionError:
        if fails:
            raise
        return None


def _vector(column: Value, length: int) -> tuple[Vector, Vector]:
    if isinstance(column, pa.Array):
        return numbers(column)
    values, valid = numbers(one(column))
    return np.broadcast_to(values, length), np.broadcast_to(valid, length)


def _values(column: Value, length: int) -> list[Any]:
    return column.to_pylist() if isinstance(column, pa.Array) else [column.as_py()] * length
