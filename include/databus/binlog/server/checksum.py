"""Verify the CRC32 at the end of events, one by one; `Walker` does the same on the way."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels.crc import crc32
from databus.binlog.log.events import CHECKSUM_BYTES, HEADER_BYTES


def event_checksum_holds(buffer: npt.NDArray[np.uint8], at: int, size_bytes: int) -> bool:
    """Tell whether the last four bytes of an event are the CRC32 of those before.

    Args:
        buffer: read-only bytes (see `walker.as_buffer`).
        at: offset of the event.
        size_bytes: its length, checksum included.
    """
    end = at + size_bytes
    if size_bytes < HEADER_BYTES + CHECKSUM_BYTES or end > len(buffer):
        return False
    stored = int.from_bytes(buffer[end - CHECKSUM_BYTES : end].tobytes(), "little")
    return int(crc32(buffer, at, end - CHECKSUM_BYTES)) == stored


def checksum_bytes(event: bytes) -> int:
    """Return how many bytes of checksum end an event of which nothing has said yet whether it has one."""
    stored = int.from_bytes(event[-CHECKSUM_BYTES:], "little")
    return CHECKSUM_BYTES if zlib.crc32(event[:-CHECKSUM_BYTES]) == stored else 0
