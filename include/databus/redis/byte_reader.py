"""Byte reader of a file or connection: in order, counted, checked, and never more in memory than arrived.

What reads Redis' formats asks here for so many bytes at a time, so the end of what was read is known to the byte: what
follows is still there for the next reader.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

from databus.core.errors.redis import RdbCutError
from databus.core.errors.root import DatabusError

PIECE_BYTES = 1 << 16

Pull = Callable[[int], bytes]
"""Gives up to so many bytes, at least one; b"" at the end."""


def cut_rdb(message: str) -> DatabusError:
    """Return the error of an RDB file that ends too early."""
    return RdbCutError(message)


class ByteReader:
    """Reader of bytes in order.

    A length that a damaged file names does not become memory: bytes are collected as they arrive.

    Attributes:
        name: what is read, for messages.
    """

    def __init__(self, pull: Pull, name: str, *, cut: Callable[[str], DatabusError] = cut_rdb):
        """Read from `pull`; `cut` makes the error of an input that ends too early."""
        self.name = name
        self._pull = pull
        self._cut = cut
        self._buffer = b""
        self._at = 0
        self._before = 0
        self._summed: int | None = None
        self._sum = 0

    @property
    def place(self) -> int:
        """Bytes read so far."""
        return self._before + self._at

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes.

        Raises:
            DatabusError: the input ends before; of the kind that `cut` makes.
        """
        at = self._at
        end = at + count
        if end <= len(self._buffer):
            self._at = end
            return self._buffer[at:end]
        return self._take_more(count)

    def byte(self) -> int:
        """Return the next byte as a number."""
        if self._at < len(self._buffer):
            self._at += 1
            return self._buffer[self._at - 1]
        return self._take_more(1)[0]

    def line(self, most: int) -> bytes:
        """Return the bytes up to the next CR LF, these two included; without them where `most` bytes have none."""
        end = self._buffer.find(b"\r\n", self._at, self._at + most)
        if end >= 0:
            return self.take(end + 2 - self._at)
        found = bytearray()
        while len(found) < most and not found.endswith(b"\r\n"):
            found.append(self.byte())
        return bytes(found)

    def some(self, most: int = 1 << 62) -> bytes:
        """Return the bytes that are there, or the next that come; one to `most` of them.

        Raises:
            DatabusError: the input has ended; of the kind that `cut` makes.
        """
        if self._at == len(self._buffer):
            self._refill(PIECE_BYTES)
            if not self._buffer:
                raise self._cut(f"{self.name} ends at byte {self.place}")
        return self.take(min(most, len(self._buffer) - self._at))

    def at_end(self) -> bool:
        """Return whether the input has no more bytes; may block until there is one."""
        if self._at == len(self._buffer):
            self._refill(PIECE_BYTES)
        return self._at == len(self._buffer)

    def begin_sum(self) -> None:
        """Begin a CRC-64 with the next byte."""
        self._summed, self._sum = self._at, 0

    def end_sum(self) -> int:
        """Return the CRC-64 of what was read since `begin_sum`, and sum no further."""
        self._absorb()
        self._summed = None
        return self._sum

    def _take_more(self, count: int) -> bytes:
        begun = self.place
        found = bytearray(self._buffer[self._at :])
        self._at = len(self._buffer)
        while len(found) < count:
            self._refill(max(PIECE_BYTES, min(count - len(found), PIECE_BYTES * 16)))
            if not self._buffer:
                raise self._cut(
                    f"{self.name} ends at byte {begun + len(found)}: {count} bytes were to follow byte {begun}"
                )
            wanted = count - len(found)
            found += self._buffer[:wanted]
            self._at = min(wanted, len(self._buffer))
        return bytes(found)

    def _refill(self, count: int) -> None:
        self._absorb()
        self._before += self._at
        self._buffer, self._at = self._pull(count), 0
        if self._summed is not None:
            self._summed = 0

    def _absorb(self) -> None:
        if self._summed is not None:
            self._sum = crc64(self._buffer[self._summed : self._at], self._sum)
            self._summed = self._at


_REFLECTED = 0x95AC9329AC4BC9B5


@cache
def _tables() -> tuple[tuple[int, ...], ...]:
    first = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_REFLECTED if value & 1 else 0)
        first.append(value)
    tables = [tuple(first)]
    for _ in range(7):
        tables.append(tuple(first[value & 255] ^ (value >> 8) for value in tables[-1]))
    return tuple(tables)


def crc64(data: bytes, value: int = 0) -> int:
    """Return the CRC-64 of `data` behind bytes whose CRC-64 is `value`."""
    t0, t1, t2, t3, t4, t5, t6, t7 = _tables()
    words = len(data) // 8
    for word in struct.unpack_from(f"<{words}Q", data):
        mixed = value ^ word
        value = (
            t7[mixed & 255]
            ^ t6[mixed >> 8 & 255]
            ^ t5[mixed >> 16 & 255]
            ^ t4[mixed >> 24 & 255]
            ^ t3[mixed >> 32 & 255]
            ^ t2[mixed >> 40 & 255]
            ^ t1[mixed >> 48 & 255]
            ^ t0[mixed >> 56]
        )
    for byte in data[words * 8 :]:
        value = t0[(value ^ byte) & 255] ^ (value >> 8)
    return value
