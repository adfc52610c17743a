"""Summarise a stretch of raw events without decoding a value: boundaries, event counts, tables, rows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.arena import kernel_columns
from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.decoding.table_rows import row_fault
from databus.binlog.kernels.crc import crc32
from databus.binlog.kernels.walk import R_AT, R_SLOT, R_TYPE
from databus.binlog.log.events import CHECKSUM_BYTES, HEADER_BYTES, type_name
from databus.binlog.log.row_counting import count_rows
from databus.binlog.log.tablemap import TableMap
from databus.binlog.log.walk import LoggedStatement
from databus.binlog.log.walker import Walker


@dataclass(frozen=True, eq=False)
class Scan:
    """Scan result of a run of events.

    Attributes:
        consumed_bytes: offset after the last whole event.
        position: file position there.
        transactions: the transactions that ended.
        boundaries: int64, buffer offset after each of them.
        events: name of each event type seen → how often.
        tables: table maps seen.
        rows: `database.table` → row changes, of the transactions that ended and of the one still open; without those
            that were taken back or wait for XA COMMIT.
        statements: TRUNCATE and definition statements.
        open: whether a transaction has begun and not ended.
    """

    consumed_bytes: int
    position: int
    transactions: Transactions
    boundaries: npt.NDArray[np.int64]
    events: Mapping[str, int]
    tables: tuple[TableMap, ...]
    rows: Mapping[str, int]
    statements: tuple[LoggedStatement, ...]
    open: bool


def scan_events(buffer: bytes | memoryview | npt.NDArray[np.uint8], *, file: str, base_pos: int = 4) -> Scan:
    """Scan raw events that begin with a FORMAT_DESCRIPTION event; the last event may be cut short.

    Args:
        buffer: raw events without packet headers and magic.
        file: name of the log file.
        base_pos: as for `decode_events`.

    Raises:
        DecodeError: an event is damaged, unknown or unsupported.
    """
    walker = Walker(file, base_pos)
    walk = walker.walk(buffer)
    matrices = [kernel_columns(table.columns) for table in walk.slots]
    rows = {table.full_name: 0 for table in walk.slots}
    for event in walk.rows[walk.rows[:, R_SLOT] >= 0]:
        slot = int(event[R_SLOT])
        count = int(count_rows(walk.expansion.buffer, event, matrices[slot]))
        if count < 0:
            where = f"{file}:{walk.expansion.raw_offset(int(event[R_AT])) + walker.position - walk.consumed_bytes}"
            raise row_fault(count, where, int(event[R_TYPE]), walk.slots[slot], -1)
        rows[walk.slots[slot].full_name] += count
    return Scan(
        consumed_bytes=walk.consumed_bytes,
        position=walker.position,
        transactions=walk.transactions,
        boundaries=walk.transaction_offsets,
        events={type_name(kind): int(walker.counts[kind]) for kind in np.flatnonzero(walker.counts).tolist()},
        tables=tuple(walk.slots),
        rows=rows,
        statements=tuple(walk.statements),
        open=walk.open,
    )


def event_checksum_holds(buffer: npt.NDArray[np.uint8], at: int, size_bytes: int) -> bool:
    """Return whether the last four bytes of an event are the CRC32 of those before.

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
