"""Find compressed events in raw events, and check the framing of the events inside a compressed transaction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.crc import crc32
from databus.binlog.kernels.memory import KERNEL, Bytes, Ints, little_endian, load_u16, load_u32

# What `check_contents` finds wrong.
CONTENTS_OK, CONTENTS_CUT, CONTENTS_TYPE, CONTENTS_BEGIN, CONTENTS_END = range(5)

# Columns of a payload's frame: its offset, size and position, where its compressed bytes lie, their size when
# decompressed; −1 there when the frame is not as it should be.
G_AT, G_SIZE, G_LOG_POS, G_DATA_AT, G_DATA_END, G_PLAIN, G_WIDTH = range(7)

_HEADER = 19
_END_MARK, _SIZE, _COMPRESSION, _PLAIN_SIZE = range(4)
_ARTIFICIAL = 0x20
_QUERY, _XID, _XA_PREPARE = 2, 16, 38


@njit(**KERNEL)
def find_events(buffer: Bytes, start: int, wanted: Bytes, found: Ints) -> int:
    """Write the offsets of whole events of wanted types to `found`, until it is full or the whole events end.

    Args:
        buffer: raw events.
        start: offset of an event.
        wanted: uint8[256], 1 for each wanted type.
        found: target.

    Returns:
        How many were found. An event of impossible size ends the search: the walk names it.
    """
    at, end, count = start, buffer.shape[0], 0
    while at + _HEADER <= end and count < found.shape[0]:
        size = load_u32(buffer, at + 9)
        if size < _HEADER or at + size > end:
            break
        if wanted[buffer[at + 4]]:
            found[count] = at
            count += 1
        at += size
    return count


@njit(**KERNEL)
def _packed(buffer: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read a packed integer; returns it, −1 when there is none, and the offset after it."""
    if at >= end:
        return -1, at
    first = np.int64(buffer[at])
    if first < 251:
        return first, at + 1  # type: ignore[return-value]  # numba's int64 is Python's int outside
    width = 2 if first == 252 else (3 if first == 253 else 8)
    if first == 251 or first == 255 or at + 1 + width > end:
        return -1, at
    return little_endian(buffer, at + 1, width), at + 1 + width


@njit(**KERNEL)
def read_payload_frames(
    buffer: Bytes, found: Ints, checksum_bytes: int, most_ratio: int, frames: npt.NDArray[np.int64]
) -> None:
    """Read the frames of sound TRANSACTION_PAYLOAD events; of the others, only where they are.

    Args:
        buffer: raw events.
        found: offsets of whole events of that type.
        checksum_bytes: 4 to verify a CRC32, 0 without.
        most_ratio: how often its compressed bytes a payload may take.
        frames: int64[n, G_WIDTH], target.
    """
    fields = np.empty(4, dtype=np.int64)
    for n in range(found.shape[0]):
        at = found[n]
        size = load_u32(buffer, at + 9)
        end = at + size - checksum_bytes
        frame = frames[n]
        frame[G_AT], frame[G_SIZE], frame[G_LOG_POS], frame[G_PLAIN] = at, size, load_u32(buffer, at + 13), -1
        if end < at + _HEADER or load_u16(buffer, at + 17) & _ARTIFICIAL:
            continue
        if checksum_bytes and crc32(buffer, at, end) != load_u32(buffer, end):
            continue
        fields[:] = -1
        place = at + _HEADER
        while True:
            number, place = _packed(buffer, place, end)
            if number == _END_MARK or number < 0 or number > _PLAIN_SIZE or fields[number] >= 0:
                break
            length, place = _packed(buffer, place, end)
            if length < 0 or length > end - place:
                number = -1
                break
            value, _ = _packed(buffer, place, place + length)
            fields[number] = value
            place += length
        if number != _END_MARK or fields[_COMPRESSION] != 0 or fields[_SIZE] != end - place:
            continue
        plain = fields[_PLAIN_SIZE]
        if plain >= 0 and plain <= most_ratio * (end - place + 1):
            frame[G_DATA_AT], frame[G_DATA_END], frame[G_PLAIN] = place, end, plain


@njit(**KERNEL)
def check_contents(buffer: Bytes, start: int, end: int, allowed: Bytes) -> int:
    """Check that buffer[start:end] is one transaction of whole events, and clear their positions, which mean nothing.

    Args:
        buffer: the events, without checksums; written to.
        start: offset of the first.
        end: offset after the last.
        allowed: uint8[256], 1 for each type that a compressed transaction may hold.

    Returns:
        CONTENTS_OK or what is wrong.
    """
    at, kind = start, 0
    while at < end:
        if at + _HEADER > end:
            return CONTENTS_CUT
        size = load_u32(buffer, at + 9)
        if size < _HEADER or at + size > end:
            return CONTENTS_CUT
        kind = buffer[at + 4]
        if not allowed[kind] or load_u16(buffer, at + 17) & _ARTIFICIAL:
            return CONTENTS_TYPE
        if at == start and kind != _QUERY:
            return CONTENTS_BEGIN
        buffer[at + 13 : at + 17] = 0
        at += size
    return CONTENTS_OK if kind == _XID or kind == _QUERY or kind == _XA_PREPARE else CONTENTS_END
