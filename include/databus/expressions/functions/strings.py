"""Functions that make texts of texts: case, concatenation, trimming, padding, replacement, values inside JSON."""

from __future__ import annotations

from collections.abc import Callable

from databus.expressions.functions.patterns import like_pieces
from databus.expressions.functions.registry import Arguments, Kernel, Resolved, register, resolve
from databus.expressions.functions.signatures import Parameter, converted_type, signature
from databus.expressions.kernels.decimals import on_array
from databus.expressions.text import case, shapes
from databus.expressions.text.json_paths import JsonPath
from databus.expressions.types import INTEGERS

_PLAIN = frozenset({"boolean", "date", *INTEGERS})
_MOST_CHARACTERS = 1_000_000
"""Longest text that padding and repetition make from a constant length."""


def _as_texts(arguments: Arguments) -> tuple[str, ...]:
    """Return the types that parts are converted to; numbers without fraction, booleans and dates become text."""
    return tuple(
        "string" if kind in _PLAIN else converted_type(arguments, position, "string")
        for position, kind in enumerate(arguments.types)
    )


def _concat(arguments: Arguments) -> Resolved:
    if set(arguments.types) == {"binary"}:
        return Resolved("binary", arguments.types, shapes.concat, "all")
    return Resolved("string", _as_texts(arguments), shapes.concat, "all")


def _concat_ws(arguments: Arguments) -> Resolved:
    if not len(arguments):
        raise arguments.refused()
    return Resolved("string", _as_texts(arguments), shapes.concat_ws, "all")


def _trim(kernel: Kernel) -> Callable[[Arguments], Resolved]:
    """Return the resolution of a trimming function: of two arguments the first is the characters."""

    def resolved(arguments: Arguments) -> Resolved:
        if len(arguments) == 1:
            return signature("string", ("string",), kernel)(arguments)
        swapped = signature("string", ("string", "string"), lambda chars, text: kernel(text, chars), reads="reversed")
        return swapped(arguments)

    return resolved


def _of_length(kernel: Kernel, *parameters: Parameter, optional: int = 0) -> Callable[[Arguments], Resolved]:
    """Return the resolution of a function whose integer says how long the text becomes."""

    def resolved(arguments: Arguments) -> Resolved:
        found = signature("string", parameters, kernel, optional=optional)(arguments)
        length = arguments.literal(parameters.index("int"))
        if isinstance(length, int) and length > _MOST_CHARACTERS:
            raise arguments.refused(f"a length above {_MOST_CHARACTERS}")
        return found

    return resolved


def _ilike(arguments: Arguments) -> Resolved:
    if len(arguments) not in (2, 3) or set(arguments.types) != {"string"}:
        raise arguments.refused()
    pattern = arguments.literal(1)
    escape = arguments.literal(2) if len(arguments) == 3 else "\\"
    if pattern is None or not escape or escape.isalpha() or not like_pieces(case.lower_text(pattern), escape):
        raise arguments.refused("its pattern or escape")
    lowered = (arguments.literals[0], case.lower_text(pattern), escape)[: len(arguments)]
    like = resolve(Arguments("like", arguments.types, lowered, arguments.ansi, arguments.written))
    return Resolved("boolean", like.arguments, lambda text, *others: like.kernel(case.lower(text), *others))


_TEXT: tuple[Parameter, ...] = ("string",)

register("upper", "ucase", resolve=signature("string", _TEXT, case.upper))
register("lower", "lcase", resolve=signature("string", _TEXT, case.lower))
register("initcap", resolve=signature("string", _TEXT, case.initcap))
register("concat", resolve=_concat)
register("concat_ws", resolve=_concat_ws)
register("trim", resolve=_trim(shapes.trim))
register("ltrim", resolve=_trim(shapes.ltrim))
register("rtrim", resolve=_trim(shapes.rtrim))
register("btrim", resolve=signature("string", _TEXT * 2, shapes.trim, optional=1))
register("lpad", resolve=_of_length(shapes.lpad, "string", "int", "string", optional=1))
register("rpad", resolve=_of_length(shapes.rpad, "string", "int", "string", optional=1))
register("repeat", resolve=_of_length(shapes.repeat, "string", "int"))
register("space", resolve=_of_length(shapes.space, "int"))
register("reverse", resolve=signature("string", _TEXT, shapes.reverse))
register("replace", resolve=signature("string", _TEXT * 3, shapes.replace, optional=1))
register("translate", resolve=signature("string", _TEXT * 3, shapes.translate))
register("quote", resolve=signature("string", _TEXT, shapes.quote))
register("ilike", resolve=_ilike)


def _get_json_object(*, digits: bool) -> Callable[[Arguments], Resolved]:
    def resolved(arguments: Arguments) -> Resolved:
        if len(arguments) != 2:
            raise arguments.refused()
        converted_type(arguments, 0, "string")
        given = arguments.literal(1)
        path = JsonPath.of(given, digits=digits) if isinstance(given, str) else None
        if path is None:
            raise arguments.refused(f"the path {given}")
        in_texts = on_array(path.values)
        return Resolved("string", ("string", "string"), lambda texts, _: in_texts(texts))

    return resolved


register("get_json_object", resolve=_get_json_object(digits=False))
register("_json_digits", resolve=_get_json_object(digits=True))
