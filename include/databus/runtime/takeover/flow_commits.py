"""Ranges of the batches that a flow has committed, as its own history records them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from databus.core.batches.report import BatchPlan
from databus.core.positions.offset_ranges import moved_part
from databus.core.positions.offsets import OffsetRange
from databus.core.state.checkpoint_store import History


@dataclass
class FlowCommits:
    """Commits that have no ledger page yet: while the flow is held they are read once, and then as they are added.

    Attributes:
        flow: flow name.
        store: the flow's checkpoint store.
    """

    flow: str
    store: History
    _upto: int = 0
    _ranges: dict[BatchPlan, OffsetRange] = field(default_factory=dict)

    def behind(self, paged: int) -> Mapping[BatchPlan, OffsetRange]:
        """Return batch and plan → range of the commits behind the newest page, and perhaps of earlier ones.

        Args:
            paged: number of the newest page; of an earlier life of the flow it lies behind the history or says nothing.

        Raises:
            CheckpointUnavailableError: no answer.
        """
        newest = self.store.history(self.flow, 1)
        head = newest[0].number if newest else 0
        if head < self._upto:  # it begins anew
            self._upto, self._ranges = 0, {}
        after = max(self._upto, paged if paged <= head else 0)
        for entry in self.store.history(self.flow, head - after):
            if entry.action == "commit" and entry.previous is not None:
                moved = moved_part(OffsetRange(entry.previous, entry.offset))
                self._ranges[entry.batch, entry.plan_hash] = moved
        self._upto = head
        return self._ranges
