"""A source that begins and ends at two places, as a piece of a backfill and a sink that catches up see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from databus.core.batching import Batching
from databus.core.positions.lag import Lag
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.protocols.optional_source import BoundedSource, PartitionedSource, StoppingSource
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan

Locate = Callable[[Offset], Offset]
"""Returns a place as one of the log that is read now."""


def unmoved(place: Offset) -> Offset:
    """Return the place: the log is the one that it is of."""
    return place


def between(
    source: Source, wanted: OffsetRange, exactly: Callable[[OffsetRange], SourcePlan], locate: Locate = unmoved
) -> Source:
    """Return a view of a source that begins and ends at two places; closing it closes the source.

    Args:
        source: the source. One that reads several logs side by side cuts itself, each log at its own place.
        wanted: from where to where.
        exactly: describes a range of the source that ends where it says.
        locate: finds places of the past in the log that is read now; asked at each plan, since a failover may come.
    """
    if isinstance(source, PartitionedSource):
        return source.between(wanted)
    return cast("Source", _Between(source, wanted, exactly, locate))


class _Between:
    def __init__(
        self, source: Source, wanted: OffsetRange, exactly: Callable[[OffsetRange], SourcePlan], locate: Locate
    ):
        self._source, self._range, self._exactly, self._locate = source, wanted, exactly, locate

    def start_offset(self) -> Offset:
        return self._locate(self._range.start)

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Choose the next range, which ends at the end at the latest; None when `after` is there."""
        after, end = self._locate(after), self._locate(self._range.end)
        if after.compare(end) in {Ordering.EQUAL, Ordering.AFTER}:
            return None
        source = self._source
        if isinstance(source, BoundedSource):
            return source.plan_up_to(OffsetRange(after, end), limit)
        # The flow has been at the end: whatever it was to stop before on the way there, it has passed.
        proposed = (source.plan_decided if isinstance(source, StoppingSource) else source.plan)(after, limit)
        if proposed is not None and proposed.range.end.compare(end) is not Ordering.AFTER:
            return proposed
        shorter = self._exactly(OffsetRange(after, end))
        if proposed is not None:
            self._source.discard(proposed)
        return shorter

    def lag(self, committed: Offset) -> Lag:
        """Measure from where the committed place lies now."""
        return self._source.lag(self._locate(committed))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)
