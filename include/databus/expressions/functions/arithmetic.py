"""Arithmetic of integers, doubles and decimals: + - * / DIV %, and signs, with ANSI mode's errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import overflow
from databus.expressions.functions.comparison import exact_type
from databus.expressions.functions.decimal_arithmetic import decimal_call, refuse_zero
from databus.expressions.functions.registry import Arguments, Kernel, Resolved, Value, register
from databus.expressions.types import INTEGERS, VOID, arrow_of, decimal_of, is_decimal, is_number, promoted, tightest

_CHECKED: dict[str, Callable[[Value, Value], Value]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_SIGNED_DIGITS = 34
"""Digits that a decimal keeps in Spark when its sign changes (Scala's BigDecimal, DECIMAL128)."""
_FLOATING: dict[str, Callable[[Value, Value], Value]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _binary(arguments: Arguments) -> Resolved:
    if len(arguments) != 2:
        raise arguments.refused()
    left, right = arguments.types
    kind: str | None
    if arguments.name == "/" and "string" in (left, right) and {left, right} & {*INTEGERS}:
        raise arguments.refused("a string beside an integer is one, too")
    if kind := promoted(left, right):
        left = right = kind
    if not all(each == VOID or is_number(each) for each in (left, right)):
        raise arguments.refused()
    floating = "double" if {left, right} & {"float", "double"} else None
    if arguments.name == "/" and left == VOID:
        return _of_one_type(arguments, "double")  # also beside a decimal, which a NULL at the right leaves one
    if is_decimal(left) or is_decimal(right):
        if floating is None:
            if VOID in (left, right):
                left = right = tightest(left, right) or VOID
            else:
                left, right = (exact_type(arguments, position) for position in range(2))
            return decimal_call(arguments, left, right)
        kind = floating
    else:
        kind = tightest(left, right)
    if kind is None or kind == VOID:
        raise arguments.refused()
    return _of_one_type(arguments, kind)


def _of_one_type(arguments: Arguments, kind: str) -> Resolved:
    """Resolve an operator whose sides have one type, no decimal."""
    name = arguments.name
    if name == "/":
        return Resolved("double", ("double", "double"), _divide, reads="reversed")
    if name == "div":
        if kind not in INTEGERS:
            raise arguments.refused()
        return Resolved("bigint", ("bigint", "bigint"), _integral_divide, reads="reversed")
    if name in ("%", "mod"):
        kernel: Kernel = _remainder if kind in INTEGERS else _float_remainder
        return Resolved(kind, (kind, kind), kernel, reads="reversed")
    kernel = partial(_exact, name) if kind in INTEGERS else _FLOATING[name]
    return Resolved(kind, (kind, kind), kernel)


def _exact(sign: str, left: Value, right: Value) -> Value:
    try:
        return _CHECKED[sign](left, right)
    except pa.ArrowInvalid:
        raise overflow(f"{left.type} {sign} {right.type}", small=left.type.bit_width < 32) from None


def _divide(left: Value, right: Value) -> Value:
    refuse_zero(left, right)
    return pc.divide(left, right)


def _integral_divide(left: Value, right: Value) -> Value:
    refuse_zero(left, right)
    try:
        return pc.divide_checked(left, right)
    except pa.ArrowInvalid:
        raise overflow("bigint DIV bigint") from None


def _remainder(left: Value, right: Value) -> Value:
    refuse_zero(left, right, "REMAINDER_BY_ZERO")
    one = pa.scalar(1, right.type)  # the remainder is 0, and the least integer has no quotient by -1
    divisor = pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), one, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


def _float_remainder(left: Value, right: Value) -> Value:
    refuse_zero(left, right, "REMAINDER_BY_ZERO")
    there = pc.and_(pc.is_valid(left), pc.is_valid(right))
    with np.errstate(invalid="ignore"):
        found = np.fmod(_numbers(left), _numbers(right))
    if isinstance(there, pa.Scalar):
        return pa.scalar(float(found) if there.as_py() else None, left.type)
    return pc.if_else(there, pa.array(found, left.type), pa.scalar(None, left.type))


def _numbers(value: Value) -> Any:
    kind = value.type.to_pandas_dtype()
    if isinstance(value, pa.Scalar):
        return kind(value.as_py() if value.is_valid else 1)
    return pc.fill_null(value, pa.scalar(1).cast(value.type)).to_numpy()


def _sign(arguments: Arguments) -> Resolved:
    if len(arguments) != 1 or not (is_number(arguments.types[0]) or arguments.types[0] == "string"):
        raise arguments.refused()
    kind = "double" if arguments.types[0] == "string" else arguments.types[0]
    if arguments.name == "negative" and is_decimal(kind) and decimal_of(kind)[0] > _SIGNED_DIGITS:
        raise arguments.refused("Spark rounds it to 34 digits")
    kernel: Kernel = _negate if arguments.name == "negative" else _unchanged
    return Resolved(kind, (kind,), kernel)


def _negate(value: Value) -> Value:
    if not pa.types.is_integer(value.type):
        return pc.negate(value)
    try:
        return pc.negate_checked(value)
    except pa.ArrowInvalid:
        raise overflow(f"-{value.type}") from None


def _unchanged(value: Value) -> Value:
    return value


def _join(arguments: Arguments) -> Resolved:
    if len(arguments) != 2 or VOID in arguments.types:
        raise arguments.refused()
    known = (*INTEGERS, "boolean", "string")
    kind = "binary" if set(arguments.types) == {"binary"} else "string"
    if kind == "string" and not all(each in known for each in arguments.types):
        raise arguments.refused()
    empty = pa.scalar("" if kind == "string" else b"", arrow_of(kind))
    kernel: Kernel = lambda left, right: pc.binary_join_element_wise(left, right, empty)  # noqa: E731
    return Resolved(kind, (kind, kind), kernel, reads="all")


register("+", "-", "*", "/", "div", "%", "mod", resolve=_binary)
register("negative", "positive", resolve=_sign)
register("||", resolve=_join)
