"""The functions greatest and least: the largest and the smallest of their arguments that are not NULL."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.functions.registry import Arguments, Resolve, Resolved, Value, register
from databus.expressions.types import VOID, widest


def _extreme(*, greatest: bool) -> Resolve:
    """Return the resolve function of greatest or least; texts are compared by their bytes."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) < 2 or VOID in found.types or ("string" in found.types) != (set(found.types) == {"string"}):
            raise found.refused()
        kind = widest(found.types, found.name)
        return Resolved(kind, (kind,) * len(found), partial(_pick, greatest=greatest), "all")

    return resolve_it


def _pick(first: Value, *others: Value, greatest: bool) -> Value:
    """Return the largest or smallest value of each row; of equal ones the first.

    Args:
        first: the first argument.
        others: those after it, of the same type.
        greatest: whether the largest is asked for.
    """
    best = first
    for other in others:
        better = _greater(other, best) if greatest else _greater(best, other)
        best = pc.if_else(pc.or_kleene(pc.fill_null(better, False), pc.is_null(best)), other, best)
    return best


def _greater(left: Value, right: Value) -> Value:
    """Return whether left is greater; NaN is the greatest number, and -0.0 is 0.0."""
    if not pa.types.is_floating(left.type):
        return pc.greater(left, right)
    nan = pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right)))
    return pc.or_(nan, pc.greater(left, right))


register("greatest", resolve=_extreme(greatest=True))
register("least", resolve=_extreme(greatest=False))
