"""Characters of texts: their count, codes, classes and likeness."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.text.values import Value, rowwise

_SOUNDEX = "01230127022455012623017202"
"""Digit of each letter; 7 is passed over, 0 parts equal digits."""
_ASCII_CASE = {97 + k: 65 + k for k in range(26)}


def length(text: Value) -> Value:
    """Return the characters of texts, the bytes of binary values."""
    return _int(pc.utf8_length(text) if pa.types.is_string(text.type) else pc.binary_length(text))


def octet_length(text: Value) -> Value:
    """Return the bytes of texts, as UTF-8, or of binary values."""
    return _int(pc.binary_length(text))


def bit_length(text: Value) -> Value:
    """Return the bits of texts, as UTF-8, or of binary values."""
    return _int(pc.multiply(pc.binary_length(text), pa.scalar(8, pa.int32())))


def _int(value: Value) -> Value:
    return value if value.type == pa.int32() else value.cast(pa.int32())


def ascii_code(text: Value) -> Value:
    """Return the code point of the first character, 0 of an empty text."""
    return rowwise(pa.int32(), lambda value: ord(value[0]) if value else 0, text)


def character(code: Value) -> Value:
    """Return the character of a code's lowest eight bits (Latin-1); "" below 0."""
    return rowwise(pa.string(), lambda value: "" if value < 0 else chr(value & 0xFF), code)


def levenshtein(one: Value, other: Value) -> Value:
    """Return the least count of characters to insert, remove or replace that makes one text the other."""
    return rowwise(pa.int32(), _distance, one, other)


def _distance(one: str, other: str) -> int:
    before = list(range(len(other) + 1))
    for i, left in enumerate(one):
        row = [i + 1]
        for j, right in enumerate(other):
            row.append(min(row[j] + 1, before[j + 1] + 1, before[j] + (left != right)))
        before = row
    return before[-1]


def soundex(text: Value) -> Value:
    """Return the Soundex code of texts that begin with a letter A to Z; others as they are."""
    return rowwise(pa.string(), _sounds, text)


def _sounds(text: str) -> str:
    letters = text.translate(_ASCII_CASE)
    if not "A" <= letters[:1] <= "Z":
        return text
    code = letters[0]
    last = _SOUNDEX[ord(code) - 65]
    for letter in letters[1:]:
        if not "A" <= letter <= "Z":
            last = "0"
            continue
        digit = _SOUNDEX[ord(letter) - 65]
        if digit == "7":
            continue
        if digit not in ("0", last):
            code += digit
            if len(code) == 4:
                break
        last = digit
    return code.ljust(4, "0")


def luhn_check(text: Value) -> Value:
    """Return whether texts are digits with Luhn's check digit last."""
    return rowwise(pa.bool_(), _is_luhn, text)


def _is_luhn(text: str) -> bool:
    if not text or not all(each.isdecimal() and each <= "\uffff" for each in text):
        return False
    digits = [int(each) for each in reversed(text)]
    return sum(digits[0::2] + [2 * d - 9 if d > 4 else 2 * d for d in digits[1::2]]) % 10 == 0
