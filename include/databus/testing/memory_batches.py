"""Batches in memory, by the same rules as in ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from databus.checkpoints.codec import check_size, encode
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.checkpoints.rules import reconciliation
from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import Offset
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome
from databus.testing.memory_flows import MemoryFlows


class MemoryBatches(MemoryFlows):
    """Batches of the memory store; see `databus.core.state.checkpoint_store.Batches`."""

    def load(self, flow: str) -> Checkpoint | None:
        """Return the committed checkpoint, None before the first."""
        with self._server.changed:
            return self._load(flow)

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight, None when the last one was committed."""
        with self._server.changed:
            return self._plan(flow)

    def start(self, flow: str, lease: Lease, offset: Offset, who: str, why: str = "") -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0); the history's first entry has the reason."""
        with self._server.changed:
            state = self._server.flow(flow)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            stored = self._load(flow)
            if stored is not None:
                transitions.check_start(flow, offset, stored)
                return stored
            checkpoint = transitions.first_checkpoint(offset, lease.epoch, who, self._clock.now())
            self._put(
                state, checkpoint, entries.entry(state.history_number + 1, "start", why, None, checkpoint), "the start"
            )
            return checkpoint

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan ahead of reading; replaces one of a lower batch number."""
        with self._server.changed:
            state = self._server.flow(plan.flow)
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            pending = self._plan(plan.flow)
            if pending is not None and pending.hash == plan.hash:
                return
            if not self._sink:
                own = (name for name, sink in state.sinks.items() if sink.checkpoint is not None)
                transitions.check_chunks(plan, sorted(own))
            transitions.check_plan(plan, self._load(plan.flow), pending)
            data = encode(plan.to_json())
            check_size(len(data), f"the plan of batch {plan.batch}")
            self._at(plan.flow).plan = data

    def commit(
        self,
        lease: Lease,
        plan: Plan,
        checkpoint: Checkpoint,
        receipts: Sequence[Mapping[str, Any]],
        counts: Mapping[str, TableCounts],
    ) -> None:
        """Move the checkpoint, delete the plan and append history in one atomic step, or raise and change nothing."""
        transitions.check_commit(lease.epoch, plan, checkpoint)
        with self._server.changed:
            state = self._server.flow(plan.flow)
            previous = self._load(plan.flow)
            if transitions.is_committed(plan, lease.epoch, previous):
                return
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            transitions.check_planned(plan, self._plan(plan.flow), previous)
            if previous is None:
                raise AssertionError("a plan in flight was written after a checkpoint")
            own = self._at(plan.flow)
            entry = entries.commit_entry(own.history_number + 1, previous, checkpoint, receipts, counts)
            self._put(own, checkpoint, entry, f"the commit of batch {plan.batch}")
            self._moved_snapshot(plan.flow, plan)
            own.plan = None

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
                self._moved_snapshot(flow, outcome.plan)
                own.plan, stored = None, outcome.checkpoint
            if pending is not None and pending.batch > stored.batch:
                own.plan = encode(pending.to_json())
            return stored
