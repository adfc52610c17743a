"""Bytes of a file as memory: handed through in windows, so that resident memory does not follow the size of an event.

Pages of a mapped file count as resident memory while they are mapped in, though they can leave at any time: after use
they are let go, and come back from the file when they are touched again.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from databus.binlog.segments.store_space import writing

Bytes = npt.NDArray[np.uint8]

WINDOW_BYTES = 16 << 20
"""Bytes of a large event that are looked at before its pages are let go."""

IN_MEMORY_BYTES = 64 << 20
"""A buffer for events that would be larger than this lies in an unnamed temporary file."""


def release(data: Bytes) -> None:
    """Let the pages under a mapped array leave memory; nothing happens to memory that no file stands behind."""
    found = _mapping(data)
    if found is None or not len(data):
        return
    mapping, offset = found
    start = offset & -mmap.PAGESIZE
    mapping.madvise(mmap.MADV_DONTNEED, start, min(offset + len(data), len(mapping)) - start)


def is_mapped(data: Bytes) -> bool:
    """Return whether a file stands behind an array."""
    return _mapping(data) is not None


def windows(data: Bytes, size: int = WINDOW_BYTES) -> Iterator[Bytes]:
    """Yield an array's bytes window by window; the pages of each are let go when the next is asked for."""
    for start in range(0, len(data), size):
        window = data[start : start + size]
        yield window
        release(window)


def crc32_of(data: Bytes) -> int:
    """Return the CRC-32 of an array of any size."""
    crc = 0
    for window in windows(data):
        crc = zlib.crc32(window.data, crc)
    return crc


def spooled(size_bytes: int, folder: Path | None = None) -> Bytes:
    """Return a writable array over an unnamed temporary file, whose space is set aside.

    Args:
        size_bytes: its length.
        folder: where the file lies; None for the system's folder for temporary files.

    Raises:
        SegmentStoreFullError: there is no room for it.
    """
    place = Path(tempfile.gettempdir()) if folder is None else folder
    with tempfile.TemporaryFile(prefix="databus-", dir=place) as file, writing(place, size_bytes):
        # A page that finds no room on the disk when it is written to ends the process.
        os.posix_fallocate(file.fileno(), 0, size_bytes)
        mapping = mmap.mmap(file.fileno(), size_bytes)
    return np.frombuffer(mapping, np.uint8)


def _mapping(data: Bytes) -> tuple[mmap.mmap, int] | None:
    """Return the mapping of a file that an array lies in, and its offset there."""
    owner: object = data
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    if not isinstance(owner, mmap.mmap):
        return None
    start = np.frombuffer(owner, np.uint8).__array_interface__["data"][0]
    return owner, data.__array_interface__["data"][0] - start
