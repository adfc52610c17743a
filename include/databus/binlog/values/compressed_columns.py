"""MariaDB's COMPRESSED columns: each value as it was before the server packed it.

Storage format: MariaDB 10.11 source, sql/field.cc (`Field_longstr::compress`, `compress_zlib`). An empty value is no
byte. Else the first byte's upper half is the method: 0, the value follows as it is; 8, zlib. With zlib the lower three
bits say how many bytes, most significant first, hold the length before compression, and bit 3 that the stream has no
zlib header (column_compression_zlib_wrap=OFF, the default).
"""

from __future__ import annotations

import zlib

import pyarrow as pa

_STORED, _ZLIB = 0, 8


def uncompressed(array: pa.BinaryArray) -> pa.BinaryArray:
    """Return a column's values as they were before compression; NULL stays NULL.

    Raises:
        ValueError: a value is not in the storage format, or not whole.
    """
    return pa.array([None if v is None else uncompressed_value(v) for v in array.to_pylist()], pa.binary())


def uncompressed_value(stored: bytes) -> bytes:
    """Return one value as it was before compression.

    Raises:
        ValueError: the bytes are not in the storage format, or not whole.
    """
    if not stored:
        return b""
    method = stored[0] >> 4
    if method == _STORED and not stored[0] & 0x0F:
        return stored[1:]
    if method != _ZLIB:
        raise ValueError(f"column compression {stored[0]:#04x} is unknown")
    begin = 1 + (stored[0] & 7)
    size = int.from_bytes(stored[1:begin], "big")
    if len(stored) < begin or not size:
        raise ValueError("a compressed value is cut short")
    stream = zlib.decompressobj(-zlib.MAX_WBITS if stored[0] & 8 else zlib.MAX_WBITS)
    try:
        value = stream.decompress(stored[begin:], size)
        if not stream.eof and not stream.unconsumed_tail:
            value += stream.flush()
        more = len(value) != size or not stream.eof or bool(stream.unused_data)
    except zlib.error as error:
        raise ValueError(f"a compressed value is damaged: {error}") from error
    if more:
        raise ValueError(f"a compressed value does not give its {size} bytes")
    return value
