"""Kept segments of a log that another one replaced under the same names: which they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from databus.binlog.segments.kept_segments import KeptSegment
from databus.core.positions.offsets import BinlogOffset

_File = tuple[int, int]
"""Number of a log file, and when it was begun: two files of one name were not begun in one second."""


def former_segments(
    kept: Sequence[KeptSegment],
    created_s: Callable[[KeptSegment], int],
    log: Mapping[str, BinlogOffset],
    standing: BinlogOffset,
) -> list[KeptSegment]:
    """Return the segments that are not shown to be of the log as it is now.

    Of it are those of files that it still has, begun when these were; and those of an earlier file after which, by its
    GTIDs, another file of it follows without a gap, begun later than the file of a place in the former log.

    Args:
        kept: segments of one server.
        created_s: returns when the file of a segment was begun, seconds since the epoch; 0 when unknown.
        log: file → its start, with GTIDs and when it was begun: at least of the first file that is left, and of each of
            which segments are kept.
        standing: a place of the former log.
    """
    files: dict[_File, list[KeptSegment]] = defaultdict(list)
    for segment in kept:
        files[segment.number, created_s(segment)].append(segment)
    starts = [start for start in log.values() if start.created_s]
    present = {(start.file_number, start.created_s) for start in starts}
    former: list[KeptSegment] = []
    for file in sorted(files, reverse=True):  # what follows is judged first
        segments = sorted(files[file], key=lambda s: (s.start_pos, s.end_pos))
        # What was begun before the former log's last files is of it, or of both.
        if file[1] <= standing.created_s or not (file in present or _leads_to(file, segments, starts)):
            former += segments
        elif segments[0].begins_file:
            starts.append(replace(segments[0].start, created_s=file[1]))
    return former


def _leads_to(file: _File, segments: Sequence[KeptSegment], starts: Sequence[BinlogOffset]) -> bool:
    """Return whether one of some files of the log follows a file without a gap."""
    number, created_s = file
    end = max(segments, key=lambda s: s.end_pos).end
    return any(number < s.file_number and created_s <= s.created_s and end.same_gtids(s) for s in starts)
