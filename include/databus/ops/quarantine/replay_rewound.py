"""Held rows behind a rewind: the flow moves them again, and decides each anew."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.errors.source import SourceDivergedError
from databus.core.positions.offset_ranges import earlier, overlap, unreached, without
from databus.core.positions.offsets import OffsetRange
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.checkpoint_store import CheckpointStore
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine.replay_range import BatchRanges
from databus.ops.quarantine.replay_refusals import ReplayRefusal
from databus.records.quarantine.held_row import OTHERWISE, HeldRow, HeldState

log = logging.getLogger(__name__)

MOVED_AGAIN = "quarantine_moved_again"
"""Code of the error for rows of which nothing shows whether the flow has moved them again since a rewind."""


@dataclass(frozen=True)
class RewoundRows:
    """Rewinds and restores of a flow: what they mean for rows that were held before them.

    A row that the flow holds back again is under its new batch. So of an entry that is still under a batch from before,
    what the flow passes again it gives to the sinks, or filters: a replay would send it once more, after newer rows of
    its key.

    Attributes:
        flow: flow name.
        store: its checkpoint store.
        ranges: of its batches.
        said: who replays; with consent rows of which nothing is known are sent.
        now: aware UTC.
    """

    flow: str
    store: CheckpointStore
    ranges: BatchRanges
    said: Attribution
    now: datetime

    def left(self, held: Sequence[HeldRow]) -> tuple[list[HeldRow], list[ReplayRefusal]]:
        """Return the rows that are for a replay, and those whose fate is unknown; what was moved again is settled.

        Args:
            held: the rows that are meant.
        """
        by_plan: dict[tuple[int, str], list[HeldRow]] = {}
        for row in held:
            by_plan.setdefault((row.batch, row.plan_hash), []).append(row)
        left: list[HeldRow] = []
        refused: list[ReplayRefusal] = []
        for (batch, plan_hash), rows in by_plan.items():
            moved = self.ranges.surely(batch, plan_hash) if self._set_back else None
            set_back = [] if moved is None else [e for e in self._set_back if batch <= e.batch and _meets(moved, e)]
            if moved is None or not set_back:
                left += rows
                continue
            error = self._doubt(batch, moved, set_back)
            if error is None:
                self._settle(batch, rows, set_back[-1])
            elif self.said.consents:
                left += rows
            else:
                refused.append(ReplayRefusal(batch, len(rows), error))
        return left, refused

    def _doubt(
        self, batch: int, moved: OffsetRange, set_back: Sequence[HistoryEntry]
    ) -> CheckpointConflictError | None:
        """Return why it is not known that all of a range was moved again, None where it was."""
        last, standing = set_back[-1], self.store.load(self.flow)
        told = f"flow {self.flow}: rows of batch {batch} ({moved.start} to {moved.end})"
        if standing is None or unreached(standing.offset, moved.end) is not None:
            return CheckpointConflictError(
                f"{told} lie behind its {_named(last)}, and it has yet to pass them again",
                hint="Run the flow past them: it sends them, or holds them anew; then replay what is held still. "
                "`--accept` sends them now, and the flow once more when it comes there.",
                code=MOVED_AGAIN,
            )
        whole = not without(moved, [_range_of(entry) for entry in set_back])
        gaps = (OffsetRange(gap.start, gap.end) for gap in self.store.gaps(self.flow))
        if whole and not any(_overlaps(gap, moved) for gap in gaps):
            return None
        return CheckpointConflictError(
            f"{told} were moved again in part, since its {_named(last)}: which of them the sinks have is not known",
            hint=f"Look for their event ids in the sinks (`databus quarantine list {self.flow}` names them): "
            "`quarantine discard --event …` those that are there, `quarantine replay --event … --accept` the others.",
            code=MOVED_AGAIN,
        )

    def _settle(self, batch: int, rows: Sequence[HeldRow], last: HistoryEntry) -> None:
        why = f"moved again by the flow itself since its {_named(last)}"
        states = dict.fromkeys((row.identity for row in rows), HeldState.REPLAYED)
        self.ranges.rows.settle(OTHERWISE, batch, states, (self.said.who, why, self.now))
        log.warning("flow %s: %d rows of batch %d are not replayed: %s", self.flow, len(rows), batch, why)

    @cached_property
    def _set_back(self) -> list[HistoryEntry]:
        """Return the steps that led the flow back, ascending."""
        return [entry for entry in self._amendments() if not _range_of(entry).empty]

    def _amendments(self) -> Iterator[HistoryEntry]:
        ledger = self.ranges.rows.ledger
        page, newest = ledger.newest(self.flow), self.store.history(self.flow, 1)
        paged, head = page.number if page else 0, newest[0].number if newest else 0
        if page is not None and paged <= head:
            pages = ledger.amendments(self.flow, page.generation)
            yield from (amended.entry for amended in pages if amended.entry is not None)
        unpaged = self.store.history(self.flow, head - (paged if paged <= head else 0))
        yield from (entry for entry in reversed(unpaged) if entry.action != "commit")


def _range_of(entry: HistoryEntry) -> OffsetRange:
    """Return the range that a step set back; of a source with many logs, in those where it led back."""
    before = entry.previous or entry.offset
    return OffsetRange(earlier(before, entry.offset), before)


def _meets(moved: OffsetRange, entry: HistoryEntry) -> bool:
    return _overlaps(_range_of(entry), moved)


def _overlaps(one: OffsetRange, other: OffsetRange) -> bool:
    try:
        return overlap(one, other)
    except SourceDivergedError:
        return False  # of another log


def _named(entry: HistoryEntry) -> str:
    return f"{entry.action} (history entry {entry.number}, by {entry.who})"
