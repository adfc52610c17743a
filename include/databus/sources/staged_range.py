"""What a staged range is to the path: the plan it makes, and how its segments are shared out to tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from databus.binlog.segments import RangeIndex, Segment
from databus.core.plan import SourcePlan


def source_plan(index: RangeIndex) -> SourcePlan:
    """Return the plan that reads exactly this range."""

    def at(stamp_ms: int | None) -> datetime | None:
        return None if stamp_ms is None else datetime.fromtimestamp(stamp_ms / 1000, UTC)

    statements = sum(len(segment.table_events) for segment in index.segments)
    first, newest = at(index.first_ts_ms), at(index.max_ts_ms)
    unlogged = tuple(change for segment in index.segments for change in segment.unlogged)
    return SourcePlan(
        index.range, index.tables, index.rows, index.bytes, first, newest, index.more, statements, unlogged=unlogged
    )


def shared_out(index: RangeIndex, count: int) -> Sequence[Sequence[Segment]]:
    """Group the segments that hold anything into at most `count` groups of about equal size, in log order."""
    wanted = [s for s in index.segments if s.rows or s.table_events]
    share = sum(s.size_bytes for s in wanted) / max(1, count)
    groups: dict[int, list[Segment]] = {}
    passed = 0
    for segment in wanted:
        group = min(max(1, count) - 1, int((passed + segment.size_bytes / 2) / share))
        groups.setdefault(group, []).append(segment)
        passed += segment.size_bytes
    return [segments for _, segments in sorted(groups.items())]
