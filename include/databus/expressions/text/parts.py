"""Parts of texts and places in them; characters are code points, and places count from 1."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.text.values import Value, is_constant, rowwise

_Sequence = TypeVar("_Sequence", str, bytes)

_MAX_INT = 2**31 - 1
_FIRST = pa.scalar(1, pa.int32())
_OWN_LENGTH = pa.scalar(-1, pa.int32())


def substring(text: Value, start: Value, length: Value | None = None) -> Value:
    """Return the part of texts or bytes from a place: 0 is the first one too, below 0 counts from the end."""
    kind = text.type
    if pa.types.is_string(kind) and isinstance(text, pa.Array) and is_constant(start) and start.is_valid:
        first = start.as_py()
        if length is None and first > -(2**30):
            return pc.utf8_slice_codeunits(text, first - 1 if first > 0 else first)
        if first >= 0 and length is not None and is_constant(length) and length.is_valid and length.as_py() > 0:
            begin = max(first - 1, 0)
            return pc.utf8_slice_codeunits(text, begin, min(begin + length.as_py(), _MAX_INT))
    return rowwise(kind, _part, text, start, pa.scalar(_MAX_INT, pa.int32()) if length is None else length)


def _part(text: _Sequence, start: int, length: int) -> _Sequence:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(begin, 0) : max(begin + length, 0)]


def left(text: Value, length: Value) -> Value:
    """Return the first characters of texts, or bytes."""
    return substring(text, _FIRST, length)


def right(text: Value, length: Value) -> Value:
    """Return the last characters of texts."""
    return rowwise(pa.string(), lambda value, count: value[-count:] if count > 0 else "", text, length)


def split_part(text: Value, separator: Value, number: Value) -> Value:
    """Return a part of texts between separators, from the end below 0, but not 0; "" where there is none."""

    def part(value: str, by: str, place: int) -> str:
        parts = value.split(by) if by else [value]
        if abs(place) > len(parts):
            return ""
        return parts[place - 1 if place > 0 else place]

    return rowwise(pa.string(), part, text, separator, number)


def substring_index(text: Value, separator: Value, count: Value) -> Value:
    """Return texts up to the count-th separator, or after the count-th from the end where the count is below 0."""
    return rowwise(pa.string(), _up_to, text, separator, count)


def _up_to(text: str, separator: str, count: int) -> str:
    if not separator or not count:
        return ""
    if count > 0:
        place = -1
        for _ in range(count):
            place = text.find(separator, place + 1)
            if place < 0:
                return text
        return text[:place]
    place = len(text) - len(separator) + 1
    for _ in range(-count):
        place = text.rfind(separator, 0, max(place - 1 + len(separator), 0)) if place > 0 else -1
        if place < 0:
            return text
    return text[place + len(separator) :]


def overlay(text: Value, replacement: Value, start: Value, length: Value = _OWN_LENGTH) -> Value:
    """Return texts with a part replaced: as many characters as `length` says, the replacement's where it is below 0."""

    def replaced(value: str, by: str, place: int, count: int) -> str:
        after = _int(place + (count if count >= 0 else len(by)))
        return _part(value, 1, _int(place - 1)) + by + _part(value, after, _MAX_INT)

    return rowwise(pa.string(), replaced, text, replacement, start, length)


def _int(value: int) -> int:
    """Return an integer as Java's 32 bits hold it."""
    return (value + 2**31) % 2**32 - 2**31


def instr(text: Value, part: Value) -> Value:
    """Return the first place of a part in texts, 0 where there is none."""
    return rowwise(pa.int32(), lambda value, found: value.find(found) + 1, text, part)


def locate(part: Value, text: Value, start: Value = _FIRST) -> Value:
    """Return the first place of a part from a place on; 0 where there is none, and from NULL or below 1 on."""
    start = pc.fill_null(start, 0)
    return rowwise(pa.int32(), _located, part, text, start)


def _located(part: str, text: str, start: int) -> int:
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def starts_with(text: Value, part: Value) -> Value:
    """Return whether texts begin with a part."""
    if isinstance(text, pa.Array) and _is_text(part):
        return pc.starts_with(text, part.as_py())
    return rowwise(pa.bool_(), lambda value, found: value.startswith(found), text, part)


def ends_with(text: Value, part: Value) -> Value:
    """Return whether texts end with a part."""
    if isinstance(text, pa.Array) and _is_text(part):
        return pc.ends_with(text, part.as_py())
    return rowwise(pa.bool_(), lambda value, found: value.endswith(found), text, part)


def contains(text: Value, part: Value) -> Value:
    """Return whether texts hold a part."""
    if isinstance(text, pa.Array) and _is_text(part):
        return pc.match_substring(text, part.as_py())
    return rowwise(pa.bool_(), lambda value, found: found in value, text, part)


def _is_text(part: Value) -> bool:
    return is_constant(part) and part.is_valid and pa.types.is_string(part.type)


def find_in_set(item: Value, items: Value) -> Value:
    """Return the place of an item in a list with commas, 0 where it is not in it or has a comma itself."""

    def place(one: str, many: str) -> int:
        found = many.split(",")
        return 0 if "," in one or one not in found else found.index(one) + 1

    return rowwise(pa.int32(), place, item, items)
