"""Moves of a checkpoint in memory to what happened without the store, by the same rules as in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from databus.checkpoints.codec import encode
from databus.checkpoints.rules import adoption, reconciliation
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome

if TYPE_CHECKING:
    from databus.core.state.checkpoint import HistoryEntry
    from databus.testing.memory_store import MemoryFlow, MemoryServer


class MemoryCatchingUp:
    """The part of the memory store for the store's own absence."""

    _server: MemoryServer
    _at: Callable[[str], MemoryFlow]
    _load: Callable[[str], Checkpoint | None]
    _plan: Callable[[str], Plan | None]
    _put: Callable[[MemoryFlow, Checkpoint, HistoryEntry, str], None]

    def reconcile(
        self, lease: Lease, flow: str, outcomes: Sequence[PlanOutcome], pending: Plan | None
    ) -> Checkpoint | None:
        """Catch up with batches that were moved while the store was away."""
        with self._server.changed:
            transitions.check_epoch(flow, lease.epoch, self._server.flow(flow).epoch)
            own, stored = self._at(flow), self._load(flow)
            left = reconciliation.due(flow, stored, outcomes)
            if stored is None:
                raise AssertionError("`due` has refused a flow without a checkpoint")
            for outcome in left:
                number, receipts, counts = own.history_number + 1, outcome.receipts, outcome.counts
                entry = entries.commit_entry(number, stored, outcome.checkpoint, receipts, counts)
                self._put(own, outcome.checkpoint, replace(entry, why=reconciliation.RECONCILED), "catching up")
                own.plan, stored = None, outcome.checkpoint
            if pending is not None and pending.batch > stored.batch:
                own.plan = encode(pending.to_json())
            return stored

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str, after: int = 0) -> None:
        """Set the checkpoint to where the sinks stand."""
        with self._server.changed:
            transitions.check_epoch(flow, lease.epoch, self._server.flow(flow).epoch)
            own, previous = self._at(flow), self._load(flow)
            if previous == checkpoint:
                return
            adoption.check_adoption(flow, previous, checkpoint)
            entry = entries.entry(
                1 + max(own.history_number, after), "adopt", why, previous.offset if previous else None, checkpoint
            )
            self._put(own, checkpoint, entry, "adopting")
            own.plan = None
