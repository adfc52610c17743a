"""Find compressed events in raw events, and check the framing of the events inside a compressed transaction."""

from __future__ import annotations

from numba import njit

from databus.binlog.kernels.memory import KERNEL, Bytes, Ints, load_u16, load_u32

# What `check_contents` finds wrong.
CONTENTS_OK, CONTENTS_CUT, CONTENTS_TYPE, CONTENTS_BEGIN, CONTENTS_END = range(5)

_HEADER = 19
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
