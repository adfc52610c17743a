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
    # Not Arrow's division: of long divisors its quotients are wrong (9 / 1084202172.4855044341, pyarrow 26).
    if name == "/":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        digits = p1 - s1 + s2 + scale
        if digits > MAX_DIGITS:
            raise arguments.refused("a quotient that Spark rounds twice")
        kernel = partial(by_row, partial(_quotient, scale), digits, scale, "DIVIDE_BY_ZERO")
        return Resolved(decimal(digits, scale), kinds, kernel, reads="reversed")
    if name in ("%", "mod") and p1 - s1 + s2 <= MAX_DIGITS:
        digits, scale = _adjusted(min(p1 - s1, p2 - s2) + scale, scale)
        kernel = partial(by_row, _EXACT.remainder, digits, scale, "REMAINDER_BY_ZERO")
        return Resolved(decimal(digits, scale), kinds, kernel, reads="reversed")
    if name == "div" and p1 - s1 + s2 <= _LONG_DIGITS:
        whole = partial(by_row, _EXACT.divide_int, MAX_DIGITS, 0, "DIVIDE_BY_ZERO")
        return Resolved("bigint", kinds, lambda *values: pc.cast(whole(*values), pa.int64()), reads="reversed")
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
    kernel: Kernel = arrow if fitting == (digits, scale) else partial(by_row, exact, *fitting, "")
    return Resolved(decimal(*fitting), kinds, kernel)


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
            raise out_of_range("a decimal", decimal(digits, scale))
        return found

    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(of(left.as_py(), right.as_py()), kind)
    count = len(right) if isinstance(left, pa.Scalar) else len(left)
    pairs = zip(_listed(left, count), _listed(right, count), strict=True)
    return pa.array([of(one, other) for one, other in pairs], kind)


def _listed(value: Value, count: int) -> list[Decimal | None]:
    return [value.as_py()] * count if isinstance(value, pa.Scalar) else value.to_pylist()
