"""Sink shares: what each sink took and refused, by receipts in its history: a row counts at every sink it went to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from databus.core.batches.counts import SinkCounts
from databus.core.positions.offsets import Offset, Ordering
from databus.core.state.checkpoint import HistoryEntry


@dataclass(frozen=True)
class _Batch:
    """Batch totals of sinks between two places."""

    start: Offset
    end: Offset
    sinks: Mapping[str, SinkCounts]


class SinkShares:
    """Rows by sink while a history is followed.

    A sink that is behind, or was, has batches of its own: they are numbered above all that went before them.

    Args:
        alone: own histories of sinks that are behind, or were; nothing of them is in the flow's.
    """

    def __init__(self, alone: Iterable[HistoryEntry] = ()) -> None:
        commits = (entry for entry in alone if entry.action == "commit")
        self._alone = sorted(commits, key=lambda entry: entry.batch, reverse=True)
        self._batches: list[_Batch] = []

    def begin(self) -> None:
        """Forget what was counted: the flow starts anew."""
        self._batches = []

    def commit(self, entry: HistoryEntry) -> None:
        """Count a commit in."""
        if entry.previous is None:
            return
        sinks: dict[str, SinkCounts] = {}
        for receipt in entry.receipts:
            name = str(receipt.get("sink"))
            facts = receipt.get("rows", {}), int(receipt.get("rejected", 0)), receipt.get("outputs") or {}
            taken = SinkCounts.of(*facts)
            sinks[name] = sinks.get(name, SinkCounts()).plus(taken)
        self._batches.append(_Batch(entry.previous, entry.offset, sinks))

    def rewind(self, to: Offset, batch: int) -> None:
        """Take back what lies behind a place, which is going to be read again; a batch around it counts whole.

        Args:
            to: the place.
            batch: number of the last batch before the move.
        """
        self._catch_up(batch)
        self._batches = [
            one
            for one in self._batches
            if one.end.compare(to) is not Ordering.AFTER or one.start.compare(to) is Ordering.BEFORE
        ]

    def totals(self) -> dict[str, SinkCounts]:
        """Return sink → rows it took and refused."""
        self._catch_up(None)
        totals: dict[str, SinkCounts] = {}
        for one in self._batches:
            for name, counts in one.sinks.items():
                totals[name] = totals.get(name, SinkCounts()).plus(counts)
        return dict(sorted(totals.items()))

    def _catch_up(self, batch: int | None) -> None:
        while self._alone and (batch is None or self._alone[-1].batch <= batch):
            self.commit(self._alone.pop())
