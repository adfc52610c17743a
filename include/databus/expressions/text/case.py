"""Upper, lower and title case as ICU maps them (Spark 4's `spark.sql.icu.caseMappings.enabled`, root locale).

Python's mappings are the same Unicode tables, of the release that it was built with; what ICU's newer release maps
otherwise stands in `case_tables`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.text import case_tables as tables
from databus.expressions.text.values import Value, is_ascii, rowwise

_SIGMA, _FINAL_SIGMA, _SMALL_SIGMA = "Σ", "ς", "σ"
_DOTTED_I, _SMALL_DOTTED_I = "İ", "i̇"


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
    return text.upper() if text.isascii() else text.translate(tables.UPPER).upper()


def lower_text(text: str) -> str:
    """Return a text in lower case."""
    if text.isascii():
        return text.lower()
    if _SIGMA in text:
        pieces = zip(text, _sigmas(text), strict=True)
        text = "".join(sigma if each == _SIGMA else each for each, sigma in pieces)
    return text.translate(tables.LOWER).lower()


def _sigmas(text: str) -> str:
    """Return a text of the same length, with a small or a final sigma for each Σ; the rest means nothing."""
    return text.replace(_DOTTED_I, "I").translate(tables.CONTEXT).lower()


def _title(text: str) -> str:
    if text.isascii():
        return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))
    sigmas = _sigmas(text) if _SIGMA in text else text
    made: list[str] = []
    first = True
    for each, sigma in zip(text, sigmas, strict=True):
        if first:
            made.append(tables.TITLE.get(ord(each)) or each.title())
        elif each == _SIGMA:
            made.append(sigma)
        else:
            made.append(tables.LOWER.get(ord(each)) or each.lower())
        first = each == " "
    return "".join(made)
