"""Integers of variable length: MySQL's length-encoded ones and those of the mysql::serialization library.

Sources: MySQL 8.0 source documentation, "Protocol::LengthEncodedInteger" and "mysql::serialization".
"""

from __future__ import annotations


def length_encoded(data: bytes, at: int) -> tuple[int, int]:
    """Read a length-encoded integer.

    Returns:
        The value and the offset after it.

    Raises:
        ValueError: the bytes end early or start with a reserved marker.
    """
    if at >= len(data):
        raise ValueError("a length-encoded integer is missing")
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if width is None or at + 1 + width > len(data):
        raise ValueError("a length-encoded integer is cut short or invalid")
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def length_encoded_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Read a string that is preceded by its length.

    Returns:
        The bytes and the offset after them.

    Raises:
        ValueError: the bytes end early.
    """
    size, at = length_encoded(data, at)
    if at + size > len(data):
        raise ValueError("a string is cut short")
    return data[at : at + size], at + size


def serialized_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned integer whose first byte's trailing one bits count the bytes that follow it, up to eight.

    Returns:
        The value and the offset after it.

    Raises:
        ValueError: the bytes end early.
    """
    if at >= len(data):
        raise ValueError("a serialized integer is missing")
    extra = 0
    while extra < 8 and data[at] >> extra & 1:
        extra += 1
    if at + 1 + extra > len(data):
        raise ValueError("a serialized integer is cut short")
    # A zero bit ends the ones, where there is room for it.
    return int.from_bytes(data[at : at + 1 + extra], "little") >> min(extra + 1, 8), at + 1 + extra


def serialized_signed(data: bytes, at: int) -> tuple[int, int]:
    """Read a signed integer: as an unsigned one with the sign in its lowest bit.

    Returns:
        The value and the offset after it.

    Raises:
        ValueError: the bytes end early.
    """
    value, at = serialized_unsigned(data, at)
    return (-(value >> 1) - 1 if value & 1 else value >> 1), at
