"""Bit functions of integers, and their texts in bases other than ten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from databus.expressions.functions.registry import Arguments, Resolve, Resolved, register
from databus.expressions.kernels import bits, number_texts
from databus.expressions.kernels.vectors import row_wise, vectorized
from databus.expressions.types import INTEGERS, arrow_of, widest

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_UP_TO_INT = ("tinyint", "smallint", "int")


def _of_two(function: Callable[..., Any]) -> Resolve:
    """Return the resolve function of an operation on two integers, in the wider type."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 2 or not set(found.types) <= set(INTEGERS):
            raise found.refused()
        kind = widest(found.types, found.name)
        return Resolved(kind, (kind, kind), vectorized(function, arrow_of(kind)))

    return resolve_it


def _not(found: Arguments) -> Resolved:
    if len(found) != 1 or found.types[0] not in INTEGERS:
        raise found.refused()
    return Resolved(found.types[0], found.types, vectorized(bits.bit_not, arrow_of(found.types[0])))


def _shift(function: Callable[..., Any]) -> Resolve:
    """Return the resolve function of a shift; narrower integers are shifted as int."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 2 or found.types[0] not in INTEGERS or found.types[1] not in _UP_TO_INT:
            raise found.refused()
        kind = "bigint" if found.types[0] == "bigint" else "int"
        return Resolved(kind, (kind, "int"), vectorized(function, arrow_of(kind)))

    return resolve_it


def _count(found: Arguments) -> Resolved:
    if len(found) != 1 or found.types[0] not in (*INTEGERS, "boolean"):
        raise found.refused()
    return Resolved("int", found.types, vectorized(bits.bit_count, pa.int32()))


def _get(found: Arguments) -> Resolved:
    if len(found) != 2 or found.types[0] not in INTEGERS or found.types[1] not in _UP_TO_INT:
        raise found.refused()
    kernel = vectorized(bits.bit_get(_BITS[found.types[0]]), pa.int8())
    return Resolved("tinyint", (found.types[0], "int"), kernel)


def _bin(found: Arguments) -> Resolved:
    if len(found) != 1 or found.types[0] not in INTEGERS:
        raise found.refused()
    return Resolved("string", ("bigint",), row_wise(number_texts.binary, pa.string()))


def _conv(found: Arguments) -> Resolved:
    if len(found) != 3 or found.types[0] not in (*INTEGERS, "string") or not set(found.types[1:]) <= set(_UP_TO_INT):
        raise found.refused()
    return Resolved("string", ("string", "int", "int"), row_wise(number_texts.converted, pa.string()))


register("&", resolve=_of_two(bits.bit_and))
register("|", resolve=_of_two(bits.bit_or))
register("^", resolve=_of_two(bits.bit_xor))
register("~", resolve=_not)
register("shiftleft", "<<", resolve=_shift(bits.shift_left))
register("shiftright", ">>", resolve=_shift(bits.shift_right))
register("shiftrightunsigned", ">>>", resolve=_shift(bits.shift_right_unsigned))
register("bit_count", resolve=_count)
register("bit_get", "getbit", resolve=_get)
register("bin", resolve=_bin)
register("conv", resolve=_conv)
