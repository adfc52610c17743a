"""Turn a filled arena into Arrow arrays, without copying where the log's bytes are Arrow's already."""

from __future__ import annotations

import pyarrow as pa

from databus.binlog.decoding.arena import Arena
from databus.binlog.kernels import kinds as k
from databus.binlog.kernels.images import C_DATA, C_OFFSETS, C_USED, C_VALIDITY
from databus.binlog.values.column_types import COMPRESSED, Column, ColumnType
from databus.binlog.values.compressed_columns import uncompressed
from databus.binlog.values.json_binary import json_texts
from databus.binlog.values.logical_types import logical_texts
from databus.binlog.values.text_columns import Undecodable, text_array
from databus.binlog.values.value_texts import member_texts

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
    utf8 = column.text and column.charset is not None and column.charset.utf8
    return pa.string() if utf8 and column.type not in COMPRESSED else pa.binary()


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column in a TableBatch."""
    if column.type in (ColumnType.ENUM, ColumnType.SET, ColumnType.JSON) or column.text or column.logical:
        return pa.string()
    return stored_type(column)


def column_array(column: Column, number: int, arena: Arena, rows: int) -> tuple[pa.Array, Undecodable]:
    """Return the Arrow array of one column, and the bytes that are no text of its character set.

    Raises:
        ValueError: a value is not JSON, or a compressed value is damaged.
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
    if column.type in COMPRESSED:
        array = uncompressed(array)
    if column.text and column.charset is not None:
        return text_array(array.view(pa.string()) if column.charset.utf8 else array, column.charset)
    if column.type in (ColumnType.ENUM, ColumnType.SET):
        return member_texts(array, column)
    if column.logical:
        return logical_texts(array, column.logical), {}
    return json_texts(array) if column.type is ColumnType.JSON else array, {}
