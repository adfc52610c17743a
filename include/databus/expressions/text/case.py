"""Upper, lower and title case as ICU maps them (Spark 4's `spark.sql.icu.caseMappings.enabled`, root locale).

Python's mappings are the same Unicode tables, of the release that it was built with; what ICU's newer release maps
otherwise stands below (what a Python of Unicode 16 has as well changes nothing there).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.text.values import Value, is_ascii, rowwise

_SIGMA = "Σ"
_DOTTED_I = "İ"

_PAIRS = (
    *((0x19B, 0xA7DC), (0x264, 0xA7CB), (0x1C8A, 0x1C89), (0xA7CD, 0xA7CC), (0xA7DB, 0xA7DA)),
    *((lower, lower - 0x20) for lower in range(0x10D70, 0x10D86)),
)
"""(lower, upper)"""

_CASED = "1C89-1C8A A7CB-A7CD A7DA-A7DC 10D50-10D65 10D70-10D85 1DF25-1DF2A "
_IGNORED = (
    "897 ECE 10D4E 10D69-10D6D 10D6F 10EFC-10EFF 11241 113BB-113C0 113CE 113D0 113D2 113E1-113E2 "
    "11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13439-13440 13447-13455 1611E-16129 1612D-1612F "
    "16D40-16D42 16D6B-16D6C 1E030-1E06D 1E08F 1E4EB-1E4EF 1E5EE-1E5EF"
)
"""Characters that the rule of the final sigma passes over (Case_Ignorable), in ranges."""
_WITHOUT_CASE = "1171E"


def _ranges(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found += range(int(first, 16), int(last or first, 16) + 1)
    return found


_UPPER = {lower: chr(upper) for lower, upper in _PAIRS}
"""Code point → its upper case."""

_LOWER = {upper: chr(lower) for lower, upper in _PAIRS}
"""Code point → its lower case."""

_CONTEXT = {
    **dict.fromkeys(_ranges(_CASED), "a"),
    **dict.fromkeys(_ranges(_IGNORED), "\u0301"),
    **dict.fromkeys(_ranges(_WITHOUT_CASE), "!"),
}
"""Code point → a character that means the same for the final sigma."""


def upper(text: Value) -> Value:
    """Return texts in upper case: one character may become three ("ﬃ" → "FFI")."""
    if isinstance(text, pa.Array) and is_ascii(text):
        return pc.ascii_upper(text)
    return rowwise(pa.string(), upper_text, text)


def lower(text: Value) -> Value:
    """Return texts in lower case; Σ at a word's end becomes ς, İ two characters."""
    if isinstance(text, pa.Array) and is_ascii(text):
        return pc.ascii_lower(text)
    return rowwise(pa.string(), lower_text, text)


def initcap(text: Value) -> Value:
    """Return texts with words in title case; a word begins after a blank (U+0020) and nowhere else."""
    return rowwise(pa.string(), _title, text)


def upper_text(text: str) -> str:
    """Return a text in upper case."""
    return text.upper() if text.isascii() else text.translate(_UPPER).upper()


def lower_text(text: str) -> str:
    """Return a text in lower case."""
    if text.isascii():
        return text.lower()
    if _SIGMA in text:
        pieces = zip(text, _sigmas(text), strict=True)
        text = "".join(sigma if each == _SIGMA else each for each, sigma in pieces)
    return text.translate(_LOWER).lower()


def _sigmas(text: str) -> str:
    """Return a text of the same length, with a small or a final sigma for each Σ; the rest means nothing."""
    return text.replace(_DOTTED_I, "I").translate(_CONTEXT).lower()


def _title(text: str) -> str:
    if text.isascii():
        return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))
    sigmas = _sigmas(text) if _SIGMA in text else text
    made: list[str] = []
    first = True
    for each, sigma in zip(text, sigmas, strict=True):
        if first:
            made.append(_UPPER.get(ord(each)) or each.title())
        elif each == _SIGMA:
            made.append(sigma)
        else:
            made.append(_LOWER.get(ord(each)) or each.lower())
        first = each == " "
    return "".join(made)
