"""Bytes as text and text as bytes: hex digits, Base64, UTF-8, URLs."""

from __future__ import annotations

import binascii
import re
from urllib.parse import quote_plus

import pyarrow as pa

from databus.expressions.errors import ExpressionError
from databus.expressions.text.values import Value, rowwise

_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]+")
_NO_DIGIT = re.compile(rb"[^A-Za-z0-9+/]")
_HEX = re.compile(r"[0-9A-Fa-f]*")


def hex_of_number(number: Value) -> Value:
    """Return integers in upper-case hex digits; those below 0 as two's complement of 64 bits."""
    return rowwise(pa.string(), lambda value: f"{value & 0xFFFFFFFFFFFFFFFF:X}", number)


def hex_of_bytes(data: Value) -> Value:
    """Return bytes, or a text's UTF-8, in upper-case hex digits."""
    return rowwise(pa.string(), lambda value: value.hex().upper(), as_bytes(data))


def unhex(text: Value) -> Value:
    """Return the bytes of hex digits, the first digit alone where they are odd; NULL where one is none."""

    def data(value: str) -> bytes | None:
        if not _HEX.fullmatch(value):
            return None
        return bytes.fromhex(value if len(value) % 2 == 0 else "0" + value)

    return rowwise(pa.binary(), data, text)


def unbase64(text: Value) -> Value:
    """Return the bytes of Base64; characters outside its alphabet are passed over, as in MIME.

    Raises:
        ExpressionError: CONVERSION_INVALID_INPUT: it ends within a byte, or goes on after its padding.
    """
    return rowwise(pa.binary(), _of_base64, text)


def _of_base64(text: str) -> bytes:
    data = text.encode("latin-1", "replace").replace(b"?", b"")
    digits, padding, rest = _NOT_BASE64.sub(b"", data).partition(b"=")
    over = len(digits) % 4
    wrong = over == 1 or bool(_NO_DIGIT.sub(b"", rest))
    if padding:
        # Java reads the second sign of "==" right behind the first one, and passes over what follows.
        raw = data.partition(b"=")[2]
        wrong = wrong or over == 0 or (over == 2 and raw[:1] != b"=")
    if wrong:
        raise ExpressionError("CONVERSION_INVALID_INPUT", "unbase64: a text is not Base64")
    return binascii.a2b_base64(digits + b"=" * (-over % 4))


def encode_utf8(text: Value) -> Value:
    """Return texts in UTF-8."""
    return text.cast(pa.binary())


def decode_utf8(data: Value) -> Value:
    """Return the texts of UTF-8.

    Raises:
        ExpressionError: MALFORMED_CHARACTER_CODING.
    """
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        raise ExpressionError("MALFORMED_CHARACTER_CODING", "decode: bytes that are no UTF-8") from None


def url_encode(text: Value) -> Value:
    """Return texts as in an HTML form: letters, digits and `*-._` stay, a blank becomes +, the rest %XX."""
    return rowwise(pa.string(), lambda value: quote_plus(value, safe="*").replace("~", "%7E"), text)


def as_bytes(data: Value) -> Value:
    """Return texts as their bytes; bytes as they are."""
    return data.cast(pa.binary()) if pa.types.is_string(data.type) else data
