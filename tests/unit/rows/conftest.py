"""An independent reader of the VARIANT encoding, written from its specification."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

_INTS = {3: 1, 4: 2, 5: 4, 6: 8}
_FLOATS = {7: (8, "<d"), 14: (4, "<f")}
_DECIMALS = {8: 4, 9: 8, 10: 16}


def _le(data: bytes, start: int, width: int) -> int:
    return int.from_bytes(data[start : start + width], "little")


def _names(metadata: bytes) -> list[str]:
    assert metadata[0] & 0x0F == 1, "version"
    width = (metadata[0] >> 6) + 1
    count = _le(metadata, 1, width)
    ends = [_le(metadata, 1 + width * (k + 1), width) for k in range(count + 1)]
    text = metadata[1 + width * (count + 2) :]
    assert ends[-1] == len(text)
    return [text[a:b].decode() for a, b in pairwise(ends)]


def _scalar(data: bytes) -> tuple[Any, int]:
    basic, info = data[0] & 3, data[0] >> 2
    if basic == 1:
        return data[1 : 1 + info].decode(), 1 + info
    assert basic == 0
    if info == 0:
        return None, 1
    if info in _INTS:
        return int.from_bytes(data[1 : 1 + _INTS[info]], "little", signed=True), 1 + _INTS[info]
    if info in _DECIMALS:
        width = _DECIMALS[info]
        digits = int.from_bytes(data[2 : 2 + width], "little", signed=True)
        return Decimal(f"{digits}e-{data[1]}"), 2 + width
    if info in _FLOATS:
        width, code = _FLOATS[info]
        return struct.unpack(code, data[1 : 1 + width])[0], 1 + width
    length = _le(data, 1, 4)
    payload = data[5 : 5 + length]
    return {15: bytes, 16: bytes.decode}[info](payload), 5 + length


def read_variant(variant: dict[str, bytes] | None) -> dict[str, Any] | None:
    if variant is None:
        return None
    names, data = _names(variant["metadata"]), variant["value"]
    basic, info = data[0] & 3, data[0] >> 2
    assert basic == 2, "an object"
    offset_width, id_width, size_width = (info & 3) + 1, (info >> 2 & 3) + 1, 4 if info >> 4 else 1
    count = _le(data, 1, size_width)
    at = 1 + size_width
    ids = [_le(data, at + k * id_width, id_width) for k in range(count)]
    at += count * id_width
    offsets = [_le(data, at + k * offset_width, offset_width) for k in range(count + 1)]
    at += (count + 1) * offset_width
    assert at + offsets[-1] == len(data), "no byte is left over"
    result = {}
    for number, (start, end) in zip(ids, pairwise(offsets), strict=True):
        value, used = _scalar(data[at + start : at + end])
        assert used == end - start
        result[names[number]] = value
    assert list(result) == sorted(result, key=lambda name: name.encode("utf-16-be"))
    return result


@pytest.fixture
def read() -> Callable[[dict[str, bytes] | None], dict[str, Any] | None]:
    return read_variant
