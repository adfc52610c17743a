"""A source that begins and ends at two places, as a piece of a backfill and a sink that catches up see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from databus.core.batching import Batching
from databus.core.offsets import Offset, OffsetRange, Ordering
from databus.core.plan import SourcePlan
from databus.core.protocols import PartitionedSource, Source


def between(source: Source, wanted: OffsetRange, exactly: Callable[[OffsetRange], SourcePlan]) -> Source:
    """Return a view of a source that begins and ends at two places; closing it closes the source.

    Args:
        source: the source. One that reads several logs side by side cuts itself, each log at its own place.
        wanted: from where to where.
        exactly: describes a range of the source that ends where it says.
    """
    if isinstance(source, PartitionedSource):
        return source.between(wanted)
    return cast("Source", _Between(source, wanted, exactly))


class _Between:
    def __init__(self, source: Source, wanted: OffsetRange, exactly: Callable[[OffsetRange], SourcePlan]):
        self._source, self._range, self._exactly = source, wanted, exactly

    def start_offset(self) -> Offset:
        return self._range.start

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Choose the next range, which ends at the end at the latest; None when `after` is there."""
        end = self._range.end
        if after.compare(end) in {Ordering.EQUAL, Ordering.AFTER}:
            return None
        proposed = self._source.plan(after, limit)
        if proposed is not None and proposed.range.end.compare(end) is not Ordering.AFTER:
            return proposed
        shorter = self._exactly(OffsetRange(after, end))
        if proposed is not None:
            self._source.release(proposed)
        return shorter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)
