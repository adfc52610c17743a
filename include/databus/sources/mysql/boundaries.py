"""Time boundaries of a server's log by the running maximum of commit time, which never takes a change back."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from databus.binlog.server.stretches import FileStart
from databus.core.errors.source import OffsetPurgedError
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.dump.kept_segments import SegmentRelay
from databus.sources.mysql.positions import CLOCK_SLACK, MysqlPositions, first_ms_from
from databus.sources.mysql.server import MysqlServer, ServerLogFile


def boundary_at(
    server: MysqlServer, positions: MysqlPositions, relay: SegmentRelay, when: datetime
) -> BinlogOffset | None:
    """Return the place before the first transaction that committed at or after a moment; None while there is none.

    A transaction that commits later and says an earlier time lies behind the place: it belongs to the interval that
    was open when it came. Files are distinguished by the time the server began them.

    Raises:
        OffsetPurgedError: the log that would show it was deleted.
    """
    files = server.log_files()
    low = _first_to_read(positions, files, when)
    if low is None:
        kept = relay.at_time(when)
        if kept is not None:
            return kept
        if files[0].number > 1:
            first = positions.file_start(files[0])
            raise OffsetPurgedError(
                f"{server.place}: where {when.isoformat()} lies in the log cannot be determined: what is older than "
                f"{first} was deleted",
                hint=f"Begin at {first}, or keep segments longer (DATABUS_SEGMENT_KEEP) before the next time.",
            )
        low = 0
    first_ms, file, before = first_ms_from(when), files[low].name, 0
    for piece in positions.read(file):
        if isinstance(piece, FileStart):
            file, before = piece.name, 0
            continue
        late = np.flatnonzero(piece.transactions.ts_ms >= first_ms)
        if len(late):
            index = int(late[0])
            before = int(piece.transactions.end_pos[index - 1]) if index else before
            return positions.at_position(file, before) if before else _begin(positions, files, file)
        if len(piece.transactions):
            before = int(piece.transactions.end_pos[-1])
    return None


def _first_to_read(positions: MysqlPositions, files: list[ServerLogFile], when: datetime) -> int | None:
    """Return the index of the last file before which everything committed earlier; None when there is none such."""
    latest = (when - CLOCK_SLACK).timestamp()
    low, high = 0, len(files)
    while low < high:
        middle = (low + high) // 2
        if positions.created_s(files[middle]) < latest:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low else None


def _begin(positions: MysqlPositions, files: list[ServerLogFile], name: str) -> BinlogOffset:
    known = next((file for file in files if file.name == name), None)
    return positions.file_start(known or ServerLogFile(name, 0))
