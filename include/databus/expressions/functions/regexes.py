"""Functions of regular expressions, where the pattern is constant and means the same in Java and here."""

from __future__ import annotations

from databus.expressions.errors import NotCompiledError
from databus.expressions.functions.registry import Arguments, Resolved, register
from databus.expressions.functions.signatures import converted_type
from databus.expressions.text import regex
from databus.expressions.text.patterns import Pattern, translated


def _pattern(arguments: Arguments, *, may_be_empty: bool = False) -> Pattern:
    """Return the pattern of a call.

    Raises:
        NotCompiledError: it is not constant or not known, or it may match no character.
    """
    text = arguments.literal(1)
    if not isinstance(text, str):
        raise arguments.refused("its pattern is no text")
    found = translated(text)
    if found.may_be_empty and not may_be_empty:
        raise NotCompiledError(f"{arguments.name} with the pattern {text[:40]!r}, which may match no character")
    return found


def _types(arguments: Arguments, least: int, most: int) -> tuple[str, ...]:
    if not least <= len(arguments) <= most:
        raise arguments.refused()
    converted_type(arguments, 0, "string")
    return ("string", *arguments.types[1:])


def _rlike(arguments: Arguments) -> Resolved:
    types = _types(arguments, 2, 2)
    pattern = _pattern(arguments, may_be_empty=True)
    return Resolved("boolean", types, lambda text, _: regex.matches(text, pattern))


def _extract(arguments: Arguments) -> Resolved:
    types = _types(arguments, 2, 3)
    pattern = _pattern(arguments, may_be_empty=True)
    group = arguments.literal(2) if len(arguments) == 3 else 1
    if type(group) is not int or not 0 <= group <= pattern.groups or group in pattern.repeated:
        raise arguments.refused(f"group {group} of its pattern")
    types = (*types[:2], "int")[: len(arguments)]
    return Resolved("string", types, lambda text, *_: regex.extracted(text, pattern, group))


def _replace(arguments: Arguments) -> Resolved:
    types = _types(arguments, 3, 3)
    pattern = _pattern(arguments)
    by = arguments.literal(2)
    if not isinstance(by, str):
        raise arguments.refused("its replacement is no text")
    replacement = regex.python_replacement(by, pattern)
    return Resolved("string", types, lambda text, *_: regex.replaced(text, pattern, replacement))


def _count(arguments: Arguments) -> Resolved:
    types, pattern = _types(arguments, 2, 2), _pattern(arguments)
    return Resolved("int", types, lambda text, _: regex.counted(text, pattern))


def _instr(arguments: Arguments) -> Resolved:
    types, pattern = _types(arguments, 2, 2), _pattern(arguments)
    return Resolved("int", types, lambda text, _: regex.placed(text, pattern))


def _substr(arguments: Arguments) -> Resolved:
    types, pattern = _types(arguments, 2, 2), _pattern(arguments)
    return Resolved("string", types, lambda text, _: regex.first_match(text, pattern))


register("rlike", "regexp_like", resolve=_rlike)
register("regexp_extract", resolve=_extract)
register("regexp_replace", resolve=_replace)
register("regexp_count", resolve=_count)
register("regexp_instr", resolve=_instr)
register("regexp_substr", resolve=_substr)
