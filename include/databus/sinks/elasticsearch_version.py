"""External versions: the place of a row in its source's log as one number that only grows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from databus.core.errors import SinkSettingError
from databus.core.offsets import BinlogOffset, Offset

TIMELINE_BITS = 10
FILE_BITS = 19
POSITION_BITS = 34
"""10 + 19 + 34 = 63: the widest version the servers take is 2**63 - 1 (version_type=external, a positive Java long)."""


def source_version(timeline: int, file_number: int, position: int) -> int:
    """Return the version of a row of a binary log.

    Args:
        timeline: number of failovers so far.
        file_number: number of the log file.
        position: byte position of the transaction's end.

    Raises:
        SinkSettingError: a part does not fit into its bits; versions would no longer order the rows.
    """
    parts = (
        ("timeline", timeline, TIMELINE_BITS),
        ("file number", file_number, FILE_BITS),
        ("position", position, POSITION_BITS),
    )
    version = 0
    for name, value, bits in parts:
        if not 0 <= value < 1 << bits:
            raise SinkSettingError(
                f"the log's {name} {value} does not fit into {bits} bits of a document's version",
                hint="Index the rows anew into an index of another name, from a log whose files are numbered lower.",
                code="sink_version_overflow",
            )
        version = version << bits | value
    return version


def newest_version(end: Offset) -> int | None:
    """Return the highest version of a row of a range, None for sources other than a binary log."""
    return source_version(end.timeline, end.file_number, end.pos) if isinstance(end, BinlogOffset) else None


def versioning(end: Offset) -> Callable[[str, int], int]:
    """Return the function (file, position) → version for the rows of a range that ends at `end`.

    Rows of other sources than a binary log are versioned by their position alone.
    """
    if not isinstance(end, BinlogOffset):
        return lambda _file, position: position
    timeline, server, flavor = end.timeline, end.server, end.flavor

    @cache
    def file_number(file: str) -> int:
        return BinlogOffset(file, 4, server=server, flavor=flavor).file_number

    return lambda file, position: source_version(timeline, file_number(file), position)
