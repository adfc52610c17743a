"""Kept segments of all servers: listed, and pruned over the limit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from databus.binlog.segments.kept_segments import KeptSegment, KeptSegments, servers_with_kept_segments
from databus.binlog.segments.retention import KeepLimit
from databus.core.settings import Settings


@dataclass(frozen=True)
class SegmentView:
    """A kept segment as an operator sees it.

    Attributes:
        segment: the segment.
        age_s: seconds since it was written.
        surplus: whether the limit lets it go.
    """

    segment: KeptSegment
    age_s: float
    surplus: bool

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        s = self.segment
        return {
            "server": s.server,
            "flavor": s.flavor,
            "file": s.file,
            "start_pos": s.start_pos,
            "end_pos": s.end_pos,
            "transactions": s.transactions,
            "first_commit_at": _time(s.min_ts_ms),
            "last_commit_at": _time(s.max_ts_ms),
            "size_bytes": s.size_bytes,
            "age_s": round(self.age_s, 1),
            "surplus": self.surplus,
            "gtids_before": s.gtids_before,
            "gtids_after": s.gtids_after,
        }


def list_segments(settings: Settings, limit: KeepLimit | None = None) -> Sequence[SegmentView]:
    """Return all kept segments, by server and in log order, judged by a limit (default: the installation's).

    Raises:
        ConfigError: DATABUS_SEGMENT_KEEP cannot be read.
        SourceUnavailableError: the store cannot be used.
    """
    limit = KeepLimit.parse(settings.segment_keep) if limit is None else limit
    now, views = time.time(), []
    for server in servers_with_kept_segments(settings.segment_store):
        segments = KeptSegments(settings.segment_store, server).list()
        surplus = set(limit.surplus(segments, now))
        views += [SegmentView(s, now - s.kept_at, s in surplus) for s in segments]
    return views


def prune_segments(settings: Settings, limit: KeepLimit | None = None) -> Sequence[SegmentView]:
    """Delete segments over a limit (default: the installation's); return them.

    Raises:
        ConfigError: DATABUS_SEGMENT_KEEP cannot be read.
        SourceUnavailableError: the store cannot be used.
    """
    limit = KeepLimit.parse(settings.segment_keep) if limit is None else limit
    now, views = time.time(), []
    for server in servers_with_kept_segments(settings.segment_store):
        gone = KeptSegments(settings.segment_store, server).prune(limit, now)
        views += [SegmentView(s, now - s.kept_at, True) for s in gone]
    return views


def _time(stamp_ms: int) -> str:
    return datetime.fromtimestamp(stamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
