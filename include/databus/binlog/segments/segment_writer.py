"""Writer of one segment file of a range: raw events as they come, cut at the last boundary in the end."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from databus.binlog.log.mapped import windows
from databus.binlog.log.transactions.pending_xa import StagedPrepare
from databus.binlog.segments.segment import Segment, segment_name
from databus.binlog.segments.store_space import writing
from databus.binlog.server.stretches import FileStart
from databus.core.private_files import private_opener
from databus.core.tables.unlogged import UnloggedChange

Ints = npt.NDArray[np.int64]


class SegmentWriter:
    """Writer of one segment file."""

    def __init__(self, folder: Path, file: FileStart, start_pos: int, gtids: str):
        self._log, self._start_pos, self._gtids = file, start_pos, gtids
        self._path = folder / segment_name(file.name, start_pos)
        with writing(self._path, len(file.description)):
            self.file: BinaryIO = open(self._path, "wb", buffering=0, opener=private_opener)  # noqa: SIM115
            self.file.write(file.description)
        self.written = self.plain_bytes = 0
        self._kept = self._kept_plain = 0
        self.end_pos = start_pos
        self._stamps: list[Ints] = []
        self.rows: dict[int, int] = {}
        self.table_events: list[int] = []
        self.unlogged: list[UnloggedChange] = []
        self.others = False

    def append(self, events: npt.NDArray[np.uint8]) -> None:
        """Write raw events."""
        self.written += len(events)
        with writing(self._path, len(events)):
            for window in windows(events):
                left = np.ascontiguousarray(window).data.cast("B")
                while len(left):
                    left = left[self.file.write(left) :]

    def boundary(self, ts_ms: Ints, end_pos: int) -> None:
        """Note that transactions with these commit times end where the file ends now."""
        self._stamps.append(ts_ms)
        self._kept, self._kept_plain, self.end_pos = self.written, self.plain_bytes, end_pos

    @property
    def ended(self) -> bool:
        """Return whether a transaction ended in it."""
        return bool(self._stamps)

    @property
    def tail_plain_bytes(self) -> int:
        """Size of what lies behind the last boundary if nothing were compressed."""
        return self.plain_bytes - self._kept_plain

    def tail(self) -> npt.NDArray[np.uint8]:
        """Return the raw events behind the last boundary."""
        return np.fromfile(self._path, np.uint8, offset=len(self._log.description) + self._kept)

    def staged(self) -> StagedPrepare:
        """Return where the last transaction that was written ends."""
        size = len(self._log.description)
        return StagedPrepare(self._path, size, size + self._kept)

    def close(self) -> Segment | None:
        """Cut the file at its last boundary and describe it; None, and no file, when no transaction ended in it."""
        with self.file:
            size = len(self._log.description) + self._kept
            self.file.truncate(size)
        if not self._stamps:
            self._path.unlink()
            return None
        stamps = np.concatenate(self._stamps)
        return Segment(
            self._path.name, self._log.name, self._start_pos, self.end_pos, size, len(stamps),
            dict(sorted(self.rows.items())),
            int(stamps[0]), int(stamps[-1]), int(stamps.max()), self._log.checksum, tuple(self.table_events),
            min_ts_ms=int(stamps.min()), gtids_before=self._gtids, unlogged=tuple(self.unlogged),
            others=self.others,
        )  # fmt: skip
