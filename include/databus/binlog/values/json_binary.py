"""MySQL's binary JSON as compact JSON text, exact to the digit.

Wire format: MySQL 8.0 source, sql-common/json_binary.h. Texts of opaque values (decimals, dates, base64) are those that
SELECT shows. Columns go through `kernels.json_documents`; this module writes what the kernel leaves, and names faults.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.arena import take_block
from databus.binlog.kernels.json_documents import DONE, FULL, MAX_TEXT_BYTES, STACK_BYTES, text_room, write_documents
from databus.binlog.values.value_texts import decimal_text

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(5, 13)
_OPAQUE = 15
_MAX_DEPTH = 100
"""The server accepts no deeper documents."""

_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {
    kind: struct.Struct(form)
    for kind, form in zip(
        (_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64), ("<h", "<H", "<i", "<I", "<q", "<Q"), strict=True
    )
}
_FLOAT64 = struct.Struct("<d")
_ENTRY = {False: struct.Struct("<BH"), True: struct.Struct("<BI")}
_KEY = {False: struct.Struct("<HH"), True: struct.Struct("<IH")}
_HEAD = {False: struct.Struct("<HH"), True: struct.Struct("<II")}
_INLINE = {False: frozenset({_LITERAL, _INT16, _UINT16}), True: frozenset({_LITERAL, _INT16, _UINT16, _INT32, _UINT32})}

_DECIMAL, _TIMESTAMP, _DATE, _TIME, _DATETIME = 246, 7, 10, 11, 12


@dataclass
class _Text:
    """The pieces of a text under way.

    Attributes:
        unread: bytes of the document that no key, value or entry has used yet. The server never lets two values share
            bytes; a damaged document whose values do could have a text exponentially longer than itself.
        parts: the pieces.
    """

    unread: int
    parts: list[str] = field(default_factory=list)

    def use(self, size: int) -> None:
        self.unread -= size
        if self.unread < 0:
            raise ValueError("values of a binary JSON document overlap")


def json_text(document: bytes) -> str:
    """Return the JSON text of a stored document, without blanks, keys in stored order.

    Raises:
        ValueError: the bytes are no binary JSON.
    """
    if not document:
        return "null"  # what the server makes of an empty value, e.g. of a NOT NULL column filled by ALTER TABLE
    text = _Text(len(document) - 1)
    try:
        _value(document[0], document, 1, text, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged binary JSON: {error}") from error
    return "".join(text.parts)


def json_texts(documents: pa.BinaryArray) -> pa.StringArray:
    """Return the JSON texts of a column of stored documents, as `json_text` gives them.

    Raises:
        ValueError: a document is no binary JSON, or the texts take more than 2 GiB.
    """
    first, rows = documents.offset, documents.offset + len(documents)
    validity_buffer, offset_buffer, data_buffer = documents.buffers()
    if not len(documents):
        return pa.array([], pa.string())
    offsets = _read_only(offset_buffer, np.int32)[: rows + 1]
    data = _read_only(data_buffer, np.uint8)
    validity = _read_only(validity_buffer if documents.null_count else None, np.uint8)
    size = int(offsets[rows]) - int(offsets[first])
    longest = int(np.diff(offsets[first:]).max())
    # Pages never written cost nothing; growing would copy what is there.
    text = take_block(min(2 * size + 8 * len(documents) + text_room(longest), MAX_TEXT_BYTES))
    text_offsets = np.zeros(rows + 1, dtype=np.int32)
    stack = np.empty(STACK_BYTES, dtype=np.uint8)
    row = first
    while True:
        status, row = write_documents(data, offsets, validity, row, text, text_offsets, stack)
        if status == DONE:
            break
        at, end, written = int(offsets[row]), int(offsets[row + 1]), int(text_offsets[row])
        if status == FULL and len(text) < MAX_TEXT_BYTES:
            text = _larger(text, written, max(2 * len(text), written + text_room(end - at)))
            continue
        one = json_text(data[at:end].tobytes()).encode("utf-8")
        if written + len(one) > MAX_TEXT_BYTES:
            raise ValueError("the JSON texts of a batch take more than 2 GiB")
        if written + len(one) > len(text):
            text = _larger(text, written, 2 * (written + len(one)))
        text[written : written + len(one)] = np.frombuffer(one, dtype=np.uint8)
        row += 1
        text_offsets[row] = written + len(one)
    buffers = [validity_buffer, pa.py_buffer(text_offsets), pa.py_buffer(text[: text_offsets[rows]])]
    return pa.Array.from_buffers(pa.string(), len(documents), buffers, offset=first)


def _read_only(buffer: pa.Buffer | None, dtype: type[np.generic]) -> npt.NDArray[np.generic]:
    """View a buffer; read-only even if it is not, because the kernel is compiled once for each kind of array."""
    view = np.frombuffer(buffer if buffer is not None else b"", dtype=dtype)
    view.flags.writeable = False
    return view


def _larger(text: npt.NDArray[np.uint8], written: int, size: int) -> npt.NDArray[np.uint8]:
    larger = np.empty(size, dtype=np.uint8)
    larger[:written] = text[:written]
    return larger


def _value(kind: int, data: bytes, at: int, text: _Text, depth: int, *, inline: bool = False) -> None:
    """Write a value; what stands inline is part of its container's entries."""
    if kind <= _LARGE_ARRAY:
        _container(kind, data, at, text, depth + 1)
        return
    if kind == _STRING:
        size, start = _length(data, at)
        text.use(start - at + size)
        part = _quoted(_cut(data, start, size).decode("utf-8"))
    elif kind in _NUMBERS:
        text.use(0 if inline else _NUMBERS[kind].size)
        part = str(_NUMBERS[kind].unpack_from(data, at)[0])
    elif kind == _DOUBLE:
        text.use(_FLOAT64.size)
        part = _double(_FLOAT64.unpack_from(data, at)[0])
    elif kind == _LITERAL:
        text.use(0 if inline else 1)
        part = _literal(data[at])
    elif kind == _OPAQUE:
        size, start = _length(data, at + 1)
        text.use(start - at + size)
        part = _opaque(data[at], _cut(data, start, size))
    else:
        raise ValueError(f"binary JSON type {kind} is unknown")
    text.parts.append(part)


def _container(kind: int, data: bytes, at: int, text: _Text, depth: int) -> None:
    """Write an object or array; offsets count from its own first byte."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"binary JSON is nested deeper than {_MAX_DEPTH} levels")
    large, is_object = kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind <= _LARGE_OBJECT
    head, key_entry, entry = _HEAD[large], _KEY[large], _ENTRY[large]
    count, size = head.unpack_from(data, at)
    data = _cut(data, at, size)  # nothing inside may point outside
    key_at = head.size
    value_at = key_at + (key_entry.size * count if is_object else 0)
    used = value_at + entry.size * count
    if used > size:
        raise ValueError("a binary JSON container has more members than bytes")
    text.use(used)
    parts = text.parts
    parts.append("{" if is_object else "[")
    for number in range(count):
        if number:
            parts.append(",")
        if is_object:
            offset, length = key_entry.unpack_from(data, key_at)
            key_at += key_entry.size
            text.use(length)
            parts.append(_quoted(_cut(data, offset, length).decode("utf-8")) + ":")
        member, offset = entry.unpack_from(data, value_at)
        inline = member in _INLINE[large]
        if inline:
            offset = value_at + 1
        elif offset < head.size:
            raise ValueError("a binary JSON value points at its own container")
        _value(member, data, offset, text, depth, inline=inline)
        value_at += entry.size
    parts.append("}" if is_object else "]")


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("binary JSON reaches past its end")
    return data[at : at + size]


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a length of seven bits per byte, lowest first."""
    size = 0
    for k in range(5):
        size |= (data[at + k] & 0x7F) << (7 * k)
        if not data[at + k] & 0x80:
            return size, at + k + 1
    raise ValueError("a length in binary JSON has more than five bytes")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal(code: int) -> str:
    if code not in _LITERALS:
        raise ValueError(f"binary JSON literal {code} is unknown")
    return _LITERALS[code]


def _double(number: float) -> str:
    if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN is the one value unequal to itself
        raise ValueError("binary JSON holds a number that JSON cannot write")
    return repr(number)


def _opaque(field_type: int, value: bytes) -> str:
    if field_type == _DECIMAL:
        return decimal_text(value[2:], value[0], value[1])
    if field_type in (_DATE, _DATETIME, _TIMESTAMP, _TIME):
        (packed,) = struct.unpack("<q", value)
        return f'"{_clock(packed) if field_type == _TIME else _calendar(packed, field_type == _DATE)}"'
    return f'"base64:type{field_type}:{base64.b64encode(value).decode("ascii")}"'


def _calendar(packed: int, date_only: bool) -> str:
    seconds, fraction = packed >> 24, packed & 0xFFFFFF
    day_part = seconds >> 17
    year_month = day_part >> 5
    date = f"{year_month // 13:04d}-{year_month % 13:02d}-{day_part & 31:02d}"
    if date_only:
        return date
    return f"{date} {(seconds >> 12) & 31:02d}:{(seconds >> 6) & 63:02d}:{seconds & 63:02d}.{fraction:06d}"


def _clock(packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    seconds, fraction = packed >> 24, packed & 0xFFFFFF
    return f"{sign}{(seconds >> 12) & 1023:02d}:{(seconds >> 6) & 63:02d}:{seconds & 63:02d}.{fraction:06d}"
