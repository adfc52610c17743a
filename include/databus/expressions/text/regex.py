"""Regular expressions and LIKE over texts; patterns come translated (`patterns`)."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import NotCompiledError
from databus.expressions.text.patterns import Pattern
from databus.expressions.text.values import Value, rowwise

_REPLACEMENT = re.compile(r"(?:[^$\\]|\$[0-9](?![0-9]))*")
_GROUP = re.compile(r"\$([0-9])")


def matches(text: Value, pattern: Pattern) -> Value:
    """Return whether a pattern is found in texts."""
    if pattern.is_plain and isinstance(text, pa.Array):
        return pc.match_substring_regex(text, pattern.text)
    found = pattern.compiled.search
    return rowwise(pa.bool_(), lambda value: found(value) is not None, text)


def extracted(text: Value, pattern: Pattern, group: int) -> Value:
    """Return a group of the first match; "" without a match, and where the group took no part in it."""
    search = pattern.compiled.search

    def of(value: str) -> str:
        found = search(value)
        return (found[group] or "") if found else ""

    return rowwise(pa.string(), of, text)


def first_match(text: Value, pattern: Pattern) -> Value:
    """Return the first match; NULL without one."""
    search = pattern.compiled.search

    def of(value: str) -> str | None:
        found = search(value)
        return found[0] if found else None

    return rowwise(pa.string(), of, text)


def replaced(text: Value, pattern: Pattern, replacement: str) -> Value:
    """Return texts with every match replaced.

    Args:
        text: a column or a constant.
        pattern: one that takes at least one character.
        replacement: as Python reads it (`python_replacement`).
    """
    replace = pattern.compiled.sub
    return rowwise(pa.string(), lambda value: replace(replacement, value), text)


def counted(text: Value, pattern: Pattern) -> Value:
    """Return how many matches texts have."""
    each = pattern.compiled.finditer
    return rowwise(pa.int32(), lambda value: sum(1 for _ in each(value)), text)


def placed(text: Value, pattern: Pattern) -> Value:
    """Return where the first match begins, in UTF-16 units from 1; 0 without one."""
    search = pattern.compiled.search

    def of(value: str) -> int:
        found = search(value)
        if found is None:
            return 0
        before = value[: found.start()]
        return 1 + len(before) + (0 if before.isascii() else sum(1 for each in before if each > "\uffff"))

    return rowwise(pa.int32(), of, text)


def python_replacement(text: str, pattern: Pattern) -> str:
    """Return a replacement with `$1` as Python writes it.

    Raises:
        NotCompiledError: it uses names, a backslash, a group that is not there or stands under a quantifier.
    """
    groups = {int(digit) for digit in _GROUP.findall(text)}
    if not _REPLACEMENT.fullmatch(text) or groups & pattern.repeated or max(groups, default=0) > pattern.groups:
        raise NotCompiledError(f"the replacement {text[:40]!r}")
    return _GROUP.sub(r"\\g<\1>", text)
