"""Texts of values outside the kernels: DECIMAL inside JSON, dates that no calendar holds, members of ENUM and SET."""

from __future__ import annotations

import pyarrow as pa

from databus.binlog.kernels import kinds as k
from databus.binlog.values.column_types import Column, ColumnType
from databus.binlog.values.text_columns import Undecodable

_WIDE_COMMAS = {"ucs2": b"\0,", "utf16": b"\0,", "utf16le": b",\0", "utf32": b"\0\0\0,"}


_US = 1_000_000

MAX_DIGITS = 81
"""Most digits of a DECIMAL inside JSON: nine groups of nine; there the server counts whole groups, so that a
DECIMAL(65,30) may be stored as (66,30)."""

_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """Return a stored DECIMAL as the server writes it, with all digits of its scale.

    Raises:
        ValueError: the bytes are not a DECIMAL(precision, scale).
    """
    whole = precision - scale
    if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
        raise ValueError(f"DECIMAL({precision},{scale}) is impossible")
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    if len(data) != sum(_GROUP_BYTES[g] for g in groups):
        raise ValueError(f"{len(data)} bytes are no DECIMAL({precision},{scale})")
    negative = not data[0] & 0x80
    plain = bytes([data[0] ^ 0x80, *data[1:]])
    if negative:
        plain = bytes(b ^ 0xFF for b in plain)
    digits, at = "", 0
    for group in groups:
        size = _GROUP_BYTES[group]
        if group:
            value = int.from_bytes(plain[at : at + size], "big")
            if value >= 10**group:
                raise ValueError("a group of a DECIMAL holds more than its digits")
            digits += f"{value:0{group}d}"
        at += size
    integer = digits[:whole].lstrip("0") or "0"
    return ("-" if negative else "") + integer + (f".{digits[whole:]}" if scale else "")


def exception_text(column: Column, date: int, us: int) -> str:
    """Return the text of an impossible date.

    Args:
        column: the column, for its type and fractional digits.
        date: year · 10,000 + month · 100 + day.
        us: microseconds since midnight.
    """
    day = f"{date // 10_000:04d}-{date // 100 % 100:02d}-{date % 100:02d}"
    if column.kind == k.DATE:
        return day
    seconds, fraction = divmod(us, _US)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = column.meta if column.kind in (k.DATETIME, k.TIMESTAMP) else 0
    text = f"{day}T{clock}" + (f".{fraction:06d}"[: digits + 1] if digits else "")
    return text + "Z" if column.kind in (k.TIMESTAMP, k.OLD_TIMESTAMP) else text


def member_texts(array: pa.Array, column: Column) -> tuple[pa.StringArray, Undecodable]:
    """Return the texts of a column's members, null where one has no text, and the bytes of those.

    Args:
        array: uint16 indexes of an ENUM, 0 for the empty text of an invalid value; uint64 bits of a SET.
        column: the column, with its members.
    """
    if column.type is ColumnType.ENUM and not column.stored_values:
        members = pa.array(["", *column.values], pa.string())
        return pa.DictionaryArray.from_arrays(array.cast(pa.int32()), members).dictionary_decode(), {}
    encoded = array.dictionary_encode()
    make = _enum_text if column.type is ColumnType.ENUM else _set_text
    found = [make(column, number) for number in encoded.dictionary.to_pylist()]
    texts = pa.array([text if isinstance(text, str) else None for text in found], pa.string())
    column_texts = pa.DictionaryArray.from_arrays(encoded.indices, texts).dictionary_decode()
    kept = {number: value for number, value in enumerate(found) if isinstance(value, bytes)}
    if not kept:
        return column_texts, {}
    return column_texts, {row: kept[n] for row, n in enumerate(encoded.indices.to_pylist()) if n in kept}


def _enum_text(column: Column, index: int) -> str | bytes:
    if index == 0:
        return ""
    text = column.values[index - 1]
    return column.stored_values[index - 1] if text is None else text


def _set_text(column: Column, mask: int) -> str | bytes:
    chosen = [bit for bit in range(len(column.values)) if mask >> bit & 1]
    texts = [text for bit in chosen if (text := column.values[bit]) is not None]
    if len(texts) == len(chosen):
        return ",".join(texts)
    comma = _WIDE_COMMAS.get(column.charset.name, b",") if column.charset else b","
    return comma.join(column.stored_values[bit] for bit in chosen)
