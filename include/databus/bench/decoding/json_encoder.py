"""Write MySQL's binary JSON, for benchmarks and tests; from the manual, independent of the decoder."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Opaque:
    """A value that JSON has no type for."""

    field_type: int
    data: bytes


def _length(size: int) -> bytes:
    out = b""
    while size > 0x7F:
        out += bytes([size & 0x7F | 0x80])
        size >>= 7
    return out + bytes([size])


def scalar(value: Any, *, large: bool) -> tuple[int, bytes, bool]:
    """Return type, bytes, and whether they stand inside the entry."""
    if value is None or isinstance(value, bool):
        return 4, bytes([{None: 0, True: 1, False: 2}[value]]), True
    if isinstance(value, int):
        for kind, form, low, high, size in (
            (5, "<h", -(1 << 15), 1 << 15, 2),
            (6, "<H", 0, 1 << 16, 2),
            (7, "<i", -(1 << 31), 1 << 31, 4),
            (8, "<I", 0, 1 << 32, 4),
            (9, "<q", -(1 << 63), 1 << 63, 8),
            (10, "<Q", 0, 1 << 64, 8),
        ):
            if low <= value < high:
                return kind, struct.pack(form, value), size == 2 or (size == 4 and large)
    if isinstance(value, float):
        return 11, struct.pack("<d", value), False
    if isinstance(value, str):
        encoded = value.encode()
        return 12, _length(len(encoded)) + encoded, False
    if not isinstance(value, Opaque):
        raise TypeError(f"{value!r} is no JSON")
    return 15, bytes([value.field_type]) + _length(len(value.data)) + value.data, False


def container(value: dict[str, Any] | list[Any], *, large: bool) -> bytes:
    """Return the bytes of an object or array, with offsets of 2 bytes, or of 4 in the large form."""
    width, form = (4, "<I") if large else (2, "<H")
    keys = sorted((k.encode() for k in value), key=lambda k: (len(k), k)) if isinstance(value, dict) else []
    members = [value[k.decode()] for k in keys] if isinstance(value, dict) else list(value)
    head = 2 * width + len(keys) * (width + 2) + len(members) * (1 + width)
    key_entries, at = b"", head
    for key in keys:
        key_entries += struct.pack(form, at) + struct.pack("<H", len(key))
        at += len(key)
    value_entries, data = b"", b""
    for member in members:
        kind, encoded, inside = encode(member, large=large)
        if inside:
            value_entries += bytes([kind]) + encoded.ljust(width, b"\0")
        else:
            value_entries += bytes([kind]) + struct.pack(form, at + len(data))
            data += encoded
    total = at + len(data)
    return (
        struct.pack(form, len(members)) + struct.pack(form, total) + key_entries + value_entries + b"".join(keys) + data
    )


def encode(value: Any, *, large: bool) -> tuple[int, bytes, bool]:
    """Return type, bytes, and whether they stand inside the entry, of any value."""
    if isinstance(value, dict):
        return (1 if large else 0), container(value, large=large), False
    if isinstance(value, list):
        return (3 if large else 2), container(value, large=large), False
    return scalar(value, large=large)


def document(value: Any, *, large: bool = False) -> bytes:
    """Return a whole document."""
    kind, data, _ = encode(value, large=large)
    return bytes([kind]) + data
