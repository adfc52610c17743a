"""Numeric functions: signs, rounding, remainders, roots, and the try_ forms of arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import ExpressionError
from databus.expressions.functions.registry import Arguments, Kernel, Resolve, Resolved, Value, register, resolve
from databus.expressions.kernels import decimals, doubles, integers
from databus.expressions.kernels.vectors import vectorized
from databus.expressions.types import INTEGERS, arrow_of, decimal, decimal_of, is_decimal, is_number, tightest, widest

_MOST = 38
_EXACT = 34
"""Digits that Scala's BigDecimal keeps when it changes a sign."""


def of_doubles(function: Callable[..., Any], count: int = 1) -> Resolve:
    """Return the resolve function of a function of doubles to which other numbers are cast.

    Args:
        function: NumPy arrays → values.
        count: number of arguments.
    """

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != count or not all(map(is_number, found.types)):
            raise found.refused()
        return Resolved("double", ("double",) * count, vectorized(function, pa.float64()))

    return resolve_it


def _same(value: Value) -> Value:
    return value


def _signed(found: Arguments) -> Resolved:
    """Resolve `sign`: a double of any number."""
    if len(found) != 1 or not is_number(found.types[0]):
        raise found.refused()
    return Resolved("double", ("double",), vectorized(doubles.sign, pa.float64()))


def _absolute(found: Arguments) -> Resolved:
    (kind,) = _number(found)
    if kind in INTEGERS:
        return Resolved(kind, (kind,), vectorized(integers.absolute, arrow_of(kind)))
    if not is_decimal(kind):
        return Resolved(kind, (kind,), vectorized(np.abs, arrow_of(kind)))
    if decimal_of(kind)[0] > _EXACT:
        raise found.refused("Spark rounds it to 34 digits")
    return Resolved(kind, (kind,), pc.abs)


def _number(found: Arguments) -> tuple[str]:
    if len(found) != 1 or not is_number(found.types[0]):
        raise found.refused()
    return (found.types[0],)


def _whole(mode: str, function: Callable[..., Any]) -> Resolve:
    """Return the resolve function of `ceil` or `floor`."""

    def resolve_it(found: Arguments) -> Resolved:
        (kind,) = _number(found)
        if kind in INTEGERS:
            return Resolved("bigint", ("bigint",), _same)
        if not is_decimal(kind):
            return Resolved("bigint", ("double",), vectorized(function, pa.int64()))
        digits, scale = decimal_of(kind)
        if scale == 0:
            return Resolved(kind, (kind,), _same)
        to = min(digits - scale + 1, _MOST)
        return Resolved(decimal(to, 0), (kind,), decimals.on_array(decimals.rescaled(to, 0, mode=mode)))

    return resolve_it


def _rounded(mode: str) -> Resolve:
    """Return the resolve function of `round` or `bround`, of integers and decimals."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) not in (1, 2):
            raise found.refused()
        places = found.literal(1) if len(found) == 2 else 0
        kind = found.types[0]
        if type(places) is not int or not -1_000 < places < 1_000:
            raise found.refused("places")
        arguments = (kind, "int")[: len(found)]
        if kind in INTEGERS:
            rounds = integers.rounded(-places, half_even=mode == decimals.HALF_EVEN)
            kernel = _same if places >= 0 else vectorized(rounds, arrow_of(kind))
            return Resolved(kind, arguments, _first(kernel))
        if not is_decimal(kind):
            raise found.refused("digits of a double")
        to, scale = _rounded_type(kind, places)
        return Resolved(decimal(to, scale), arguments, _first(decimals.on_array(_round(to, scale, places, mode))))

    return resolve_it


def _first(kernel: Kernel) -> Kernel:
    """Return a kernel of more arguments that looks at the first."""
    return lambda value, *_: kernel(value)


def _rounded_type(kind: str, places: int) -> tuple[int, int]:
    digits, scale = decimal_of(kind)
    whole = digits - scale + 1
    if places < 0:
        return min(max(whole, 1 - places), _MOST), 0
    to = min(scale, places)
    return min(whole + to, _MOST), to


def _round(digits: int, scale: int, places: int, mode: str) -> Callable[[pa.Array], pa.Array]:
    def rounds(values: pa.Array) -> pa.Array:
        if -places > values.type.precision - values.type.scale:  # less than a half
            zero = pa.scalar(Decimal(0), pa.decimal128(digits, scale))
            return pc.if_else(values.is_valid(), zero, pa.scalar(None, zero.type))
        wide = decimals.rounded_wide(values, min(places, values.type.scale), mode)
        return decimals.narrowed(wide, digits, scale, fails=True)

    return rounds


def _pmod(found: Arguments) -> Resolved:
    kind = _common(found)
    function = integers.positive_remainder if kind in INTEGERS else doubles.positive_remainder
    return Resolved(kind, (kind, kind), vectorized(function, arrow_of(kind)), "reversed")


def _common(found: Arguments) -> str:
    """Return the integer type, float or double of two numbers."""
    if len(found) != 2 or not all(map(is_number, found.types)) or any(map(is_decimal, found.types)):
        raise found.refused()
    kind = tightest(*found.types)
    if kind is None:
        raise found.refused()
    return kind


def _trying(operator: str, of_integers: Callable[..., Any], of_floats: Callable[..., Any]) -> Resolve:
    """Return the resolve function of try_add, try_subtract or try_multiply."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) == 2 and all(map(is_number, found.types)) and any(map(is_decimal, found.types)):
            return _exact_decimals(operator, found)
        kind = _common(found)
        function = of_integers if kind in INTEGERS else of_floats
        return Resolved(kind, (kind, kind), vectorized(function, arrow_of(kind), fails=False))

    return resolve_it


def _exact_decimals(operator: str, found: Arguments) -> Resolved:
    """Resolve an operation of decimals whose result has room for every value."""
    if not all(is_decimal(kind) or kind in INTEGERS for kind in found.types):
        raise found.refused()
    (p1, s1), (p2, s2) = (decimal_of(kind) for kind in found.types)
    digits = p1 + p2 + 1 if operator == "*" else max(p1 - s1, p2 - s2) + max(s1, s2) + 1
    if digits > _MOST:
        raise found.refused(f"{digits} digits")
    return resolve(Arguments(operator, found.types, found.literals, found.ansi, found.written))


def _without_zero(operator: str) -> Resolve:
    """Return the resolve function of try_divide or try_mod: the operator, its zeros NULL."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 2 or not all(map(is_number, found.types)):
            raise found.refused()
        plain = resolve(Arguments(operator, found.types, found.literals, found.ansi, found.written))
        return Resolved(plain.type, plain.arguments, partial(_dividing, plain.kernel), plain.reads)

    return resolve_it


def _dividing(kernel: Kernel, left: Value, right: Value) -> Value:
    zero = pc.equal(pc.sign(right), 0)
    return _tried(kernel, left, pc.if_else(zero, pa.scalar(None, right.type), right))


def _tried(kernel: Kernel, *values: Value) -> Value:
    """Return a kernel's values, NULL for each row that raises."""
    try:
        return kernel(*values)
    except ExpressionError:
        rows = next((len(value) for value in values if isinstance(value, pa.Array)), None)
        if rows is None or rows == 1:
            nothing = kernel(*(pa.nulls(1, value.type) for value in values))
            return nothing[0] if rows is None else nothing
        halves = (slice(0, rows // 2), slice(rows // 2, rows))
        return pa.concat_arrays([_tried(kernel, *(_sliced(value, half) for value in values)) for half in halves])


def _sliced(value: Value, part: slice) -> Value:
    return value[part] if isinstance(value, pa.Array) else value


def _factorial(found: Arguments) -> Resolved:
    if len(found) != 1 or found.types[0] not in ("tinyint", "smallint", "int"):
        raise found.refused()
    return Resolved("bigint", ("int",), vectorized(integers.factorial, pa.int64()))


def _width_bucket(found: Arguments) -> Resolved:
    if len(found) != 4 or not all(map(is_number, found.types)) or found.types[3] not in INTEGERS:
        raise found.refused()
    kernel = vectorized(doubles.width_bucket, pa.int64())
    return Resolved("bigint", ("double", "double", "double", "bigint"), kernel)


def _isnan(found: Arguments) -> Resolved:
    (kind,) = _number(found)
    to = kind if kind == "float" else "double"
    return Resolved("boolean", (to,), vectorized(doubles.is_nan, pa.bool_(), keeps_null=False), "all")


def _nanvl(found: Arguments) -> Resolved:
    if len(found) != 2 or found.types[0] not in ("float", "double"):
        raise found.refused()
    found.literal(1)  # it is looked at only where the first is NaN
    kind = tightest(*found.types)
    if kind not in ("float", "double"):
        raise found.refused()
    return Resolved(kind, (kind, kind), _instead_of_nan, "all")


def _instead_of_nan(value: Value, other: Value) -> Value:
    return pc.if_else(pc.is_nan(value), other, value)


def _constant(value: float) -> Resolve:
    def resolve_it(found: Arguments) -> Resolved:
        if len(found):
            raise found.refused()
        return Resolved("double", (), lambda: pa.scalar(value, pa.float64()))

    return resolve_it


def _nullifzero(found: Arguments) -> Resolved:
    (kind,) = _number(found)
    if is_decimal(kind) and decimal_of(kind)[1] > _MOST - 10:
        raise found.refused("it is rounded before it is compared with 0")

    def kernel(value: Value) -> Value:
        return pc.if_else(pc.equal(pc.sign(value), 0), pa.scalar(None, value.type), value)

    return Resolved(kind, (kind,), kernel)


def _zeroifnull(found: Arguments) -> Resolved:
    kind = widest((*_number(found), "int"), found.name)
    return Resolved(kind, (kind,), lambda value: pc.fill_null(value, _zero(value.type)), "all")


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


register("abs", resolve=_absolute)
register("sign", "signum", resolve=_signed)
register("ceil", "ceiling", resolve=_whole("up", doubles.ceiling))
register("floor", resolve=_whole("down", doubles.floor))
register("round", resolve=_rounded(decimals.HALF_UP))
register("bround", resolve=_rounded(decimals.HALF_EVEN))
register("pmod", resolve=_pmod)
register("sqrt", resolve=of_doubles(doubles.square_root))
register("rint", resolve=of_doubles(doubles.nearest))
register("degrees", resolve=of_doubles(doubles.degrees))
register("radians", resolve=of_doubles(doubles.radians))
register("e", resolve=_constant(math.e))
register("pi", resolve=_constant(math.pi))
register("factorial", resolve=_factorial)
register("width_bucket", resolve=_width_bucket)
register("isnan", resolve=_isnan)
register("nanvl", resolve=_nanvl)
register("nullifzero", resolve=_nullifzero)
register("zeroifnull", resolve=_zeroifnull)
register("try_add", resolve=_trying("+", integers.add, np.add))
register("try_subtract", resolve=_trying("-", integers.subtract, np.subtract))
register("try_multiply", resolve=_trying("*", integers.multiply, np.multiply))
register("try_divide", resolve=_without_zero("/"))
register("try_mod", resolve=_without_zero("%"))
