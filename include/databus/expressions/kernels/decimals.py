"""Decimals of up to 38 digits, computed in 76 so that every rounding and overflow is seen."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import ExpressionError
from databus.expressions.functions.registry import Kernel, Value
from databus.expressions.kernels.vectors import Vector, numbers, one

HALF_UP: Final = "half_towards_infinity"
HALF_EVEN: Final = "half_to_even"
DOWN: Final = "towards_zero"
OUT_OF_RANGE: Final = "NUMERIC_VALUE_OUT_OF_RANGE"
_EXACT = Context(prec=2_000, Emax=10**12, Emin=-(10**12))
_WIDE = 76
_MOST = 38
_SMALL_DIGITS = 15
"""Digits that a double, and so a small decimal, has for certain."""


def on_array(function: Callable[[pa.Array], pa.Array]) -> Kernel:
    """Return the kernel of a function over one array; a constant is an array of one."""

    def kernel(column: Value) -> Value:
        if isinstance(column, pa.Array):
            return function(column)
        return function(one(column))[0]

    return kernel


def rescaled(
    digits: int, scale: int, *, mode: str = HALF_UP, fails: bool = True, error: str = OUT_OF_RANGE
) -> Callable[[pa.Array], pa.Array]:
    """Return the function from decimals to decimals of other digits.

    Args:
        digits: all digits of the result.
        scale: those after the point.
        mode: Arrow's name of the rounding.
        fails: whether a value that the digits cannot hold is an error; otherwise it is NULL.
        error: class of that error.
    """

    def rescale(values: pa.Array) -> pa.Array:
        kind = values.type
        if kind.scale <= scale and digits - scale >= kind.precision - kind.scale:
            return values.cast(pa.decimal128(digits, scale))
        if mode == HALF_UP and (found := _rounded_small(values, digits, scale)) is not None:
            return found
        wide = rounded_wide(values, scale, mode)
        return narrowed(wide, digits, scale, fails=fails, error=error)

    return rescale


def _rounded_small(values: pa.Array, digits: int, scale: int) -> pa.Array | None:
    """Return decimals rounded half up to fewer digits after the point, None unless all are small and fit."""
    dropped = values.type.scale - scale
    if not 0 < dropped <= _SMALL_DIGITS or not len(values):
        return None
    units, exact, valid = _small_units(values)
    if not (exact | ~valid).all():
        return None
    units = np.where(valid, units, 0)
    step = 10**dropped
    size = (np.abs(units) + step // 2) // step
    if digits <= _SMALL_DIGITS and size.max() >= 10**digits:
        return None
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = np.where(units < 0, -size, size)
    words[:, 1] = words[:, 0] >> 63
    bits = pa.py_buffer(np.packbits(valid, bitorder="little")) if values.null_count else None
    return pa.Array.from_buffers(pa.decimal128(digits, scale), len(values), [bits, pa.py_buffer(words)])


def rounded_wide(values: pa.Array, digits: int, mode: str) -> pa.Array:
    """Return decimals rounded to some digits after the point (before it, where negative), with 76 digits of room."""
    wide = values.cast(pa.decimal256(_WIDE, values.type.scale))
    return pc.round(wide, ndigits=digits, round_mode=mode) if digits < values.type.scale else wide


def narrowed(wide: pa.Array, digits: int, scale: int, *, fails: bool, error: str = OUT_OF_RANGE) -> pa.Array:
    """Return decimals of 76 digits as those of fewer; `wide` has no digits that the new scale drops.

    Raises:
        ExpressionError: the class `error`, where a value has too many digits and this is a failure.
    """
    with localcontext() as context:
        context.prec = _WIDE
        most = Decimal(10) ** (digits - scale) - Decimal(1).scaleb(-wide.type.scale)
    over = pc.greater(pc.abs(wide), pa.scalar(most, wide.type))
    if pc.any(over).as_py():
        if fails:
            raise ExpressionError(error, f"a number cannot be held by decimal({digits},{scale})")
        wide = pc.if_else(over, pa.scalar(None, wide.type), wide)
    return wide.cast(pa.decimal256(_WIDE, scale)).cast(pa.decimal128(digits, scale))


def whole(kind: pa.DataType, *, fails: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the cast of decimals to an integer type: without their fraction, outside its range an overflow."""
    limits = np.iinfo(kind.to_pandas_dtype())

    def cast(values: pa.Array) -> pa.Array:
        wide = pc.round(values.cast(pa.decimal256(_WIDE, values.type.scale)), ndigits=0, round_mode=DOWN)
        low, high = (pa.scalar(Decimal(int(each)), wide.type) for each in (limits.min, limits.max))
        over = pc.or_(pc.less(wide, low), pc.greater(wide, high))
        if pc.any(over).as_py():
            if fails:
                raise ExpressionError("CAST_OVERFLOW", f"a decimal cannot be held by {kind}")
            wide = pc.if_else(over, pa.scalar(None, wide.type), wide)
        return wide.cast(pa.decimal256(_WIDE, 0)).cast(pa.decimal128(_MOST, 0)).cast(kind)

    return cast


def from_integers(digits: int, scale: int, *, fails: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the cast of integers to decimals."""

    def cast(values: pa.Array) -> pa.Array:
        return narrowed(values.cast(pa.int64()).cast(pa.decimal256(_WIDE, 0)), digits, scale, fails=fails)

    return cast


def doubles(values: pa.Array) -> pa.Array:
    """Return decimals as the nearest doubles."""
    scale = values.type.scale
    units, exact, valid = _small_units(values)
    made = units.astype(np.float64) / 10.0 ** min(scale, 22)
    if scale > 22 or not exact.all():
        inexact = np.flatnonzero(valid & ~exact) if scale <= 22 else np.flatnonzero(valid)
        for row in inexact:
            made[row] = float(values[int(row)].as_py())
    return pa.array(made, pa.float64(), mask=~valid)


def singles(values: pa.Array) -> pa.Array:
    """Return decimals as the nearest floats."""
    wide, valid = numbers(doubles(values))
    near = wide.astype(np.float32)
    for row in np.flatnonzero(valid & is_tie(wide, near)):
        near[row] = nearest_single(values[int(row)].as_py(), float(wide[row]))
    return pa.array(near, pa.float32(), mask=~valid)


def is_tie(wide: Vector, near: Vector) -> Vector:
    """Return which doubles lie in the middle between their nearest float and the next: rounded twice, they may err."""
    toward = np.where(wide > near, np.inf, -np.inf).astype(np.float32)
    beside = np.nextafter(near, toward).astype(np.float64)
    return np.asarray((wide != near) & (np.abs(wide - near) == np.abs(beside - wide)))


def nearest_single(exact: Decimal, wide: float) -> float:
    """Return the float nearest to a number whose nearest double is `wide`."""
    with np.errstate(all="ignore"):
        near = np.float32(wide)
        if not is_tie(np.array([wide]), np.array([near]))[0]:
            return float(near)
        beside = np.nextafter(near, np.float32(np.inf if wide > float(near) else -np.inf))
    off = _EXACT.compare(exact, Decimal(wide))
    return float(near) if off == 0 else float(max(near, beside) if off > 0 else min(near, beside))


def is_zero(values: pa.Array) -> pa.Array:
    """Return whether decimals are 0."""
    return pc.equal(pc.sign(values), 0)


def plain_texts(values: pa.Array) -> pa.Array:
    """Return decimals in full, without an exponent."""
    scale = values.type.scale
    if scale == 0:
        return values.cast(pa.string())
    units = units_of(values).cast(pa.string())
    figures = pc.utf8_lpad(pc.utf8_ltrim(units, characters="-"), width=scale + 1, padding="0")
    head = pc.utf8_slice_codeunits(figures, start=0, stop=-scale)
    tail = pc.utf8_slice_codeunits(figures, start=-scale)
    text = pc.binary_join_element_wise(head, tail, ".")
    return pc.if_else(pc.starts_with(units, "-"), pc.binary_join_element_wise("-", text, ""), text)


def units_of(values: pa.Array) -> pa.Array:
    """Return decimals times ten to their scale, as decimal(38,0): the same bytes."""
    kind = pa.decimal128(_MOST, 0)
    return pa.Array.from_buffers(
        kind, len(values), values.buffers(), null_count=values.null_count, offset=values.offset
    )


def _small_units(values: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the units as int64, which of them are right and below 2^53, and validity."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if not len(values):
        return np.zeros(0, np.int64), valid, valid
    words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)[values.offset : values.offset + len(values)]
    low, high = words[:, 0], words[:, 1]
    exact = (high == low >> 63) & (np.abs(low) < 2**53) & (low != np.iinfo(np.int64).min)
    return low, exact, valid
