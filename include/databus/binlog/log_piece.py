"""A bounded stretch of a log file in memory, walked over as it is filled."""

from __future__ import annotations

import dataclasses
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels.walk import R_AT, R_END, R_TRANSACTION, R_WIDTH
from databus.binlog.walker import LoggedStatement, Walk, Walker

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_NO_ROWS: Ints = np.empty((0, R_WIDTH), np.int64)


class LogPiece:
    """Bytes read and not yet decoded: the open transaction, walked over already, and what comes after it.

    Attributes:
        filled: bytes held.
        walked: bytes of them that were walked over.
    """

    def __init__(self, size_bytes: int) -> None:
        self._buffer = np.empty(size_bytes, np.uint8)
        self.filled = self.walked = 0
        self._rows = _NO_ROWS
        self._statements: list[LoggedStatement] = []

    @property
    def full(self) -> bool:
        """Whether there is no room to read on."""
        return self.filled == len(self._buffer)

    def fill(self, source: BinaryIO, limit: int | None = None) -> bool:
        """Read until the piece is full or `limit` bytes were read; makes room for a single event that fills it.

        Returns:
            False when the source ended.
        """
        if self.full and self.walked == 0:
            larger = np.empty(2 * len(self._buffer), np.uint8)
            larger[: self.filled] = self._buffer
            self._buffer = larger
        stop = len(self._buffer) if limit is None else min(len(self._buffer), self.filled + limit)
        while self.filled < stop:
            got = source.readinto(self._buffer[self.filled : stop].data)  # type: ignore[attr-defined]
            if not got:
                return False
            self.filled += got
        return True

    def walk(self, walker: Walker) -> Walk:
        """Walk over what is new; the result covers the piece from its beginning.

        Raises:
            DecodeError: an event is damaged, unknown or unsupported.
        """
        begin = self.walked
        walk = walker.walk(self._buffer[begin : self.filled])
        rows = walk.rows
        rows[:, [R_AT, R_END]] += begin
        known = len(self._rows)
        statements = [dataclasses.replace(s, row_event=s.row_event + known) for s in walk.statements]
        self.walked = begin + walk.consumed_bytes
        return dataclasses.replace(
            walk,
            consumed_bytes=self.walked,
            transaction_offsets=walk.transaction_offsets + begin,
            rows=np.concatenate((self._rows, rows)) if known else rows,
            statements=[*self._statements, *statements],
        )

    def walked_bytes(self) -> Bytes:
        """Return the bytes that the last walk covers; valid until the piece changes."""
        return self._buffer[: self.walked]

    def bytes(self) -> Bytes:
        """Return all bytes held; valid until the piece changes."""
        return self._buffer[: self.filled]

    def drop_ended(self, walk: Walk) -> None:
        """Let go of the transactions of a walk that ended, and keep what it knows of the open one."""
        ended = len(walk.transactions)
        first = int(np.searchsorted(walk.rows[:, R_TRANSACTION], ended))
        offset = int(walk.transaction_offsets[-1]) if ended else 0
        rows = walk.rows[first:].copy()
        rows[:, [R_AT, R_END]] -= offset
        rows[:, R_TRANSACTION] = 0
        self._rows = rows
        self._statements = [
            dataclasses.replace(s, row_event=s.row_event - first, transaction=0)
            for s in walk.statements
            if s.transaction >= ended
        ]
        self._forget(offset)

    def drop_walked(self) -> None:
        """Let go of all that was walked over."""
        self._rows, self._statements = _NO_ROWS, []
        self._forget(self.walked)

    def restart(self, end: int) -> None:
        """Keep the bytes up to an offset and forget that they were walked over."""
        self.filled, self.walked = end, 0
        self._rows, self._statements = _NO_ROWS, []

    def clear(self) -> None:
        """Let go of everything."""
        self.filled = self.walked = 0
        self._rows, self._statements = _NO_ROWS, []

    def _forget(self, count: int) -> None:
        rest = self.filled - count
        if count and rest:
            self._buffer[:rest] = self._buffer[count : self.filled].copy()
        self.filled, self.walked = rest, self.walked - count
