"""Cast kernels: the value of one type as one of another, as Spark's CAST and TRY_CAST give it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import ExpressionError, NotCompiledError, out_of_range
from databus.expressions.functions.registry import Kernel, Value
from databus.expressions.types import INTEGERS, VOID, arrow_of, decimal_of, is_decimal

Rule = Callable[[str, str, bool], Kernel | None]
"""(source type, target type, ansi) → kernel; None: another rule may know."""

_RULES: list[Rule] = []


def rule(found: Rule) -> Rule:
    """Add a rule of kernels, which is asked after those added before it."""
    _RULES.append(found)
    return found


def cast_kernel(source_type: str, target_type: str, ansi: bool = True) -> Kernel:
    """Return the kernel that converts values of one type to another.

    Args:
        source_type: Spark type of the values.
        target_type: Spark type of the result.
        ansi: whether a value that cannot be converted raises ExpressionError, as CAST does; otherwise it becomes NULL,
            as TRY_CAST gives it.

    Raises:
        NotCompiledError: a conversion without a kernel.
    """
    from databus.expressions.functions import names

    names()  # rules stand beside the functions
    if source_type == target_type:
        return _same
    for each in _RULES:
        kernel = each(source_type, target_type, ansi)
        if kernel is not None:
            return kernel
    raise NotCompiledError(f"cast of {source_type} to {target_type}")


def _same(value: Value) -> Value:
    return value


@rule
def _of_null(source_type: str, target_type: str, ansi: bool) -> Kernel | None:  # noqa: ARG001
    if source_type != VOID:
        return None
    return lambda value: (
        pa.scalar(None, arrow_of(target_type))
        if isinstance(value, pa.Scalar)
        else pa.nulls(len(value), arrow_of(target_type))
    )


@rule
def _of_integers(source_type: str, target_type: str, ansi: bool) -> Kernel | None:
    if source_type not in INTEGERS:
        return None
    if target_type in INTEGERS:
        if INTEGERS.index(source_type) < INTEGERS.index(target_type):
            return partial(pc.cast, target_type=arrow_of(target_type))
        return partial(_narrow, source_type=source_type, target_type=target_type, ansi=ansi)
    if target_type in ("float", "double"):
        return partial(pc.cast, target_type=arrow_of(target_type), safe=False)
    if is_decimal(target_type):
        return partial(_integer_to_decimal, target_type=target_type, ansi=ansi)
    return partial(pc.cast, target_type=pa.string()) if target_type == "string" else None


@rule
def _of_booleans(source_type: str, target_type: str, ansi: bool) -> Kernel | None:  # noqa: ARG001
    if source_type == "boolean" and target_type == "string":
        return lambda value: pc.if_else(value, pa.scalar("true"), pa.scalar("false"))
    return None


@rule
def _of_decimals(source_type: str, target_type: str, ansi: bool) -> Kernel | None:  # noqa: ARG001
    if is_decimal(source_type) and is_decimal(target_type):
        (p1, s1), (p2, s2) = decimal_of(source_type), decimal_of(target_type)
        if s2 >= s1 and p2 - s2 >= p1 - s1:  # no digit is lost
            return partial(pc.cast, target_type=arrow_of(target_type))
    return None


@rule
def _of_times(source_type: str, target_type: str, ansi: bool) -> Kernel | None:  # noqa: ARG001
    """The session's zone is UTC."""
    if source_type == "float" and target_type == "double":
        return partial(pc.cast, target_type=pa.float64())
    if source_type == "string" and target_type == "binary":
        return partial(pc.cast, target_type=pa.binary())
    if (source_type, target_type) in (("timestamp_ntz", "timestamp"), ("timestamp", "timestamp_ntz")):
        return partial(pc.cast, target_type=arrow_of(target_type))
    return None


def _narrow(value: Value, *, source_type: str, target_type: str, ansi: bool) -> Value:
    bits = {"tinyint": 7, "smallint": 15, "int": 31}[target_type]
    kind = arrow_of(source_type)
    fits = pc.and_(
        pc.greater_equal(value, pa.scalar(-(1 << bits), kind)), pc.less(value, pa.scalar((1 << bits) - 1, kind))
    )
    fits = pc.or_(fits, pc.equal(value, pa.scalar((1 << bits) - 1, kind)))
    if not _all(fits):
        if ansi:
            raise ExpressionError("CAST_OVERFLOW", f"a {source_type} does not fit into {target_type}")
        value = pc.if_else(fits, value, pa.scalar(None, kind))
    return pc.cast(value, arrow_of(target_type))


def _integer_to_decimal(value: Value, *, target_type: str, ansi: bool) -> Value:
    digits, scale = decimal_of(target_type)
    most = 10 ** (digits - scale)
    if most <= 1 << 63:
        exact = pc.cast(value, pa.int64())
        fits = pc.and_(pc.less(exact, pa.scalar(most, pa.int64())), pc.greater(exact, pa.scalar(-most, pa.int64())))
        if not _all(fits):
            if ansi:
                raise out_of_range("an integer", target_type)
            value = pc.if_else(fits, value, pa.scalar(None, value.type))
    whole = pc.cast(pc.cast(value, pa.int64()), pa.decimal128(19, 0))
    if digits - scale >= 19:
        return pc.cast(whole, arrow_of(target_type))
    wide = pc.cast(whole, pa.decimal256(19 + scale, scale))
    return pc.cast(wide, arrow_of(target_type))


def _all(mask: Value) -> bool:
    """Return whether no value of a mask is false; NULL counts as true."""
    if isinstance(mask, pa.Scalar):
        return mask.as_py() is not False
    return pc.all(mask, min_count=0).as_py() is not False
