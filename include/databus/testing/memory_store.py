"""A checkpoint store in memory, for tests of the path. Nothing survives the process, so it is no store for a flow."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from databus.checkpoints import amendment, transitions
from databus.checkpoints.codec import check_size, decode_as, encode
from databus.checkpoints.layout import Layout
from databus.core.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.counts import TableCounts
from databus.core.errors import LeaseBusyError
from databus.core.offsets import Offset
from databus.core.outcome import PlanOutcome
from databus.core.plan import Plan
from databus.core.protocols import Clock, Lease


@dataclass
class _Flow:
    """One flow's state, stored as the same bytes that ZooKeeper would hold."""

    epoch: Epoch = field(default=Epoch(0))
    holder: tuple[str, str] | None = None  # claim, who
    waiting: set[str] = field(default_factory=set)
    checkpoint: bytes | None = None
    plan: bytes | None = None
    history: list[bytes] = field(default_factory=list)
    history_number: int = 0


class MemoryServer:
    """What several stores of one process share, as several clients share a ZooKeeper."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.flows: dict[str, _Flow] = {}

    def flow(self, name: str) -> _Flow:
        """Return a flow's state, made at first use; call it with `changed` held."""
        Layout().flow(name)  # refuses what is no name
        return self.flows.setdefault(name, _Flow())


class MemoryLease:
    """A claim of a flow in memory."""

    def __init__(self, server: MemoryServer, flow: str, claim: str, epoch: Epoch):
        self.flow = flow
        self.epoch = epoch
        self._server = server
        self._claim = claim

    def held(self) -> bool:
        """Tell whether the lease is still ours."""
        with self._server.changed:
            holder = self._server.flow(self.flow).holder
            return holder is not None and holder[0] == self._claim

    def successor_waiting(self) -> bool:
        """Tell whether another waits for it."""
        with self._server.changed:
            return bool(self._server.flow(self.flow).waiting)

    def release(self) -> None:
        """Give the lease up; safe to call twice, and after another claimed it."""
        with self._server.changed:
            state = self._server.flow(self.flow)
            if state.holder is not None and state.holder[0] == self._claim:
                state.holder = None
                self._server.changed.notify_all()


class _UtcClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class MemoryCheckpoints:
    """Implements `databus.core.protocols.CheckpointStore` without durability; atomic through one lock."""

    def __init__(self, server: MemoryServer | None = None, clock: Clock | None = None, history: int = 1000):
        self._server = server or MemoryServer()
        self._clock = clock or _UtcClock()
        self._history = history
        self._leases: list[MemoryLease] = []

    def close(self) -> None:
        """Let go of this store's leases, as the end of a session does."""
        for lease in self._leases:
            lease.release()

    def list_flows(self) -> Sequence[str]:
        """Return the names of all flows that were ever claimed, sorted."""
        with self._server.changed:
            return tuple(sorted(name for name, flow in self._server.flows.items() if flow.epoch > 0))

    def load(self, flow: str) -> Checkpoint | None:
        """Return the committed checkpoint, None before the first."""
        with self._server.changed:
            return self._load(flow)

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight, None when the last one was committed."""
        with self._server.changed:
            return self._plan(flow)

    def history(self, flow: str, last: int) -> Sequence[HistoryEntry]:
        """Return the newest entries, newest first."""
        with self._server.changed:
            stored = self._server.flow(flow).history[-last:] if last > 0 else []
        return tuple(decode_as(data, f"history of flow {flow}", HistoryEntry.from_json) for data in reversed(stored))

    def claim(self, flow: str, who: str, wait_s: float) -> MemoryLease:
        """Take the lease and raise the epoch; waits up to `wait_s`, then raises LeaseBusyError naming the holder."""
        claim = uuid.uuid4().hex
        deadline = time.monotonic() + wait_s
        with self._server.changed:
            state = self._server.flow(flow)
            try:
                while state.holder is not None:
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise LeaseBusyError(
                            f"flow {flow}: the lease is held by {state.holder[1]} (epoch {state.epoch})"
                        )
                    state.waiting.add(claim)
                    self._server.changed.wait(left_s)
            finally:
                state.waiting.discard(claim)
            state.epoch = Epoch(state.epoch + 1)
            state.holder = (claim, who)
            lease = MemoryLease(self._server, flow, claim, state.epoch)
            self._leases.append(lease)
            return lease

    def start(self, flow: str, lease: Lease, offset: Offset, who: str) -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0)."""
        with self._server.changed:
            state = self._server.flow(flow)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            stored = self._load(flow)
            if stored is not None:
                transitions.check_start(flow, offset, stored)
                return stored
            checkpoint = transitions.first_checkpoint(offset, lease.epoch, who, self._clock.now())
            self._put(state, checkpoint, transitions.first_entry(state.history_number + 1, checkpoint), "the start")
            return checkpoint

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan ahead of reading; replaces one of a lower batch number."""
        with self._server.changed:
            state = self._server.flow(plan.flow)
            transitions.check_epoch(plan.flow, lease.epoch, state.epoch)
            pending = self._plan(plan.flow)
            if pending is not None and pending.hash == plan.hash:
                return
            transitions.check_plan(plan, self._load(plan.flow), pending)
            data = encode(plan.to_json())
            check_size(len(data), f"the plan of batch {plan.batch}")
            state.plan = data

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
            entry = transitions.commit_entry(state.history_number + 1, previous, checkpoint, receipts, counts)
            self._put(state, checkpoint, entry, f"the commit of batch {plan.batch}")
            state.plan = None

    def reconcile(
        self, lease: Lease, flow: str, outcomes: Sequence[PlanOutcome], pending: Plan | None
    ) -> Checkpoint | None:
        """Catch up with batches that were moved while the store was away."""
        with self._server.changed:
            state = self._server.flow(flow)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            for outcome in amendment.due(flow, self._load(flow), outcomes):
                previous = self._load(flow)
                assert previous is not None  # noqa: S101 - `due` has refused a flow without a checkpoint
                receipts, counts = outcome.receipts, outcome.counts
                number = state.history_number + 1
                entry = transitions.commit_entry(number, previous, outcome.checkpoint, receipts, counts)
                self._put(state, outcome.checkpoint, replace(entry, why=amendment.RECONCILED), "catching up")
                state.plan = None
            stored = self._load(flow)
            if pending is not None and stored is not None and pending.batch > stored.batch:
                state.plan = encode(pending.to_json())
            return stored

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str) -> None:
        """Set the checkpoint to where the sinks stand."""
        with self._server.changed:
            state, previous = self._server.flow(flow), self._load(flow)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            if previous == checkpoint:
                return
            amendment.check_adoption(flow, previous, checkpoint)
            entry = amendment.adoption_entry(state.history_number + 1, previous, checkpoint, why)
            self._put(state, checkpoint, entry, "adopting")
            state.plan = None

    def connected(self) -> bool:
        """Return True: nothing can be cut."""
        return True

    def _put(self, state: _Flow, checkpoint: Checkpoint, entry: HistoryEntry, what: str) -> None:
        stored, appended = encode(checkpoint.to_json()), encode(entry.to_json())
        check_size(len(stored) + len(appended), what)
        state.checkpoint = stored
        state.history = [*state.history, appended][-self._history :]
        state.history_number = entry.number

    def _load(self, flow: str) -> Checkpoint | None:
        data = self._server.flow(flow).checkpoint
        return decode_as(data, f"checkpoint of flow {flow}", Checkpoint.from_json) if data else None

    def _plan(self, flow: str) -> Plan | None:
        data = self._server.flow(flow).plan
        return decode_as(data, f"plan of flow {flow}", Plan.from_json) if data else None
