"""A dump that stays open from one range to the next, so that a change at the head is seen as it is written.

Each range is read by a walk of its own, which begins as a new dump does: with the log file's name and its
FORMAT_DESCRIPTION. So what it sees is the same whether the dump was kept or asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from databus.binlog.segments.kept_log import made_up_rotate
from databus.binlog.server.dump import Dump, Events
from databus.binlog.server.stretches import FileStart, WalkedStretch
from databus.core.positions.offsets import BinlogOffset

LARGEST_TAIL_BYTES = 8 << 20
"""Bytes kept in memory of a transaction that a range ended before; one that is longer is asked for again."""


class FollowedDump:
    """Binlog dump that follows the log, and what it has sent behind the end of the last range."""

    def __init__(self, dump: Dump, start: BinlogOffset):
        """Take a dump over that was asked to start at a place; nothing of it was read yet."""
        self._dump = dump
        self._until: Callable[[], float] = lambda: 0.0
        self._events = dump.batches(self._deadline)
        self._name = start.file
        self._file: FileStart | None = None
        self._tail: list[bytes] = []
        self._tail_pos = start.pos
        self._tail_bytes = 0
        self._usable = True

    def stands_at(self, place: BinlogOffset) -> bool:
        """Return whether the next range can begin at a place without another dump."""
        return self._usable and (place.file, place.pos) == (self._name, self._tail_pos)

    def batches(self, deadline: Callable[[], float] | None = None) -> Iterator[Events]:
        """Yield what a dump from the place where it stands would send (see `Dump.batches`)."""
        assert deadline is not None  # noqa: S101 - a dump that follows has one
        self._until = deadline
        if self._file is not None:
            known = bytearray(
                made_up_rotate(self._name, self._tail_pos) + self._file.description + b"".join(self._tail)
            )
            self._tail, self._tail_bytes = [], 0
            yield Events(np.frombuffer(known, np.uint8), len(known), repeated=True)
        yield from _each(self._events)

    def passed(self, piece: FileStart | WalkedStretch) -> None:
        """Note what a walk of `batches` has yielded, before the next piece is asked for."""
        if isinstance(piece, FileStart):
            # The log went on in another file: the next range asks again.
            self._usable = self._usable and piece.name == self._name
            if self._file is None:
                self._file, self._tail_pos = piece, piece.pos
            return
        end = int(piece.offsets[-1]) if len(piece.offsets) else 0
        if end:
            self._tail, self._tail_bytes, self._tail_pos = [], 0, piece.pos + end
        if self._usable and end < len(piece.events):
            self._tail.append(piece.events[end:].tobytes())
            self._tail_bytes += len(piece.events) - end
            self._usable = self._tail_bytes <= LARGEST_TAIL_BYTES
        if not self._usable:
            self._tail = []

    def _deadline(self) -> float:
        return self._until()

    def close(self) -> None:
        """End the dump; safe to call twice."""
        self._usable = False
        self._dump.close()

    def __enter__(self) -> FollowedDump:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.close()


def _each(events: Iterator[Events]) -> Iterator[Events]:
    """Pass on without closing the iterator when the reader stops."""
    while True:
        try:
            item = next(events)
        except StopIteration:
            return
        yield item
