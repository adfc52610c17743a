"""Heartbeats as bytes: what MirrorMaker 2 reads and writes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from databus.kafka.heartbeats import Heartbeat

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
KEY = b"\x00\x04east\x00\x04west"
VALUE = b"\x00\x00" + int(AT.timestamp() * 1000).to_bytes(8, "big")


def test_a_heartbeat_is_written_in_kafkas_primitive_types() -> None:
    beat = Heartbeat("east", "west", AT)
    assert (beat.key, beat.value) == (KEY, VALUE)
    assert Heartbeat.read(KEY, VALUE) == beat


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, VALUE), (KEY, None), (KEY, VALUE[:-1]), (KEY[:-1], VALUE), (b"", VALUE), (KEY, b"\x00\x01" + VALUE[2:]),
     (b"\x00\x01\xff\x00\x00", VALUE), (b"\xff\xff\x00\x00", VALUE), (KEY, b"\x00\x00\x7f" + b"\xff" * 7),
     (KEY, b"\x00\x00" + (int(AT.timestamp()) * 10**6).to_bytes(8, "big")), (KEY, bytes(10))],
)  # fmt: skip
def test_what_is_no_heartbeat_is_passed_over(key: bytes | None, value: bytes | None) -> None:
    assert Heartbeat.read(key, value) is None
