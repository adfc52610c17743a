"""Columns of ENUM and SET: the numbers that a log holds as the texts of their members."""

from __future__ import annotations

import pyarrow as pa

from databus.binlog.values.column_types import Column, ColumnType
from databus.binlog.values.text_columns import Undecodable

_WIDE_COMMAS = {"ucs2": b"\0,", "utf16": b"\0,", "utf16le": b",\0", "utf32": b"\0\0\0,"}


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
