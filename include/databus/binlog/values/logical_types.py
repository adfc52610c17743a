"""MariaDB's UUID, INET4 and INET6 from the fixed bytes that the log carries to the text that SELECT gives.

UUID: `UUID::pack` (sql_type_uuid.h) logs the bytes in the order of the text, although tables store versions 1 to 5 with
their parts swapped. INET6: `Inet6::to_string` (sql_type_inet.cc) writes `::` for the first longest run of zero groups,
of a single one too, and the last four bytes as IPv4 where the rest is zero or ::ffff:.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def uuid_text(value: bytes) -> str:
    """Return the 36 characters of 16 bytes."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def inet4_text(value: bytes) -> str:
    """Return the dotted form of 4 bytes."""
    return "%d.%d.%d.%d" % tuple(value)  # noqa: UP031 - twice as fast as join


def inet6_text(value: bytes) -> str:
    """Return the server's form of 16 bytes."""
    groups = [value[i] << 8 | value[i + 1] for i in range(0, 16, 2)]
    length, first = _longest_zeros(groups)
    if first == 0 and (length == 6 or (length == 5 and groups[5] == 0xFFFF)):
        return ("::" if length == 6 else "::ffff:") + inet4_text(value[12:])
    if length == 0:
        return ":".join(f"{g:x}" for g in groups)
    before = ":".join(f"{g:x}" for g in groups[:first])
    after = ":".join(f"{g:x}" for g in groups[first + length :])
    return f"{before}::{after}"


def _longest_zeros(groups: list[int]) -> tuple[int, int]:
    """Return length and start of the first longest run of zeros."""
    best = start = length = 0
    at = -1
    for number, group in enumerate(groups):
        if group:
            length = 0
            continue
        start = number if length == 0 else start
        length += 1
        if length > best:
            best, at = length, start
    return best, at


_TEXT: dict[str, Callable[[bytes], str]] = {"uuid": uuid_text, "inet4": inet4_text, "inet6": inet6_text}


def logical_text(value: bytes, name: str) -> str:
    """Return the text of one value of a type named "uuid", "inet4" or "inet6"."""
    return _TEXT[name](value)


def logical_texts(array: pa.BinaryArray, name: str) -> pa.StringArray:
    """Return the texts of a column."""
    text = _TEXT[name]
    return pa.array([None if value is None else text(value) for value in array.to_pylist()], pa.string())
