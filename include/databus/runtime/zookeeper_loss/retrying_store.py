"""Waiting for a checkpoint store that is away: every call is one that may be repeated, so it is, for a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from databus.core.batches.counts import TableCounts
from databus.core.errors import CheckpointUnavailableError
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import Offset
from databus.core.state.amendments import AcceptedOutputs, Amendment, Pause
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome
from databus.runtime.drain import Drain

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_S = 0.5


class StoreRetries:
    """Repeats what fails because the store is away, until it is back, a drain is asked for, or it took too long."""

    def __init__(self, seconds: float, drain: Drain):
        self._seconds = seconds
        self._drain = drain

    def __call__(self, act: Callable[[], T]) -> T:
        """Return what `act` returns at last.

        Raises:
            CheckpointUnavailableError: the store stayed away.
        """
        since: float | None = None
        while True:
            try:
                found = act()
            except CheckpointUnavailableError as error:
                now = time.monotonic()
                if since is None:
                    since = now
                    log.warning("waiting for the checkpoint store for up to %g s: %s", self._seconds, error)
                if now - since >= self._seconds or self._drain.wait(_PAUSE_S):
                    raise
            else:
                if since is not None:
                    log.info("the checkpoint store is back after %.1f s", time.monotonic() - since)
                return found


class PatientStore:
    """A `CheckpointStore` whose every call outlasts the store's absence, within bounds."""

    def __init__(self, store: CheckpointStore, patience: StoreRetries):
        self._store = store
        self._patience = patience

    def load(self, flow: str) -> Checkpoint | None:
        """Return the committed checkpoint."""
        return self._patience(lambda: self._store.load(flow))

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> Lease:
        """Take the lease and raise the epoch."""
        lease = self._patience(lambda: self._store.claim(flow, who, wait_s, run_url))
        return PatientLease(lease, self._patience)

    def start(self, flow: str, lease: Lease, offset: Offset, who: str) -> Checkpoint:
        """Write the first checkpoint."""
        return self._patience(lambda: self._store.start(flow, lease, offset, who))

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight."""
        return self._patience(lambda: self._store.pending_plan(flow))

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan; the same again changes nothing."""
        self._patience(lambda: self._store.write_plan(lease, plan))

    def commit(
        self,
        lease: Lease,
        plan: Plan,
        checkpoint: Checkpoint,
        receipts: Sequence[Mapping[str, Any]],
        counts: Mapping[str, TableCounts],
    ) -> None:
        """Commit; the same again changes nothing."""
        self._patience(lambda: self._store.commit(lease, plan, checkpoint, receipts, counts))

    def reconcile(
        self, lease: Lease, flow: str, outcomes: Sequence[PlanOutcome], pending: Plan | None
    ) -> Checkpoint | None:
        """Catch up; the same again changes nothing."""
        return self._patience(lambda: self._store.reconcile(lease, flow, outcomes, pending))

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str, after: int = 0) -> None:
        """Adopt the sinks' place; the same again changes nothing."""
        self._patience(lambda: self._store.adopt(lease, flow, checkpoint, why, after))

    def connected(self) -> bool:
        """Tell whether the store can be asked just now."""
        return self._store.connected()

    def history(self, flow: str, last: int) -> Sequence[HistoryEntry]:
        """Return the newest entries."""
        return self._patience(lambda: self._store.history(flow, last))

    def recorded(self, flow: str, number: int) -> None:
        """Let history entries up to `number` go."""
        self._patience(lambda: self._store.recorded(flow, number))

    def gaps(self, flow: str) -> Sequence[Gap]:
        """Return the flow's named gaps."""
        return self._patience(lambda: self._store.gaps(flow))

    def note_gap(self, flow: str, lease: Lease, gap: Gap) -> Gap:
        """Name a gap; the same again changes nothing."""
        return self._patience(lambda: self._store.note_gap(flow, lease, gap))

    def amend(self, flow: str, lease: Lease, amendment: Amendment) -> Checkpoint:
        """Move the checkpoint by hand; the same again changes nothing."""
        return self._patience(lambda: self._store.amend(flow, lease, amendment))

    def amend_sink(self, flow: str, lease: Lease, sink: str, amendment: Amendment) -> Checkpoint:
        """Move a sink that is behind by hand; the same again changes nothing."""
        return self._patience(lambda: self._store.amend_sink(flow, lease, sink, amendment))

    def accept_outputs(self, flow: str, lease: Lease, accepted: AcceptedOutputs) -> Checkpoint:
        """Know outputs as they are now; safe to repeat."""
        return self._patience(lambda: self._store.accept_outputs(flow, lease, accepted))

    def paused(self, flow: str) -> Pause | None:
        """Return who paused the flow."""
        return self._patience(lambda: self._store.paused(flow))

    def pause(self, flow: str, who: str, why: str) -> Pause:
        """Pause the flow; the same again changes nothing."""
        return self._patience(lambda: self._store.pause(flow, who, why))

    def resume(self, flow: str, who: str, why: str) -> Pause | None:
        """End a pause; where there is none nothing changes."""
        return self._patience(lambda: self._store.resume(flow, who, why))

    def of_sink(self, sink: str) -> CheckpointStore:
        """Return the view of a sink that is behind, as patient as this."""
        return PatientStore(self._store.of_sink(sink), self._patience)

    def sinks_behind(self, flow: str) -> Sequence[str]:
        """Return the names of the sinks that have a checkpoint of their own."""
        return self._patience(lambda: self._store.sinks_behind(flow))

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of all checkpoints and plans."""
        return self._patience(lambda: self._store.highest_batch(flow))

    def detach(self, flow: str, lease: Lease, sink: str, why: str) -> Checkpoint:
        """Give a sink a checkpoint of its own; the same again changes nothing."""
        return self._patience(lambda: self._store.detach(flow, lease, sink, why))

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Let a sink go with the flow again; the same again changes nothing."""
        return self._patience(lambda: self._store.join(flow, lease, sink, who))


class PatientLease:
    """A lease whose questions outlast the store's absence."""

    def __init__(self, lease: Lease, patience: StoreRetries):
        self.epoch: Epoch = lease.epoch
        self._lease = lease
        self._patience = patience

    def held(self) -> bool:
        """Tell whether the lease is still ours as far as this process knows."""
        return self._lease.held()

    def confirm(self) -> None:
        """Ask whether this is the latest claim."""
        self._patience(self._lease.confirm)

    def successor_waiting(self) -> bool:
        """Tell whether another run waits for it."""
        return self._patience(self._lease.successor_waiting)

    def release(self) -> None:
        """Give it up."""
        self._lease.release()
