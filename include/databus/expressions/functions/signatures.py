"""Signatures of functions with parameters of fixed types: what Spark converts to them by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from databus.expressions.functions.registry import Arguments, Kernel, Resolved
from databus.expressions.types import INTEGERS, VOID

Parameter = Literal["string", "int", "bigint", "bytes"]
"""Type of a parameter; "bytes" is binary or a string as its UTF-8, which kernels take as it is."""

_AS_INTEGER = {"int": INTEGERS[:3], "bigint": INTEGERS}


def converted_type(arguments: Arguments, position: int, parameter: Parameter) -> str:
    """Return the type that an argument is converted to for its parameter.

    Raises:
        NotCompiledError: Spark does not convert it, or not by a rule known here.
    """
    kind = arguments.types[position]
    if parameter == "bytes":
        if kind in ("string", "binary"):
            return kind
        if kind == VOID:
            return "binary"
    elif parameter == "string":
        if kind in ("string", VOID):
            return "string"
    elif kind in (*_AS_INTEGER[parameter], VOID):
        return parameter
    raise arguments.refused()


def signature(
    result: str,
    parameters: tuple[Parameter, ...],
    kernel: Kernel,
    *,
    optional: int = 0,
    reads: Literal["strict", "reversed", "all"] = "strict",
) -> Callable[[Arguments], Resolved]:
    """Return the resolution of calls with these parameters.

    Args:
        result: Spark type of the result.
        parameters: in the call's order.
        kernel: takes a value for each argument that is there.
        optional: how many of the last parameters may be left out.
        reads: order in which Spark looks at the arguments.
    """

    def resolve(arguments: Arguments) -> Resolved:
        count = len(arguments)
        if not len(parameters) - optional <= count <= len(parameters):
            raise arguments.refused()
        types = tuple(converted_type(arguments, k, parameters[k]) for k in range(count))
        return Resolved(result, types, kernel, reads)

    return resolve
