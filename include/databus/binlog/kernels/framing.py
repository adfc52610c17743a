"""Strip MySQL's packet framing from a dump stream, so that events lie one after the other as in the file.

Wire format: MySQL 8.0 source documentation, "MySQL Packets" (3-byte length, sequence number; a packet of 0xFFFFFF
bytes goes on in the next) and "COM_BINLOG_DUMP" (each event's packet starts with a zero byte; 0xFF is an error, a
short 0xFE the end).
"""

from __future__ import annotations

from numba import njit

from databus.binlog.kernels.memory import KERNEL, Bytes, Ints, copy_bytes, little_endian, load_u32

# Why unframing stopped.
STARVED, FULL, END_OF_LOG, SERVER_ERROR, BAD_STATUS, NEXT_FILE = range(6)

# Slots of `state`: bytes left of the packet under way; 1 when the next packet goes on with the same event; offsets
# after the call; length of
# the packet at fault; 1 when a stop for the next file was made.
F_LEFT, F_CONTINUED, F_READ, F_WRITTEN, F_PACKET, F_STOPPED, F_COUNT = range(7)

_MAX_PACKET = 0xFFFFFF
_HEADER, _ROTATE, _HEARTBEAT, _HEARTBEAT_V2 = 19, 4, 27, 41


@njit(**KERNEL)
def unframe(stream: Bytes, start: int, end: int, events: Bytes, written: int, state: Ints) -> int:
    """Copy the events in stream[start:end] to events[written:], without packet headers, status bytes and heartbeats.

    Args:
        stream: bytes as received.
        start: first byte not yet unframed.
        end: bytes of the stream buffer that are filled.
        events: target; must not overlap the stream.
        written: bytes of the target that are filled.
        state: F_…; kept between calls. F_READ and F_WRITTEN are the new `start` and `written`.

    Returns:
        Why it stopped. NEXT_FILE is before a made-up ROTATE event (its position is 0), which names the file of all
        that follows. At SERVER_ERROR and BAD_STATUS, F_READ is the offset of the packet's header and F_PACKET its
        length.
    """
    at = start
    while True:
        if state[F_LEFT] > 0:
            size = min(state[F_LEFT], end - at, events.shape[0] - written)
            copy_bytes(events, written, stream, at, size)  # type: ignore[call-arg]  # numba adds the first argument
            at += size
            written += size
            state[F_LEFT] -= size
            if state[F_LEFT] > 0:
                state[F_READ], state[F_WRITTEN] = at, written
                return STARVED if at == end else FULL
        if at + 4 > end:
            break
        length = little_endian(stream, at, 3)
        if state[F_CONTINUED] == 0:
            if at + 5 > end:
                break
            status = stream[at + 4]
            if status == 0 and length > _HEADER:
                if at + 5 + _HEADER > end:
                    break
                kind = stream[at + 9]
                if kind == _HEARTBEAT or kind == _HEARTBEAT_V2:
                    if at + 4 + length > end:
                        break
                    at += 4 + length
                    continue
                if kind == _ROTATE and load_u32(stream, at + 18) == 0 and state[F_STOPPED] == 0:
                    state[F_STOPPED] = 1
                    state[F_READ], state[F_WRITTEN] = at, written
                    return NEXT_FILE
                state[F_STOPPED] = 0
            if status != 0 or length == 0:
                state[F_READ], state[F_WRITTEN], state[F_PACKET] = at, written, length
                if status == 0xFE and length < 9:
                    return END_OF_LOG
                if status != 0xFF:
                    return BAD_STATUS
                return SERVER_ERROR if at + 4 + length <= end else STARVED
            at += 5
            state[F_LEFT] = length - 1
        else:
            at += 4
            state[F_LEFT] = length
        state[F_CONTINUED] = 1 if length == _MAX_PACKET else 0
    state[F_READ], state[F_WRITTEN] = at, written
    return STARVED


@njit(**KERNEL)
def last_boundary(events: Bytes, filled: int) -> int:
    """Return the offset after the last whole event in events[:filled]; `filled` itself when a size is impossible."""
    at = 0
    while at + 19 <= filled:
        size = load_u32(events, at + 9)
        if size < 19:
            return filled
        if at + size > filled:
            break
        at += size
    return at
