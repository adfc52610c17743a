"""Lengths, strings, numbers and times of an RDB file. Source: Redis 7.0 `rdb.h`, `rdb.c` (`rdbLoadLenByRef`)."""

from __future__ import annotations

import struct

from databus.core.errors.redis import RdbCorruptError
from databus.redis.byte_reader import ByteReader
from databus.redis.rdb.blobs import BlobError
from databus.redis.rdb.lzf import decompress

_INTEGERS = {0: 1, 1: 2, 2: 4}
_LZF = 3
_SHORT_DOUBLES = {253: float("nan"), 254: float("inf"), 255: float("-inf")}


def corrupt(reader: ByteReader, what: str) -> RdbCorruptError:
    """Return the error of bytes before the reader's place that cannot be."""
    return RdbCorruptError(f"{reader.name}, before byte {reader.place}: {what}")


def read_length(reader: ByteReader) -> int:
    """Return a length or whole number, 0 to 2^64 - 1.

    Raises:
        RdbCorruptError: there is none.
    """
    number, encoded = _length(reader)
    if encoded:
        raise corrupt(reader, f"a string of form {number} where a number was to be")
    return number


def read_signed(reader: ByteReader) -> int:
    """Return a number that was written as if it had no sign: -2^63 to 2^63 - 1."""
    number = read_length(reader)
    return number - (1 << 64) if number >> 63 else number


def read_string(reader: ByteReader) -> bytes:
    """Return a string: plain, a number as its text, or decompressed.

    Raises:
        RdbCorruptError: its form is not known, or its compressed bytes do not add up.
    """
    number, encoded = _length(reader)
    if not encoded:
        return reader.take(number)
    if (width := _INTEGERS.get(number)) is not None:
        return b"%d" % int.from_bytes(reader.take(width), "little", signed=True)
    if number != _LZF:
        raise corrupt(reader, f"a string has the unknown form {number}")
    packed, length = read_length(reader), read_length(reader)
    try:
        return decompress(reader.take(packed), length)
    except BlobError as error:
        raise corrupt(reader, str(error)) from None


def read_double(reader: ByteReader) -> float:
    """Return a floating-point number of eight bytes."""
    found: float = struct.unpack("<d", reader.take(8))[0]
    return found


def read_double_text(reader: ByteReader) -> float:
    """Return a floating-point number as RDB versions before 8 wrote it: a length of one byte, and text."""
    size = reader.byte()
    if size in _SHORT_DOUBLES:
        return _SHORT_DOUBLES[size]
    return parse_double(reader, reader.take(size))


def parse_double(reader: ByteReader, text: bytes) -> float:
    """Return the number that a text is.

    Raises:
        RdbCorruptError: it is none.
    """
    try:
        if b"_" in text or text != text.strip():
            raise ValueError
        return float(text)
    except ValueError:
        raise corrupt(reader, f"{text[:40]!r} where a number was to be") from None


def read_milliseconds(reader: ByteReader) -> int:
    """Return a time, ms since the epoch."""
    return int.from_bytes(reader.take(8), "little", signed=True)


def read_seconds(reader: ByteReader) -> int:
    """Return a time as the oldest files have it, in ms since the epoch."""
    return int.from_bytes(reader.take(4), "little", signed=True) * 1000


def _length(reader: ByteReader) -> tuple[int, bool]:
    first = reader.byte()
    form = first >> 6
    if form == 0:
        return first, False
    if form == 1:
        return (first & 0x3F) << 8 | reader.byte(), False
    if form == 3:
        return first & 0x3F, True
    if first == 0x80:
        return int.from_bytes(reader.take(4), "big"), False
    if first == 0x81:
        return int.from_bytes(reader.take(8), "big"), False
    raise corrupt(reader, f"a length of unknown form {first:#x}")
