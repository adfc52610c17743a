"""Texts of numbers and booleans: what Spark takes for one, and bases other than ten."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import ExpressionError
from databus.expressions.kernels.decimals import OUT_OF_RANGE, narrowed, nearest_single
from databus.expressions.kernels.integers import OVERFLOW

INVALID: Final = "CAST_INVALID_INPUT"
BLANK: Final = "".join(map(chr, range(33))) + "\x7f"
"""White space and control characters that UTF8String trims."""
_JAVA_BLANK = "".join(map(chr, range(33)))
_SHORT_INTEGER = "^[+-]?[0-9]{1,18}$"
_INTEGER = re.compile("[+-]?[0-9]+")
_FRACTION = re.compile(r"([+-]?[0-9]+)\.[0-9]*|[+-]?\.[0-9]+")
_SHORT_DOUBLE = r"^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$"
_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))([fFdD]?)")
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_SPECIAL = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.(?P<tail>\d*))?|\.(?P<only>\d+))(?:[eE](?P<exponent>[+-]?\d+))?")
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_EXACT = Context(prec=200, Emax=10**12, Emin=-(10**12))
_INT32 = 2**31
_BEYOND_JAVA = "java.lang.ArithmeticException"
_BASES = range(2, 37)
_UNSIGNED = 2**64


def integers(kind: pa.DataType, *, fails: bool, fraction: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the cast of texts to an integer type.

    Args:
        kind: Arrow type of the integer.
        fails: whether another text is an error; otherwise it is NULL.
        fraction: whether digits after a point are allowed, and dropped.
    """
    limits = np.iinfo(kind.to_pandas_dtype())

    def parsed(text: str) -> int | None:
        if _INTEGER.fullmatch(text):
            value = int(text) if len(text) < 4_000 else int(text[0].strip("+0123456789") + text.lstrip("+-0")[:50])
        elif fraction and (found := _FRACTION.fullmatch(text)) and found[1] and len(text) < 4_000:
            value = int(found[1])
        else:
            return None
        return value if limits.min <= value <= limits.max else None

    def cast(texts: pa.Array) -> pa.Array:
        trimmed = pc.ascii_trim(texts, characters=BLANK)
        short = pc.match_substring_regex(trimmed, _SHORT_INTEGER)
        made = pc.cast(pc.ascii_ltrim(pc.if_else(short, trimmed, None), characters="+"), pa.int64())
        outside = pc.or_(pc.less(made, int(limits.min)), pc.greater(made, int(limits.max)))
        made = pc.if_else(outside, None, made) if kind != pa.int64() else made
        return _with_others(trimmed, made.cast(kind), parsed, fails)

    return cast


def doubles(kind: pa.DataType, *, fails: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the cast of texts to double or float."""
    single = kind == pa.float32()

    def parsed(text: str) -> float | None:
        value = double_of(text)
        found = _DOUBLE.fullmatch(text.strip(_JAVA_BLANK)) if single else None
        if value is None or found is None or not math.isfinite(value):
            return value
        return nearest_single(Decimal(found[1]), value)

    def cast(texts: pa.Array) -> pa.Array:
        if single:
            return _with_others(texts, pa.nulls(len(texts), kind), parsed, fails)
        short = pc.match_substring_regex(texts, _SHORT_DOUBLE)
        return _with_others(texts, pc.cast(pc.if_else(short, texts, None), kind), parsed, fails)

    return cast


def double_of(text: str) -> float | None:
    """Return the double that Java reads in a text, or Spark's special names; None if it is none."""
    text = text.strip(_JAVA_BLANK)
    if found := _DOUBLE.fullmatch(text):
        return float(found[1])
    if found := _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return float("-inf" if text[0] == "-" else "inf")
    return _SPECIAL.get(text.lower())


def decimals(digits: int, scale: int, *, fails: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the cast of texts to a decimal, rounded half up."""
    kind = pa.decimal128(digits, scale)
    short = f"^-?[0-9]{{1,{38 - scale}}}" + (rf"(\.[0-9]{{1,{scale}}})?$" if scale else "$") if scale < 38 else "^a^"

    def parsed(text: str) -> Decimal | None:
        try:
            return decimal_of(text, digits, scale)
        except ExpressionError as error:
            if fails or error.error_class == _BEYOND_JAVA:
                raise
            return None

    def cast(texts: pa.Array) -> pa.Array:
        plain = pc.match_substring_regex(texts, short)
        wide = pc.cast(pc.if_else(plain, texts, None), pa.decimal128(38, scale))
        made = narrowed(wide.cast(pa.decimal256(76, scale)), digits, scale, fails=fails)
        return _with_others(texts, made.cast(kind), parsed, fails, missing=pc.and_(pc.invert(plain), texts.is_valid()))

    return cast


def decimal_of(text: str, digits: int, scale: int) -> Decimal | None:
    """Return the decimal that java.math.BigDecimal reads in a text, rounded half up; None if it is none.

    Raises:
        ExpressionError: NUMERIC_OUT_OF_SUPPORTED_RANGE or NUMERIC_VALUE_OUT_OF_RANGE: it has too many digits.
    """
    text = text.strip(_JAVA_BLANK)
    found = _DECIMAL.fullmatch(text)
    if found is None or any(ord(each) > 0xFFFF for each in text):
        return None
    exponent = int(found["exponent"] or 0)
    places = len(found["tail"] or found["only"] or "") - exponent
    if not -_INT32 < exponent < _INT32 or not -_INT32 <= places < _INT32:
        return None
    value = Decimal(text)
    figures = len(value.as_tuple().digits)
    if figures - places >= _INT32:
        raise ExpressionError(_BEYOND_JAVA, "a text has more digits than Java counts")
    if figures - places > 38:
        raise ExpressionError("NUMERIC_OUT_OF_SUPPORTED_RANGE", "a text has more than 38 digits before the point")
    if value.adjusted() < -scale - 1:
        return Decimal(0).scaleb(-scale)
    made = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    if abs(made) >= Decimal(10) ** (digits - scale):
        raise ExpressionError(OUT_OF_RANGE, f"a text cannot be held by decimal({digits},{scale})")
    return made


def booleans(*, fails: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the cast of texts to boolean."""

    def cast(texts: pa.Array) -> pa.Array:
        lower = pc.ascii_lower(pc.ascii_trim(texts, characters=BLANK))
        true, false = (pc.is_in(lower, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
        known = pc.or_(true, false)
        return _checked(pc.if_else(known, true, None), texts, fails)

    return cast


def hexadecimal(value: int) -> str:
    """Return a bigint's 64 bits in base 16, without leading zeros."""
    return format(value % _UNSIGNED, "X")


def binary(value: int) -> str:
    """Return a bigint's 64 bits in base 2, without leading zeros."""
    return format(value % _UNSIGNED, "b")


def converted(text: str, base: int, to: int) -> str | None:
    """Return a number's text in another base; None for bases that there are not, and for an empty text.

    Args:
        text: the number, by its leading digits, as 64 bits.
        base: its base, 2 to 36.
        to: base of the result; negative: the result is signed.

    Raises:
        ExpressionError: ARITHMETIC_OVERFLOW: more than 64 bits.
    """
    text = text.strip(" ")
    if base not in _BASES or abs(to) not in _BASES or not text:
        return None
    negative = text[0] == "-"
    value = 0
    for each in text[negative:]:
        figure = _figure(each)
        if figure >= base:
            break
        value = value * base + figure
        if value >= _UNSIGNED:
            raise ExpressionError(OVERFLOW, "a number has more than 64 bits")
    if negative and to > 0:
        value = _UNSIGNED - 1 if value >= _UNSIGNED // 2 else -value % _UNSIGNED
    if to < 0 and value >= _UNSIGNED // 2:
        value, negative = _UNSIGNED - value, True
    figures = ""
    while value or not figures:
        value, figure = divmod(value, abs(to))
        figures = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[figure] + figures
    return f"-{figures}" if negative and to < 0 else figures


def _figure(character: str) -> int:
    return int(character, 36) if character.isascii() and character.isalnum() else 99


def _with_others(
    texts: pa.Array,
    made: pa.Array,
    parsed: Callable[[str], Any],
    fails: bool,
    *,
    missing: pa.Array | None = None,
) -> pa.Array:
    """Return a column with the texts that the fast way has left out, read one by one."""
    left = pc.and_(made.is_null(), texts.is_valid()) if missing is None else missing
    if not pc.any(left).as_py():
        return made
    others = pa.array([parsed(text) for text in texts.filter(left).to_pylist()], made.type)
    return _checked(pc.replace_with_mask(made, left, others), texts, fails, where=left)


def _checked(made: pa.Array, texts: pa.Array, fails: bool, *, where: pa.Array | None = None) -> pa.Array:
    if fails:
        bad = pc.and_(made.is_null(), texts.is_valid() if where is None else where)
        if pc.any(bad).as_py():
            raise ExpressionError(INVALID, f"a text cannot be cast to {made.type}")
    return made
