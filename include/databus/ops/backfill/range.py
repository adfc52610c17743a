"""Backfill range: moments and places become offsets, and what cannot be is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from databus.core.errors.checkpoint import BackfillOpenError, CheckpointConflictError
from databus.core.errors.config import BackfillFutureError, BackfillRangeError
from databus.core.errors.source import SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import earlier, later
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, OffsetRange, Ordering, is_foreign
from databus.core.positions.replaced_logs import is_of_former_log
from databus.core.state.backfill import Boundary, RangedSource
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.ops.backfill.places import moment, require_one_meaning
from databus.ops.checkpoint.place_words import require_place
from databus.ops.checkpoint.targets import Target, on_timeline, resolve
from databus.runtime.context import Services

CLOSED_AFTER = timedelta(seconds=60)
"""So long after a moment no transaction is taken to come any more that says it committed before it."""


@dataclass(frozen=True)
class Places:
    """Resolves the words of a range in one flow's log.

    Attributes:
        flow: the flow.
        services: the installation.
        source: its source, open.
        checkpoint: where the live flow stands.
        known: boundaries that are fixed, by moment.
        lease: the planning lease, to fix boundaries under; None to look only.
    """

    flow: Flow
    services: Services
    source: RangedSource
    checkpoint: Checkpoint
    known: Sequence[Boundary]
    lease: Lease | None = None

    def range(self, start: str, end: str) -> OffsetRange:
        """Return the range from one place to another.

        Raises:
            BackfillRangeError: it ends before it begins, or is no range.
            BackfillFutureError: it ends in the future.
            BackfillOpenError: its end has only just been, and may still come to hold more.
            OffsetPurgedError: the server has deleted the log that would show where it begins.
            PlaceError, SourceError: a word names no place of the source's log.
        """
        require_place(self.flow, start, "from")
        require_place(self.flow, end, "to")
        began, ended = moment(start), moment(end)
        if began is not None and ended is not None and began >= ended:
            raise BackfillRangeError(
                f"flow {self.flow.name}: the range from {start} to {end} ends before it begins",
                hint="from is inclusive, to is exclusive; times without a zone are UTC.",
            )
        for text, when in ((start, began), (end, ended)):
            if when is not None:
                self._require_past(text, when)
        first, last = self._place(start, began), self._place(end, ended)
        order = last.compare(first)
        if isinstance(first, KafkaOffsets) and isinstance(last, KafkaOffsets) and order is Ordering.DIVERGED:
            raise BackfillRangeError(
                f"flow {self.flow.name}: the range from {start} to {end} ends before it begins in some partitions: "
                f"{_backward(first, last)}",
                hint="Name both ends by times, or both by offsets of the same partitions.",
            )
        if order is Ordering.DIVERGED and is_foreign(first):
            raise SourceDivergedError(
                f"flow {self.flow.name}: {first} and {last} cannot be ordered, says their kind {first.kind!r}",
                hint="Name both ends in one log of the source.",
            )
        if order is Ordering.DIVERGED:
            raise SourceDivergedError(
                f"flow {self.flow.name}: {first} and {last} are not of one log: a failover lies between them",
                hint="GTIDs do not order them. Backfill what lies before and after the failover by itself.",
            )
        if order is Ordering.BEFORE:
            raise BackfillRangeError(
                f"flow {self.flow.name}: the range from {start} ({first}) to {end} ({last}) ends before it begins",
                hint="Exchange from and to.",
            )
        return OffsetRange(first, last)

    def _require_past(self, text: str, when: datetime) -> None:
        now = self.services.clock.now()
        if when > now:
            raise BackfillFutureError(
                f"flow {self.flow.name}: {text} is in the future, it is {now.isoformat(timespec='seconds')}",
                hint="Times without a zone are UTC. What is yet to come, the live flow moves by itself.",
            )

    def _place(self, text: str, when: datetime | None) -> Offset:
        if when is None:
            require_one_meaning(self.flow, self.services, text, self.checkpoint.offset)
            return resolve(self.flow, self.services, self.source, self.checkpoint, Target(place=text))
        # Those of a log that was replaced since mean nothing in this one.
        known = [b for b in self.known if not is_of_former_log(b.offset, self.checkpoint.offset)]
        fixed = next((b.offset for b in known if b.at == when), None)
        if fixed is not None:
            return fixed
        found = on_timeline(self.flow, self._found(when), self.checkpoint.offset)
        # Neighbours were fixed by what the log held then: moments keep their order whatever clocks did.
        for boundary in known:
            self._require_order(when, found, boundary)
            found = (later if boundary.at < when else earlier)(found, boundary.offset)
        if self.lease is None or self.services.backfills is None:
            return found
        return self.services.backfills.fix(self.flow.name, self.lease, Boundary(when, found)).offset

    def _require_order(self, when: datetime, found: Offset, boundary: Boundary) -> None:
        if isinstance(found, BinlogOffset) and found.compare(boundary.offset) is Ordering.DIVERGED:
            raise SourceDivergedError(
                f"flow {self.flow.name}: {when.isoformat()} lies at {found}, which cannot be ordered with the place of "
                f"{boundary.at.isoformat()}, {boundary.offset}: a failover lies between them, and GTIDs do not help",
                hint="Choose a time further from it, or name the range by GTID.",
            )

    def _found(self, when: datetime) -> Offset:
        found = self.source.boundary_at(when)
        now = self.services.clock.now()
        if found.open and now - when < CLOSED_AFTER:
            raise BackfillOpenError(
                f"flow {self.flow.name}: {when.isoformat()} is {(now - when).total_seconds():.0f} s ago, and no change "
                "has come since: some may still come that say an earlier time",
                hint=f"It is closed by the next change, or {CLOSED_AFTER.total_seconds():.0f} s after it: try again "
                "then, or name an earlier time (--to).",
            )
        return found.offset


def _backward(first: KafkaOffsets, last: KafkaOffsets) -> str:
    ends = last.places()
    found = [
        f"{topic}[{partition}] from {at[1]} to {ends.get((topic, partition), (0, 0))[1]}"
        for (topic, partition), at in sorted(first.places().items())
        if at > ends.get((topic, partition), (0, 0))
    ]
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def standing(flow: Flow, services: Services) -> Checkpoint:
    """Return where the live flow stands.

    Raises:
        CheckpointConflictError: it has not run yet.
    """
    checkpoint = services.store.load(flow.name)
    if checkpoint is None:
        raise CheckpointConflictError(
            f"flow {flow.name} has not run yet, so there is nothing that a backfill could complete or repeat",
            hint="Its first run begins where `start` of its source says.",
        )
    return checkpoint
