"""Kept segments read as one log: what a dump of the server would send, from a place to the end of what is kept."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from databus.binlog.kernels.framing import last_boundary
from databus.binlog.log.events import HEADER_BYTES, MAGIC, EventType
from databus.binlog.log.mapped import IN_MEMORY_BYTES, release, spooled
from databus.binlog.segments.kept_segments import KeptSegment, KeptSegments
from databus.binlog.server.dump import Events
from databus.core.positions.offsets import BinlogOffset

READ_BYTES = 4 << 20
"""Bytes of a segment that are read at once; an event that is larger is read whole."""


class KeptLog:
    """The kept segments from a place on; read like a `Dump` that ends at its head."""

    def __init__(self, kept: KeptSegments, chain: Sequence[KeptSegment], start: BinlogOffset):
        """Take what `chain_from` found; nothing is opened yet."""
        self._kept, self.chain, self._start = kept, chain, start

    @property
    def end(self) -> BinlogOffset:
        """End of the kept log."""
        return self.chain[-1].end

    def reaches(self, end: BinlogOffset) -> bool:
        """Return whether all up to a place lies in here."""
        return any(s.file == end.file and s.start_pos < end.pos <= s.end_pos for s in self.chain)

    def batches(self, deadline: Callable[[], float] | None = None) -> Iterator[Events]:  # noqa: ARG002 - a dump's
        """Yield whole events; ends early where a segment was pruned meanwhile."""
        file, pos = "", self._start.pos
        for segment in self.chain:
            inside = segment.file == (file or self._start.file) and segment.start_pos < pos
            begin = pos if inside else segment.start_pos
            try:
                opened = self._kept.open(segment)
            except FileNotFoundError:
                return
            with opened as data:
                description = data.read(segment.header_bytes)
                if segment.file != file:
                    file = segment.file
                    yield _events(made_up_rotate(file, begin) + description)
                data.seek(segment.header_bytes + begin - segment.start_pos)
                yield from _whole_events(data)
            pos = segment.end_pos

    def close(self) -> None:
        """Close nothing: no connection stays open between batches."""

    def __enter__(self) -> KeptLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def chain_from(segments: Sequence[KeptSegment], start: BinlogOffset) -> list[KeptSegment]:
    """Return the segments that follow each other without a gap from a place on; empty when none holds it.

    Args:
        segments: in log order.
        start: a transaction boundary; its GTIDs must be those of the segments' log.
    """
    by_file: dict[str, list[KeptSegment]] = defaultdict(list)
    first_of_files: dict[str, KeptSegment] = {}
    for segment in segments:
        by_file[segment.file].append(segment)
        if segment.begins_file and segment.gtids_before:
            first_of_files[segment.gtids_before] = segment
    chain: list[KeptSegment] = []
    file, pos, gtids = start.file, start.pos, start.gtids
    while True:
        here = [s for s in by_file[file] if s.start_pos <= pos < s.end_pos or (s.begins_file and pos == len(MAGIC))]
        following = max(here, key=lambda s: s.end_pos, default=None) or first_of_files.get(gtids)
        if following is None or (following.file != file and following.number <= int(file.rpartition(".")[2])):
            return chain
        chain.append(following)
        file, pos, gtids = following.file, following.end_pos, following.gtids_after


def _events(data: bytes) -> Events:
    return Events(np.frombuffer(data, np.uint8), len(data))


def made_up_rotate(file: str, pos: int) -> bytes:
    """Return the ROTATE event with which a dump names a log file; its log position is 0, as it lies in none."""
    body = struct.pack("<Q", pos) + file.encode()
    return struct.pack("<IBIIIH", 0, EventType.ROTATE, 0, HEADER_BYTES + len(body), 0, 0x20) + body


def _whole_events(data: BinaryIO) -> Iterator[Events]:
    """Yield the events of a file; one over 64 MiB in a temporary file that is mapped."""
    buffer = np.empty(READ_BYTES, np.uint8)
    filled = 0
    while True:
        got = data.readinto(buffer[filled : filled + READ_BYTES].data)  # type: ignore[attr-defined]
        if len(buffer) > IN_MEMORY_BYTES:
            release(buffer[filled : filled + (got or 0)])
        filled += got or 0
        whole = int(last_boundary(buffer, filled))
        if whole:
            yield Events(buffer, whole)
            rest = buffer[whole:filled].copy()
            if len(buffer) > IN_MEMORY_BYTES:
                buffer = np.empty(max(READ_BYTES, 2 * len(rest)), np.uint8)
            buffer[: len(rest)] = rest
            filled = len(rest)
        elif not got:
            return
        if filled == len(buffer):
            size = int.from_bytes(buffer[9:13].tobytes(), "little")
            room = max(size, len(buffer)) + READ_BYTES
            larger = spooled(room) if room > IN_MEMORY_BYTES else np.empty(room, np.uint8)
            larger[:filled] = buffer[:filled]
            buffer = larger
