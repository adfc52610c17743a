"""Source: the promises that every kind keeps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from databus.core.batching import Batching
from databus.core.findings import Finding
from databus.core.positions.lag import Headroom, Lag
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.protocols.splits import Split
from databus.core.state.plan import SourcePlan


class Source(Protocol):
    """An open source; used by one thread of the control process."""

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Probe settings, grants, retention and the start offset; changes nothing."""
        ...

    def start_offset(self) -> Offset:
        """Resolve where a flow without a checkpoint begins (its spec's `start`)."""
        ...

    def earliest_offset(self) -> Offset:
        """Return the first offset still held by the server."""
        ...

    def latest_offset(self) -> Offset:
        """Return the head of the log."""
        ...

    def offset_at(self, when: datetime) -> Offset:
        """Return the last transaction boundary at which every later transaction committed at or after `when`."""
        ...

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Choose the next range; None when nothing new came within `limit.max_seconds`, which it may block."""
        ...

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe exactly a range that was planned before; raises rather than describe another."""
        ...

    def splits(self, plan: SourcePlan, count: int) -> Sequence[Split]:
        """Cut a planned range into at most about `count` pieces in log order; together they are the whole range."""
        ...

    def discard(self, plan: SourcePlan) -> None:
        """Drop what was staged for a range; it can be planned or opened again, by this flow or by a sink behind."""
        ...

    def release(self, plan: SourcePlan) -> None:
        """Discard a committed range, and drop what only ranges up to its end need; no sink stands before its end."""
        ...

    def lag(self, committed: Offset) -> Lag:
        """Measure the distance to the head."""
        ...

    def headroom(self, committed: Offset) -> Headroom | None:
        """Measure how long the server still keeps what follows an offset; None for a source that deletes nothing."""
        ...

    def close(self) -> None:
        """Close every connection; safe to call twice and from a signal's aftermath."""
        ...
