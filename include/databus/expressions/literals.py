"""Literals as Spark types them: integers by size, 1.5 a decimal, 1e3 a double, DATE'…', TIMESTAMP'…', X'…'."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np

from databus.expressions.errors import NotCompiledError
from databus.expressions.lexer import Lexeme
from databus.expressions.tree import Literal
from databus.expressions.types import MAX_DIGITS, decimal

_SIZES = (("int", 31), ("bigint", 63))
_SUFFIXES = {"Y": ("tinyint", 7), "S": ("smallint", 15), "L": ("bigint", 63)}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?))?")

WORDS = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz"})
"""Words that a string follows to make a literal."""


def number_literal(token: Lexeme, *, negative: bool) -> Literal:
    """Return the literal of a number, its sign included.

    Raises:
        NotCompiledError: it does not fit, or is written as no number that is read here.
    """
    text = f"-{token.text}" if negative else token.text
    whole, power = token.text.isdigit(), "e" in token.text.lower()
    if token.suffix in _SUFFIXES and whole:
        kind, bits = _SUFFIXES[token.suffix]
        return _integer(int(text), kind, bits)
    if token.suffix == "D" or (power and not token.suffix):
        return _float(float(text), "double", token)
    if token.suffix == "F":
        return _float(float(np.float32(text)), "float", token)
    if token.suffix not in ("", "BD") or power:
        raise NotCompiledError(f"the number {token.raw}")
    if whole and not token.suffix:
        for kind, bits in _SIZES:
            if -(1 << bits) <= int(text) < 1 << bits:
                return Literal(int(text), kind)
    exact = Decimal(text)
    scale = -int(exact.as_tuple().exponent)
    digits = max(len(str(abs(int(exact.scaleb(scale))))), scale)
    if digits > MAX_DIGITS:
        raise NotCompiledError(f"the number {token.raw} of {digits} digits")
    return Literal(exact, decimal(digits, scale))


def literal_type(value: int) -> str:
    """Return the decimal type that has an integer's digits and no more."""
    return decimal(len(str(abs(value))), 0)


def _integer(value: int, kind: str, bits: int) -> Literal:
    if not -(1 << bits) <= value < 1 << bits:
        raise NotCompiledError(f"the number {value} as {kind}")
    return Literal(value, kind)


def _float(value: float, kind: str, token: Lexeme) -> Literal:
    most = np.finfo(np.float32 if kind == "float" else np.float64).max
    if abs(Decimal(token.text)) > Decimal(float(most)):
        raise NotCompiledError(f"the number {token.raw} as {kind}")
    return Literal(value, kind)


def bytes_literal(token: Lexeme) -> Literal:
    """Return the literal of X'…'; an odd digit stands for a byte of its own, in front."""
    digits = token.text if len(token.text) % 2 == 0 else f"0{token.text}"
    try:
        return Literal(bytes.fromhex(digits), "binary")
    except ValueError:
        raise NotCompiledError(f"the bytes {token.raw}") from None


def time_literal(word: str, text: str) -> Literal:
    """Return the literal of a date or timestamp without a zone; the session's zone is UTC.

    Args:
        word: one of WORDS.
        text: the string after it.

    Raises:
        NotCompiledError: another notation than YYYY-MM-DD and YYYY-MM-DD hh:mm:ss[.ffffff], or no such day.
    """
    refused = NotCompiledError(f"the literal {word.upper()}'{text}'")
    found = (_DATE if word == "date" else _TIMESTAMP).fullmatch(text)
    if found is None:
        raise refused
    try:
        if word == "date":
            return Literal(int(np.datetime64(text, "D").astype(np.int64)), "date")
        at = np.datetime64(f"{found[1]}T{found[2] or '00:00:00'}", "us")
    except ValueError:
        raise refused from None
    return Literal(int(at.astype(np.int64)), "timestamp_ntz" if word == "timestamp_ntz" else "timestamp")
