"""Casts of numbers, booleans and texts to numbers, booleans and texts, where Spark's value does not hang on the JVM.

A double's digits do (Java 19 changed them): it is not cast to string or decimal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.casts import rule
from databus.expressions.functions.registry import Arguments, Kernel, Resolve, Resolved, register
from databus.expressions.kernels import decimals, doubles, number_texts
from databus.expressions.kernels.decimals import on_array
from databus.expressions.kernels.vectors import Vector, vectorized
from databus.expressions.types import INTEGERS, arrow_of, decimal_of, is_decimal

_FLOATS = ("float", "double")
_LONG_DIGITS = 18
_WIDTHS: dict[str, type[np.signedinteger[Any]]] = {
    "tinyint": np.int8,
    "smallint": np.int16,
    "int": np.int32,
    "bigint": np.int64,
}


def _decimal_truths(values: pa.Array) -> pa.Array:
    return pc.invert(decimals.is_zero(values))


_OF_DECIMALS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "double": decimals.doubles,
    "float": decimals.singles,
    "boolean": _decimal_truths,
    "string": decimals.plain_texts,
}


@rule
def _of_texts(source_type: str, target_type: str, ansi: bool) -> Kernel | None:
    if source_type != "string":
        return None
    if target_type in INTEGERS:
        return on_array(number_texts.integers(arrow_of(target_type), fails=ansi, fraction=False))
    if target_type in _FLOATS:
        return on_array(number_texts.doubles(arrow_of(target_type), fails=ansi))
    if is_decimal(target_type):
        return on_array(number_texts.decimals(*decimal_of(target_type), fails=ansi))
    return on_array(number_texts.booleans(fails=ansi)) if target_type == "boolean" else None


@rule
def _of_floats(source_type: str, target_type: str, ansi: bool) -> Kernel | None:
    if source_type not in _FLOATS:
        return None
    if target_type in INTEGERS:
        return vectorized(doubles.whole(_WIDTHS[target_type]), arrow_of(target_type), fails=ansi)
    if target_type == "float":
        return vectorized(_single, pa.float32())
    return vectorized(_truth, pa.bool_()) if target_type == "boolean" else None


@rule
def _of_exact_decimals(source_type: str, target_type: str, ansi: bool) -> Kernel | None:
    if not is_decimal(source_type):
        return None
    if is_decimal(target_type):
        return on_array(decimals.rescaled(*decimal_of(target_type), fails=ansi))
    if target_type in INTEGERS:
        digits, scale = decimal_of(source_type)
        if target_type != "bigint" and digits > _LONG_DIGITS and scale:
            return None  # Spark takes the nearest double on the way, or not
        return on_array(decimals.whole(arrow_of(target_type), fails=ansi))
    plain = _OF_DECIMALS.get(target_type)
    return None if plain is None else on_array(plain)


@rule
def _of_truths(source_type: str, target_type: str, ansi: bool) -> Kernel | None:
    if source_type in INTEGERS and target_type == "boolean":
        return vectorized(_truth, pa.bool_())
    if source_type != "boolean":
        return None
    if target_type in (*INTEGERS, *_FLOATS):
        return partial(pc.cast, target_type=arrow_of(target_type))
    if is_decimal(target_type):
        to_decimal = decimals.from_integers(*decimal_of(target_type), fails=ansi)
        return on_array(lambda values: to_decimal(values.cast(pa.int64())))
    return None


def _single(values: Vector) -> Vector:
    return values.astype(np.float32)


def _truth(values: Vector) -> Vector:
    return np.asarray(values != 0)


def _cast_to(kind: str) -> Resolve:
    """Return the resolve function of a type's name used as a function."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 1:
            raise found.refused()
        return Resolved(kind, (kind,), lambda value: value)

    return resolve_it


for _name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"):
    register(_name, resolve=_cast_to(_name))
register("decimal", resolve=_cast_to("decimal(10,0)"))
register("timestamp", "to_timestamp", resolve=_cast_to("timestamp"))
