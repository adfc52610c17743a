"""Encode single values as a server writes them into row images; written from the manual, independent of the decoder."""

from __future__ import annotations

import struct
from decimal import Decimal

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def integer(value: int, size: int) -> bytes:
    return (value % (1 << (8 * size))).to_bytes(size, "little")


def decimal(value: Decimal, precision: int, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + "0" * (scale + exponent)
    text = text.zfill(precision)
    assert len(text) == precision, (value, precision, scale)
    whole, fraction = text[: precision - scale], text[precision - scale :]
    first = len(whole) % 9
    groups = [whole[:first]] if first else []
    groups += [whole[i : i + 9] for i in range(first, len(whole), 9)]
    groups += [fraction[i : i + 9] for i in range(0, len(fraction), 9)]
    out = bytearray(b"".join(int(g).to_bytes(_DIGIT_BYTES[len(g)], "big") for g in groups))
    if sign and any(digits):
        out = bytearray(b ^ 0xFF for b in out)
    out[0] ^= 0x80
    return bytes(out)


def fraction(us: int, digits: int) -> bytes:
    size = (digits + 1) // 2
    return (us // 10 ** (6 - 2 * size)).to_bytes(size, "big") if size else b""


def datetime2(year: int, month: int, day: int, hour: int, minute: int, second: int, us: int, digits: int) -> bytes:
    packed = ((year * 13 + month) << 22) | (day << 17) | (hour << 12) | (minute << 6) | second
    return (packed + (1 << 39)).to_bytes(5, "big") + fraction(us, digits)


def timestamp2(seconds: int, us: int, digits: int) -> bytes:
    return seconds.to_bytes(4, "big") + fraction(us, digits)


def time2(total_us: int, digits: int) -> bytes:
    size = (digits + 1) // 2
    magnitude = abs(total_us)
    seconds, us = divmod(magnitude, 1_000_000)
    clock = (seconds // 3600) << 12 | (seconds // 60 % 60) << 6 | seconds % 60
    packed = clock << (8 * size) | (us // 10 ** (6 - 2 * size) if size else 0)
    if total_us < 0:
        packed = -packed
    return (packed + (0x800000 << (8 * size))).to_bytes(3 + size, "big")


def date(year: int, month: int, day: int) -> bytes:
    return (year << 9 | month << 5 | day).to_bytes(3, "little")


def prefixed(data: bytes, size: int) -> bytes:
    return len(data).to_bytes(size, "little") + data


def bits(value: int, count: int) -> bytes:
    return value.to_bytes((count + 7) // 8, "big")


def float32(value: float) -> bytes:
    return struct.pack("<f", value)


def float64(value: float) -> bytes:
    return struct.pack("<d", value)


def length_encoded(value: int) -> bytes:
    if value < 251:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    return b"\xfd" + value.to_bytes(3, "little")
