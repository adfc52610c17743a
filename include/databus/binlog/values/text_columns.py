"""Columns of text: stored bytes to Arrow strings, a whole column at once where the character set allows.

Bytes that are no text of their column's character set are kept: their slot is null, and they are returned beside it.
Servers let them in where they check less than they can show: bytes that a single-byte set does not define, codes of an
East Asian set without a character, halves of surrogate pairs in UCS-2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.values.charset_tables import UNDEFINED
from databus.binlog.values.charsets import Charset

Undecodable = dict[int, bytes]
"""Row → the stored bytes of a value that is no text."""


def text_array(array: pa.Array, charset: Charset) -> tuple[pa.StringArray, Undecodable]:
    """Return a column's texts, null where the stored bytes are no text of the character set, and those bytes.

    Args:
        array: stored bytes, `binary`, or `string` for a character set that is UTF-8 as it stands.
        charset: the column's character set.
    """
    if charset.utf8:
        return (array, {}) if _is_utf8(array, charset) else _one_by_one(array, charset)
    decoded = _single_byte_text(array, charset) if charset.table else None
    return (decoded, {}) if decoded is not None else _one_by_one(array, charset)


def _is_utf8(array: pa.StringArray, charset: Charset) -> bool:
    data = _bytes_of(array)
    if not len(data) or int(data.max()) < 0x80:  # most columns are: this costs a tenth of looking at each value
        return True
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return charset.name != "ascii"


def _one_by_one(array: pa.Array, charset: Charset) -> tuple[pa.StringArray, Undecodable]:
    stored = array.view(pa.binary()).to_pylist()
    texts: list[str | None] = []
    undecodable: Undecodable = {}
    for row, value in enumerate(stored):
        text = None
        if value is not None:
            try:
                text = charset.decode(value)
            except UnicodeError:
                undecodable[row] = value
        texts.append(text)
    return pa.array(texts, pa.string()), undecodable


def _bytes_of(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of all values of an array that begins at its buffers' first slot."""
    _, offsets, data = array.buffers()
    last = int(np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1)[-1])
    return np.frombuffer(data, dtype=np.uint8, count=last)


def _single_byte_text(array: pa.BinaryArray, charset: Charset) -> pa.StringArray | None:
    """Decode a whole column at once; None when a byte has no character.

    Each byte becomes one character, so that the offsets follow from the characters' UTF-8 lengths.
    """
    validity, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32, count=len(array) + 1)
    data = _bytes_of(array)
    if not len(data) or (data.max() < 0x80 and charset.table[:128].encode() == bytes(range(128))):
        return pa.Array.from_buffers(pa.string(), len(array), [validity, offset_buffer, data_buffer])
    text = data.tobytes().decode("latin-1").translate(charset.table)
    if UNDEFINED in text:
        return None
    sizes = np.array([len(c.encode("utf-8", "surrogatepass")) for c in charset.table], dtype=np.int32)
    ends = np.zeros(len(data) + 1, dtype=np.int32)
    np.cumsum(sizes[data], out=ends[1:])
    return pa.Array.from_buffers(
        pa.string(), len(array), [validity, pa.py_buffer(ends[offsets]), pa.py_buffer(text.encode("utf-8"))]
    )
