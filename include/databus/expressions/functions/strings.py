"""Functions of texts: upper, lower and title case, and digests.

Digests (MD5, SHA-1, SHA-2 in lower-case hex digits, CRC-32 as a number) are standards with one value for each input,
which `hashlib` and `zlib` give. Case is compared with Spark over every character.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from databus.expressions.functions.registry import Arguments, Kernel, Resolved, register
from databus.expressions.text import case, digests
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


def _sha2(arguments: Arguments) -> Resolved:
    if len(arguments) != 2:
        raise arguments.refused()
    kind, _ = converted_type(arguments, 0, "bytes"), converted_type(arguments, 1, "int")
    bits = arguments.literal(1)
    if bits is None:
        raise arguments.refused("bits that are NULL")
    return Resolved("string", (kind, "int"), lambda data, _: digests.sha2(data, bits))


register("sha2", resolve=_sha2)
register("sha", "sha1", resolve=signature("string", ("bytes",), digests.sha1))
register("md5", resolve=signature("string", ("bytes",), digests.md5))
register("crc32", resolve=signature("bigint", ("bytes",), digests.crc32))
register("upper", "ucase", resolve=signature("string", ("string",), case.upper))
register("lower", "lcase", resolve=signature("string", ("string",), case.lower))
register("initcap", resolve=signature("string", ("string",), case.initcap))
