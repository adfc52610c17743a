"""Arithmetic of decimals: digits and scale of the result by Spark's rules, halves are rounded away from zero."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import out_of_range, zero_divisor
from databus.expressions.functions.registry import Arguments, Kernel, Resolved, Value
from databus.expressions.types import INTEGERS, MAX_DIGITS, arrow_of, decimal, decimal_of

_LEAST_SCALE = 6
"""Fraction digits that a result keeps where its digits do not suffice."""
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_LONG_DIGITS = 18
_WIDE_DIGITS = 76
"""Digits of Arrow's widest decimal."""

_Operator = Callable[[Decimal, Decimal], Decimal]


def decimal_call(arguments: Arguments, left: str, right: str) -> Resolved:
    """Return the call of an operator on two decimals, or on one and an integer.

    Args:
        arguments: the operator.
        left: its left type, as it is converted from.
        right: its right type.

    Raises:
        NotCompiledError: not an operator of decimals, or a quotient with too many digits.
    """
    (p1, s1), (p2, s2) = decimal_of(left), decimal_of(right)
    kinds = tuple(decimal(*decimal_of(each)) if each in INTEGERS else each for each in (left, right))
    name, scale = arguments.name, max(s1, s2)
    if name in ("+", "-"):
        digits = max(p1 - s1, p2 - s2) + scale + 1
        arrow, exact = (pc.add, _EXACT.add) if name == "+" else (pc.subtract, _EXACT.subtract)
        return _result(digits, scale, kinds, arrow, exact)
    if name == "*":
        return _result(p1 + p2 + 1, s1 + s2, kinds, pc.multiply, _EXACT.multiply)
    if name == "/":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        digits, scale = _adjusted(p1 - s1 + s2 + scale, scale)
        slow = partial(by_row, partial(_quotient, scale), digits, scale, "DIVIDE_BY_ZERO")
        kernel = partial(_divide, max(s1, scale + s2 - p2 + 1), digits, scale, slow)
        return Resolved(decimal(digits, scale), kinds, kernel, reads="reversed")
    if name in ("%", "mod") and p1 - s1 + s2 <= MAX_DIGITS:
        digits, scale = _adjusted(min(p1 - s1, p2 - s2) + scale, scale)
        slow = partial(by_row, _EXACT.remainder, digits, scale, "REMAINDER_BY_ZERO")
        return Resolved(decimal(digits, scale), kinds, partial(_remainder, digits, scale, slow), reads="reversed")
    if name == "div" and p1 - s1 + s2 <= _LONG_DIGITS:
        slow = partial(by_row, _EXACT.divide_int, MAX_DIGITS, 0, "DIVIDE_BY_ZERO")
        return Resolved("bigint", kinds, partial(_integral_divide, slow), reads="reversed")
    raise arguments.refused()


def refuse_zero(left: Value, right: Value, error_class: str = "DIVIDE_BY_ZERO") -> None:
    """Refuse a divisor of zero where the dividend is not NULL.

    Raises:
        ExpressionError: there is one.
    """
    zero = pc.and_(pc.equal(right, pa.scalar(0, right.type)), pc.is_valid(left))
    if zero.as_py() if isinstance(zero, pa.Scalar) else pc.any(zero).as_py():
        raise zero_divisor("a division", error_class)


def _adjusted(digits: int, scale: int) -> tuple[int, int]:
    """Return digits and scale within 38 digits: the integer's digits first, of the fraction's at least six."""
    if digits <= MAX_DIGITS:
        return digits, scale
    return MAX_DIGITS, max(MAX_DIGITS - (digits - scale), min(scale, _LEAST_SCALE))


def _result(digits: int, scale: int, kinds: tuple[str, ...], arrow: Kernel, exact: _Operator) -> Resolved:
    fitting = _adjusted(digits, scale)
    kernel = arrow
    if fitting != (digits, scale):
        slow = partial(by_row, exact, *fitting, "")
        kernel = slow if digits > _WIDE_DIGITS else partial(_wide, arrow, *fitting, slow)
    return Resolved(decimal(*fitting), kinds, kernel)


def _wide(operator: Kernel, digits: int, scale: int, slow: Kernel, left: Value, right: Value) -> Value:
    """Return an operator's results from up to 76 digits."""
    return _rounded(lambda: operator(_widened(left), _widened(right)), digits, scale, slow, left, right)


def _divide(left_scale: int, digits: int, scale: int, slow: Kernel, left: Value, right: Value) -> Value:
    """Return quotients: Arrow cuts them off behind the digit that decides."""
    refuse_zero(left, right)
    return _rounded(lambda: pc.divide(_widened(left, left_scale), _widened(right)), digits, scale, slow, left, right)


def _remainder(digits: int, scale: int, slow: Kernel, left: Value, right: Value) -> Value:
    refuse_zero(left, right, "REMAINDER_BY_ZERO")

    def rest() -> Value:
        whole = pc.multiply(_whole(left, right), _widened(right))
        return pc.subtract(_widened(left), whole)

    return _rounded(rest, digits, scale, slow, left, right)


def _integral_divide(slow: Kernel, left: Value, right: Value) -> Value:
    refuse_zero(left, right)
    return pc.cast(_rounded(lambda: _whole(left, right), MAX_DIGITS, 0, slow, left, right), pa.int64())


def _whole(left: Value, right: Value) -> Value:
    """Return quotients without their fraction, as decimals of no more digits than they need."""
    digits = left.type.precision - left.type.scale + right.type.scale
    found = pc.divide(_widened(left), _widened(right))
    wide = min(found.type.precision + 1, _WIDE_DIGITS)
    found = pc.cast(found, pa.decimal256(wide, found.type.scale))  # a digit before the point
    return pc.cast(pc.trunc(found), pa.decimal256(max(digits, 1), 0))


def _widened(value: Value, scale: int | None = None) -> Value:
    """Return decimals of 256 bits, with a larger scale where one is given."""
    kind = value.type
    more = 0 if scale is None else scale - kind.scale
    return pc.cast(value, pa.decimal256(kind.precision + more, kind.scale + more))


def _rounded(made: Callable[[], Value], digits: int, scale: int, slow: Kernel, left: Value, right: Value) -> Value:
    """Return results in the result's type; one by one where 76 digits do not suffice, or one does not fit."""
    try:
        found = made()
        if found.type.scale > scale:
            found = pc.round(found, ndigits=scale, round_mode="half_towards_infinity")
        return pc.cast(found, arrow_of(decimal(digits, scale)))
    except pa.ArrowInvalid:
        return slow(left, right)


def _quotient(scale: int, left: Decimal, right: Decimal) -> Decimal:
    """Return left / right rounded to a scale from the exact quotient."""
    power1, power2 = (int(value.as_tuple().exponent) for value in (left, right))
    one, other = (abs(int(_EXACT.scaleb(value, -power))) for value, power in ((left, power1), (right, power2)))
    shift = scale + power1 - power2
    one, other = (one * 10**shift, other) if shift >= 0 else (one, other * 10**-shift)
    whole, rest = divmod(one, other)
    whole += 2 * rest >= other
    return _EXACT.scaleb(Decimal(-whole if left.is_signed() != right.is_signed() else whole), -scale)


def by_row(operator: _Operator, digits: int, scale: int, zero: str, left: Value, right: Value) -> Value:
    """Return an operator's results one by one, rounded to a scale.

    Args:
        operator: exact operator.
        digits: digits of the result.
        scale: fraction digits of it.
        zero: error class of a right side of zero; "" where that is no error.
        left: decimals.
        right: decimals.
    """
    kind = arrow_of(decimal(digits, scale))
    most = Decimal(10) ** (digits - scale)
    unit = Decimal(1).scaleb(-scale)

    def of(one: Decimal | None, other: Decimal | None) -> Decimal | None:
        if one is None or other is None:
            return None
        if zero and not other:
            raise zero_divisor("a division of decimals", zero)
        found = _EXACT.quantize(operator(one, other), unit)
        if abs(found) >= most:
            raise out_of_range(found, decimal(digits, scale))
        return found

    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(of(left.as_py(), right.as_py()), kind)
    count = len(right) if isinstance(left, pa.Scalar) else len(left)
    pairs = zip(_listed(left, count), _listed(right, count), strict=True)
    return pa.array([of(one, other) for one, other in pairs], kind)


def _listed(value: Value, count: int) -> list[Decimal | None]:
    return [value.as_py()] * count if isinstance(value, pa.Scalar) else value.to_pylist()
