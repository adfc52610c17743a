"""Texts put together, trimmed, padded and rewritten."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.text.values import Value, is_constant, rowwise

_BLANK = " "
_NOTHING, _ONE_BLANK = pa.scalar("", pa.string()), pa.scalar(_BLANK, pa.string())


def concat(*parts: Value) -> Value:
    """Return texts, or bytes, one after the other; NULL where one is NULL."""
    if not parts:
        return _NOTHING
    if len(parts) == 1:
        return parts[0]
    nothing = pa.scalar("" if pa.types.is_string(parts[0].type) else b"", parts[0].type)
    return pc.binary_join_element_wise(*parts, nothing, null_handling="emit_null")


def concat_ws(separator: Value, *parts: Value) -> Value:
    """Return texts with a separator between them; NULLs are left out, a separator that is NULL gives NULL."""
    if not parts:
        return rowwise(pa.string(), lambda _: "", separator)
    none = pc.is_null(parts[0])
    for part in parts[1:]:
        none = pc.and_(none, pc.is_null(part))
    # Arrow 26 leaves a row out where all parts are NULL.
    first = pc.if_else(none, _NOTHING, parts[0])
    return pc.binary_join_element_wise(first, *parts[1:], separator, null_handling="skip")


def trim(text: Value, characters: Value | None = None) -> Value:
    """Return texts without blanks (U+0020 alone), or without given characters, at both ends."""
    if isinstance(text, pa.Array) and _are_known(characters):
        return pc.utf8_trim(text, _BLANK if characters is None else characters.as_py())
    return rowwise(pa.string(), str.strip, text, _or_blank(characters))


def ltrim(text: Value, characters: Value | None = None) -> Value:
    """Return texts without blanks, or given characters, at their beginning."""
    if isinstance(text, pa.Array) and _are_known(characters):
        return pc.utf8_ltrim(text, _BLANK if characters is None else characters.as_py())
    return rowwise(pa.string(), str.lstrip, text, _or_blank(characters))


def rtrim(text: Value, characters: Value | None = None) -> Value:
    """Return texts without blanks, or given characters, at their end."""
    if isinstance(text, pa.Array) and _are_known(characters):
        return pc.utf8_rtrim(text, _BLANK if characters is None else characters.as_py())
    return rowwise(pa.string(), str.rstrip, text, _or_blank(characters))


def _are_known(characters: Value | None) -> bool:
    return characters is None or (is_constant(characters) and characters.is_valid and bool(characters.as_py()))


def _or_blank(characters: Value | None) -> Value:
    return _ONE_BLANK if characters is None else characters


def lpad(text: Value, length: Value, padding: Value = _ONE_BLANK) -> Value:
    """Return texts of a length in characters, padded at the beginning; longer ones lose their end."""
    return rowwise(
        pa.string(), lambda value, count, by: _padding(value, count, by) + value[: max(count, 0)], text, length, padding
    )


def rpad(text: Value, length: Value, padding: Value = _ONE_BLANK) -> Value:
    """Return texts of a length in characters, padded at the end; longer ones lose their end."""
    return rowwise(
        pa.string(), lambda value, count, by: value[: max(count, 0)] + _padding(value, count, by), text, length, padding
    )


def _padding(text: str, length: int, padding: str) -> str:
    missing = length - len(text)
    if missing <= 0 or not padding:
        return ""
    return (padding * (missing // len(padding) + 1))[:missing]


def repeat(text: Value, times: Value) -> Value:
    """Return texts several times over; "" where that is below 1."""
    return rowwise(pa.string(), lambda value, count: value * count, text, times)


def space(count: Value) -> Value:
    """Return blanks."""
    return rowwise(pa.string(), lambda times: _BLANK * times, count)


def reverse(text: Value) -> Value:
    """Return texts with their code points the other way round."""
    return pc.utf8_reverse(text)


def replace(text: Value, part: Value, replacement: Value = _NOTHING) -> Value:
    """Return texts with every occurrence of a part replaced; an empty part occurs nowhere."""
    known = is_constant(part) and is_constant(replacement) and part.is_valid and replacement.is_valid
    if known and isinstance(text, pa.Array) and part.as_py():
        return pc.replace_substring(text, part.as_py(), replacement.as_py())
    return rowwise(
        pa.string(), lambda value, old, new: value.replace(old, new) if old else value, text, part, replacement
    )


def translate(text: Value, characters: Value, replacements: Value) -> Value:
    """Return texts with characters replaced one by one; those without a replacement are left out."""
    if is_constant(characters) and is_constant(replacements) and characters.is_valid and replacements.is_valid:
        table = _translation(characters.as_py(), replacements.as_py())
        return rowwise(pa.string(), lambda value: value.translate(table), text)
    return rowwise(
        pa.string(), lambda value, old, new: value.translate(_translation(old, new)), text, characters, replacements
    )


def _translation(characters: str, replacements: str) -> dict[int, str | None]:
    """Return code point → its replacement. The first mention of a character counts; NUL as a replacement removes."""
    table: dict[int, str | None] = {}
    for k, character in enumerate(characters):
        by = replacements[k] if k < len(replacements) else "\0"
        table.setdefault(ord(character), None if by == "\0" else by)
    return table


def quote(text: Value) -> Value:
    """Return texts between quotation marks, each mark in them behind a backslash."""
    return rowwise(pa.string(), lambda value: "'" + value.replace("'", "\\'") + "'", text)
