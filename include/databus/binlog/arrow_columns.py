"""Turn a filled arena into Arrow arrays, without copying where the log's bytes are Arrow's already."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.arena import Arena
from databus.binlog.charset_tables import UNDEFINED
from databus.binlog.charsets import Charset
from databus.binlog.column_types import Column, ColumnType
from databus.binlog.json_binary import json_texts
from databus.binlog.kernels import kinds as k
from databus.binlog.kernels.images import C_DATA, C_OFFSETS, C_USED, C_VALIDITY
from databus.binlog.logical_types import logical_texts

_INTEGER_TYPES = {
    ColumnType.TINY: (pa.int8(), pa.uint8()),
    ColumnType.SHORT: (pa.int16(), pa.uint16()),
    ColumnType.INT24: (pa.int32(), pa.uint32()),
    ColumnType.LONG: (pa.int32(), pa.uint32()),
    ColumnType.LONGLONG: (pa.int64(), pa.uint64()),
}
_KIND_TYPES = {
    k.YEAR: pa.int16(),
    k.DATE: pa.date32(),
    k.DATETIME: pa.timestamp("us"),
    k.OLD_DATETIME: pa.timestamp("us"),
    k.TIMESTAMP: pa.timestamp("us", "UTC"),
    k.OLD_TIMESTAMP: pa.timestamp("us", "UTC"),
    k.TIME: pa.duration("us"),
    k.OLD_TIME: pa.duration("us"),
    k.ENUM: pa.uint16(),
    k.SET: pa.uint64(),
    k.BIT: pa.uint64(),
    k.DECIMAL_TEXT: pa.string(),
}


def stored_type(column: Column) -> pa.DataType:
    """Return the Arrow type of what the kernel writes for a column."""
    if column.type in _INTEGER_TYPES:
        return _INTEGER_TYPES[column.type][column.unsigned]
    if column.type is ColumnType.FLOAT:
        return pa.float32()
    if column.type is ColumnType.DOUBLE:
        return pa.float64()
    if column.kind == k.DECIMAL:
        return pa.decimal128(column.meta, column.meta2)
    if column.kind in _KIND_TYPES:
        return _KIND_TYPES[column.kind]
    return pa.string() if column.text and column.charset is not None and column.charset.utf8 else pa.binary()


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column in a TableBatch."""
    if column.type in (ColumnType.ENUM, ColumnType.SET, ColumnType.JSON) or column.text or column.logical:
        return pa.string()
    return stored_type(column)


def column_array(column: Column, number: int, arena: Arena, rows: int) -> pa.Array:
    """Return the Arrow array of one column.

    Raises:
        ValueError: a value is not text of the column's character set, not JSON, or not a member of its ENUM.
    """
    place = arena.columns[number]
    block = pa.py_buffer(arena.memory)
    validity = block.slice(int(place[C_VALIDITY]), (rows + 7) // 8)
    width = k.WIDTH[column.kind]
    if width:
        buffers = [validity, block.slice(int(place[C_DATA]), width * rows)]
    else:
        offsets = block.slice(int(place[C_OFFSETS]), 4 * (rows + 1))
        buffers = [validity, offsets, block.slice(int(place[C_DATA]), int(place[C_USED]))]
    array = pa.Array.from_buffers(stored_type(column), rows, buffers)
    if column.type is ColumnType.ENUM:
        return pa.DictionaryArray.from_arrays(
            array.cast(pa.int32()), pa.array(["", *column.values], pa.string())
        ).dictionary_decode()
    if column.type is ColumnType.SET:
        return _set_texts(array, column.values)
    if column.type is ColumnType.JSON:
        return json_texts(array)
    if column.logical:
        return logical_texts(array, column.logical)
    if column.text and column.charset is not None:
        return _text(array, column.charset)
    return array


def _set_texts(array: pa.UInt64Array, values: tuple[str, ...]) -> pa.StringArray:
    encoded = array.dictionary_encode()
    texts = [",".join(v for bit, v in enumerate(values) if mask >> bit & 1) for mask in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string())).dictionary_decode()


def _text(array: pa.Array, charset: Charset) -> pa.StringArray:
    if charset.utf8:
        array.validate(full=True)
        return array
    if charset.table:
        return _single_byte_text(array, charset)
    return pa.array([None if v is None else charset.decode(v) for v in array.to_pylist()], pa.string())


def _single_byte_text(array: pa.BinaryArray, charset: Charset) -> pa.StringArray:
    """Decode a whole column at once.

    Each byte becomes one character, so that the offsets follow from the characters' UTF-8 lengths.
    """
    validity, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32, count=len(array) + 1)
    data: npt.NDArray[np.uint8] = np.frombuffer(data_buffer, dtype=np.uint8, count=int(offsets[-1]))
    if not len(data) or (data.max() < 0x80 and charset.table[:128].encode() == bytes(range(128))):
        return pa.Array.from_buffers(pa.string(), len(array), [validity, offset_buffer, data_buffer])
    text = data.tobytes().decode("latin-1").translate(charset.table)
    if UNDEFINED in text:
        raise UnicodeError(f"byte {data[text.index(UNDEFINED)]:#04x} is not defined in {charset.name}")
    sizes = np.array([len(c.encode("utf-8", "surrogatepass")) for c in charset.table], dtype=np.int32)
    ends = np.zeros(len(data) + 1, dtype=np.int32)
    np.cumsum(sizes[data], out=ends[1:])
    return pa.Array.from_buffers(
        pa.string(), len(array), [validity, pa.py_buffer(ends[offsets]), pa.py_buffer(text.encode("utf-8"))]
    )
