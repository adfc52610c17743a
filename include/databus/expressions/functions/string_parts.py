"""Functions that take texts apart, search in them, and measure them."""

from __future__ import annotations

from collections.abc import Callable

from databus.expressions.functions.registry import Arguments, Kernel, Resolved, register
from databus.expressions.functions.signatures import Parameter, converted_type, signature
from databus.expressions.text import characters, parts

_TEXT: tuple[Parameter, ...] = ("string",)
_LEAST_INT = -(2**31)
"""Java's least integer, which has no opposite."""


def _refuse_large(arguments: Arguments) -> None:
    """Refuse parts of bytes unless their places are small constants: Spark's sums of large ones overflow."""
    if arguments.types[0] == "binary":
        places = [arguments.literal(k) for k in range(1, len(arguments))]
        if not all(place is None or (isinstance(place, int) and abs(place) < 2**30) for place in places):
            raise arguments.refused("places this large")


def _substring(arguments: Arguments) -> Resolved:
    if len(arguments) not in (2, 3):
        raise arguments.refused()
    _refuse_large(arguments)
    kind = "binary" if arguments.types[0] == "binary" else converted_type(arguments, 0, "string")
    types = (kind, *(converted_type(arguments, k, "int") for k in range(1, len(arguments))))
    return Resolved(kind, types, parts.substring)


def _left(arguments: Arguments) -> Resolved:
    if len(arguments) != 2:
        raise arguments.refused()
    _refuse_large(arguments)
    kind = "binary" if arguments.types[0] == "binary" else converted_type(arguments, 0, "string")
    return Resolved(kind, (kind, converted_type(arguments, 1, "int")), parts.left)


def _locate(arguments: Arguments) -> Resolved:
    if len(arguments) not in (2, 3):
        raise arguments.refused()
    if len(arguments) == 3 and arguments.literal(2) is None:
        raise arguments.refused("a place that is NULL")
    types = ("string", "string", "int")[: len(arguments)]
    for position, kind in enumerate(types):
        converted_type(arguments, position, "int" if kind == "int" else "string")
    return Resolved("int", types, parts.locate)


def _numbered(kernel: Kernel, refused: frozenset[int]) -> Callable[[Arguments], Resolved]:
    """Return the resolution of a function whose third argument is a constant number, of which some are refused."""

    def resolved(arguments: Arguments) -> Resolved:
        found = signature("string", ("string", "string", "int"), kernel)(arguments)
        if arguments.literal(2) in refused:
            raise arguments.refused(f"the number {arguments.literal(2)}")
        return found

    return resolved


register("length", "char_length", "character_length", "len", resolve=signature("int", ("bytes",), characters.length))
register("octet_length", resolve=signature("int", ("bytes",), characters.octet_length))
register("bit_length", resolve=signature("int", ("bytes",), characters.bit_length))
register("substring", "substr", resolve=_substring)
register("left", resolve=_left)
register("right", resolve=signature("string", ("string", "int"), parts.right))
register("split_part", resolve=_numbered(parts.split_part, frozenset({0, _LEAST_INT})))
register("substring_index", resolve=_numbered(parts.substring_index, frozenset({_LEAST_INT})))
register("overlay", resolve=signature("string", ("string", "string", "int", "int"), parts.overlay, optional=1))
register("instr", resolve=signature("int", _TEXT * 2, parts.instr))
register("locate", "position", resolve=_locate)
register("startswith", resolve=signature("boolean", _TEXT * 2, parts.starts_with))
register("endswith", resolve=signature("boolean", _TEXT * 2, parts.ends_with))
register("contains", resolve=signature("boolean", _TEXT * 2, parts.contains))
register("find_in_set", resolve=signature("int", _TEXT * 2, parts.find_in_set))
register("ascii", resolve=signature("int", _TEXT, characters.ascii_code))
register("chr", "char", resolve=signature("string", ("bigint",), characters.character))
register("levenshtein", resolve=signature("int", _TEXT * 2, characters.levenshtein))
register("soundex", resolve=signature("string", _TEXT, characters.soundex))
register("luhn_check", resolve=signature("boolean", _TEXT, characters.luhn_check))
