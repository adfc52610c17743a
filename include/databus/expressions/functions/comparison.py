"""Comparisons, and the tests for NULL: strings by their bytes, NaN equal to itself and above all, -0.0 equal to 0.0."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.functions.registry import Arguments, Kernel, Resolved, Value, register
from databus.expressions.literals import literal_type
from databus.expressions.types import INTEGERS, VOID, is_decimal, is_number, promoted, tightest, wider

_ARROW: dict[str, Callable[[Value, Value], Value]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_BIGINT = (1 << 63) - 1


def common(arguments: Arguments) -> str:
    """Return the type that both sides of an operator are converted to.

    Raises:
        NotCompiledError: Spark has none for them.
    """
    left, right = arguments.types
    found = promoted(left, right)
    if found is None and (is_decimal(left) or is_decimal(right)) and is_number(left) and is_number(right):
        left, right = (exact_type(arguments, position) for position in range(2))
        found = wider(left, right)
    found = found or tightest(left, right)
    if found is None or found == VOID:
        raise arguments.refused()
    return found


def exact_type(arguments: Arguments, position: int) -> str:
    """Return an argument's type; of an integer in the text the decimal that has just its digits."""
    kind = arguments.types[position]
    if kind in ("smallint", "int", "bigint") and arguments.written[position]:
        return literal_type(arguments.literals[position])
    return kind


def _compare(arguments: Arguments) -> Resolved:
    if len(arguments) != 2:
        raise arguments.refused()
    kind = common(arguments)
    if arguments.name not in ("=", "<>"):
        _refuse_beyond_bigint(arguments)
    return Resolved("boolean", (kind, kind), _kernel(arguments.name, kind))


def _refuse_beyond_bigint(arguments: Arguments) -> None:
    """Refuse an integer beside a decimal in the text that no bigint holds: Spark decides it for NULL too."""
    for position in range(2):
        written = arguments.written[position] and is_decimal(arguments.types[position])
        if written and arguments.types[1 - position] in INTEGERS and abs(arguments.literals[position]) >= _BIGINT:
            raise arguments.refused("a number beyond bigint")


def _kernel(sign: str, kind: str) -> Kernel:
    return partial(_compare_floats, sign) if kind in ("float", "double") else _ARROW[sign]


def _compare_floats(sign: str, left: Value, right: Value) -> Value:
    if sign in (">", ">="):
        return _compare_floats({">": "<", ">=": "<="}[sign], right, left)
    if sign == "<>":
        return pc.invert(_compare_floats("=", left, right))
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if sign == "=":
        return pc.or_(pc.equal(left, right), pc.and_(left_nan, right_nan))
    if sign == "<":
        return pc.or_(pc.less(left, right), pc.and_(right_nan, pc.invert(left_nan)))
    return pc.or_(pc.less_equal(left, right), right_nan)


def _null_safe(arguments: Arguments) -> Resolved:
    if len(arguments) != 2:
        raise arguments.refused()
    kind = common(arguments)
    return Resolved("boolean", (kind, kind), partial(_equal_null_safe, _kernel("=", kind)), reads="all")


def _equal_null_safe(equal: Kernel, left: Value, right: Value) -> Value:
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(equal(left, right), False), both)


def _is_null(arguments: Arguments) -> Resolved:
    if len(arguments) != 1:
        raise arguments.refused()
    kernel: Kernel = pc.is_null if arguments.name == "isnull" else pc.is_valid
    return Resolved("boolean", arguments.types, kernel, reads="all")


def _not(arguments: Arguments) -> Resolved:
    if arguments.types not in (("boolean",), (VOID,)):
        raise arguments.refused()
    return Resolved("boolean", ("boolean",), pc.invert)


def _in_constants(arguments: Arguments) -> Resolved:
    """Resolve a value and constants of its type; NULL where none is equal and one is NULL."""
    kind = arguments.types[0]
    if kind in ("float", "double"):
        raise arguments.refused()
    return Resolved("boolean", arguments.types, _is_in, reads="all")


def _is_in(value: Value, *elements: pa.Scalar) -> Value:
    known = [element for element in elements if element.is_valid]
    values = pa.concat_arrays([pa.array([], value.type), *(pa.repeat(element, 1) for element in known)])
    found = pc.is_in(value, value_set=values)
    undecided = pa.scalar(None if len(known) < len(elements) else False, pa.bool_())
    found = pc.if_else(found, pa.scalar(True), undecided)
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))


register(*_ARROW, resolve=_compare)
register("<=>", "equal_null", resolve=_null_safe)
register("isnull", "isnotnull", resolve=_is_null)
register("not", resolve=_not)
register("_in", resolve=_in_constants)
