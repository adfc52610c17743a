"""Packets → events: however the stream is cut, the events come out whole; what is no event is told apart."""

from __future__ import annotations

import numpy as np
import pytest

from databus.binlog.kernels.framing import (
    BAD_STATUS,
    END_OF_LOG,
    F_COUNT,
    F_READ,
    F_WRITTEN,
    FULL,
    NEXT_FILE,
    SERVER_ERROR,
    last_boundary,
    unframe,
)

MAX_PACKET = 0xFFFFFF


def event(kind: int, size: int, log_pos: int = 1) -> bytes:
    return (
        bytes(4)
        + bytes([kind])
        + bytes(4)
        + size.to_bytes(4, "little")
        + log_pos.to_bytes(4, "little")
        + bytes(2)
        + bytes([kind]) * (size - 19)
    )


def packets(payload: bytes) -> bytes:
    """Frame one payload as the server does; one of a multiple of the maximum ends with an empty packet."""
    out, sequence = b"", 1
    while True:
        part, payload = payload[:MAX_PACKET], payload[MAX_PACKET:]
        out += len(part).to_bytes(3, "little") + bytes([sequence % 256]) + part
        sequence += 1
        if len(part) < MAX_PACKET:
            return out


def run(stream: bytes, step: int, capacity: int = 1 << 26) -> tuple[bytes, list[int]]:
    """Feed a stream in pieces of `step` bytes; returns the events and every stop that is not for want of bytes."""
    buffer, target = np.frombuffer(stream, np.uint8).copy(), np.empty(capacity, np.uint8)
    state = np.zeros(F_COUNT, np.int64)
    start = written = end = 0
    stops: list[int] = []
    while True:
        status = int(unframe(buffer, start, end, target, written, state))
        start, written = int(state[F_READ]), int(state[F_WRITTEN])
        if status:
            stops.append(status)
        if status not in (0, NEXT_FILE) or (status == 0 and end == len(stream)):
            return target[:written].tobytes(), stops
        if status == 0:
            end = min(len(stream), end + step)


@pytest.mark.parametrize("step", [1, 7, 23, 1000])
def test_any_cut_of_the_stream_gives_the_same_events(step: int) -> None:
    events = [event(33, 65), event(30, 300), event(16, 31)]
    stream = b"".join(packets(b"\0" + e) for e in events)
    assert run(stream, step) == (b"".join(events), [])


@pytest.mark.parametrize("size", [MAX_PACKET - 2, MAX_PACKET - 1, MAX_PACKET, 2 * MAX_PACKET - 1, 2 * MAX_PACKET + 5])
def test_events_around_multiples_of_16_mib_come_whole(size: int) -> None:
    events = event(30, size) + event(16, 31)
    assert run(packets(b"\0" + event(30, size)) + packets(b"\0" + event(16, 31)), 4 << 20) == (events, [])


@pytest.mark.parametrize("step", [1, 1000])
def test_heartbeats_are_left_out(step: int) -> None:
    stream = b"".join(packets(b"\0" + e) for e in (event(16, 31), event(27, 40), event(41, 60), event(33, 65)))
    assert run(stream, step) == (event(16, 31) + event(33, 65), [])


def test_a_made_up_rotate_stops_once_and_a_real_one_does_not() -> None:
    real, made_up = event(4, 40, log_pos=77), event(4, 40, log_pos=0)
    stream = b"".join(
        packets(b"\0" + e) for e in (event(16, 31), real, made_up, event(15, 120), made_up, event(15, 120))
    )
    assert run(stream, 64) == (
        event(16, 31) + real + made_up + event(15, 120) + made_up + event(15, 120),
        [NEXT_FILE] * 2,
    )


@pytest.mark.parametrize(
    ("packet", "status"),
    [
        (b"\xfe\0\0\2\0", END_OF_LOG),
        (b"\xff\xd4\x04#HY000gone", SERVER_ERROR),
        (b"\x07" + bytes(30), BAD_STATUS),
        (b"", BAD_STATUS),
    ],
)
def test_what_is_no_event_is_told_apart(packet: bytes, status: int) -> None:
    stream = packets(b"\0" + event(16, 31)) + packets(packet) + b"\0"
    assert run(stream, 1) == (event(16, 31), [status])


def test_a_full_target_is_said_and_nothing_is_lost() -> None:
    got, stops = run(packets(b"\0" + event(30, 300)), 1000, capacity=100)
    assert (got, stops) == (event(30, 300)[:100], [FULL])


def test_last_boundary_is_after_the_last_whole_event() -> None:
    data = np.frombuffer(event(33, 65) + event(16, 31) + event(30, 300)[:50], np.uint8)
    assert last_boundary(data, len(data)) == 96
    assert last_boundary(data, 70) == 65
    broken = np.frombuffer(event(33, 65) + bytes(30), np.uint8)
    assert last_boundary(broken, len(broken)) == len(broken)
