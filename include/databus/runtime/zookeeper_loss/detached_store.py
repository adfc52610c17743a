"""Detached checkpoint store while ZooKeeper is away (`on_zookeeper_loss="continue"`, ADR 19).

A plan is written to the spool, then announced in the sinks' register, then dispatched; its outcome is written to the
spool before the next plan. What stands in ZooKeeper is brought up to date in one step when it is back: by this holder
while its epoch is still the newest, else by the next one (`runtime/takeover/takeover.py`).

Of a flow with sinks that are behind only the joined ones go on: the others stand still until ZooKeeper is back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from databus.checkpoints.rules.snapshots import after_batch
from databus.checkpoints.spool import PlanSpool
from databus.core.batches.counts import TableCounts
from databus.core.errors.checkpoint import CheckpointUnavailableError
from databus.core.positions.offsets import Offset
from databus.core.state.amendments import Pause
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.sink_markers import Announcement, ClaimRegister
from databus.core.state.snapshot import Snapshot
from databus.runtime.zookeeper_loss.detached_lease import DetachableLease
from databus.runtime.zookeeper_loss.lagging_sink_store import SinkView
from databus.runtime.zookeeper_loss.refused_while_detached import AttachedOnlyStore
from databus.runtime.zookeeper_loss.retrying_store import Retry, RetryingStore

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """Terms of running without ZooKeeper: how long, how many batches.

    Attributes:
        max_seconds: no new batch is planned after this long.
        max_batches: no new batch is planned after this many.
    """

    max_seconds: float
    max_batches: int


@dataclass
class _Absence:
    """Outcomes and the plan in flight since ZooKeeper went away."""

    since: float
    cause: CheckpointUnavailableError
    outcomes: list[PlanOutcome] = field(default_factory=list)
    announced: Plan | None = None


class DetachableStore(AttachedOnlyStore):
    """A `CheckpointStore` that stands in for ZooKeeper while that is away, for one holder of one flow.

    What it remembers is that flow's: a question about another one (a piece of a backfill) is refused, whoever asks it
    asks the real store.
    """

    def __init__(
        self,
        flow: str,
        store: CheckpointStore,
        retry: Retry,
        terms: Terms,
        spool: PlanSpool,
        register: ClaimRegister,
    ):
        """Put nothing anywhere yet.

        Args:
            flow: name of the flow.
            store: the real store.
            retry: for what cannot be done without it (claims).
            terms: how long to go on without it.
            spool: the flow's spool.
            register: the flow's register, which every claim of the flow has taken.
        """
        self._store, self._retry, self._retried = store, retry, RetryingStore(store, retry)
        self._flow, self._terms, self._spool, self._register = flow, terms, spool, register
        self._lease: Lease | None = None
        self._committed: Checkpoint | None = None
        self._pending: Plan | None = None
        self._looked = False
        self._pause: Pause | None = None
        self._behind: Sequence[str] | None = None
        self._snapshot: tuple[Snapshot | None, ...] = ()
        self._highest = 0
        self._absence: _Absence | None = None

    @property
    def detached(self) -> bool:
        """Return whether the holder goes on without the store just now."""
        return self._absence is not None

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> Lease:
        """Take the lease; what the claim before it knew is forgotten."""
        self._require_own(flow)
        self._lease = self._retry(lambda: self._store.claim(flow, who, wait_s, run_url))
        self._committed, self._pending, self._looked, self._absence = None, None, False, None
        self._pause, self._behind, self._snapshot, self._highest = None, None, (), 0
        return DetachableLease(self._lease, self, flow)

    def load(self, flow: str) -> Checkpoint | None:
        """Return the checkpoint as it will stand in ZooKeeper."""
        if self._attached(flow):
            try:
                self._committed = self._store.load(flow)
            except CheckpointUnavailableError as error:
                self._detach(flow, error)
        return self._committed

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight."""
        if self._attached(flow):
            try:
                self._pending, self._looked = self._store.pending_plan(flow), True
            except CheckpointUnavailableError as error:
                self._detach(flow, error)
        return self._pending

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan to ZooKeeper, or to the spool and the register.

        Raises:
            CheckpointUnavailableError: the terms are at their end.
            StaleEpochError: another run has taken over.
        """
        if self._attached(plan.flow):
            try:
                self._store.write_plan(lease, plan)
            except CheckpointUnavailableError as error:
                self._detach(plan.flow, error)
        if self._absence is not None:
            self._within_terms(plan.flow, self._absence)
            self._announce(self._absence, lease.epoch, plan)
        self._pending, self._looked = plan, True
        self.note_batch(plan.batch)

    def commit(
        self,
        lease: Lease,
        plan: Plan,
        checkpoint: Checkpoint,
        receipts: Sequence[Mapping[str, Any]],
        counts: Mapping[str, TableCounts],
    ) -> None:
        """Commit to ZooKeeper, or write the outcome to the spool, for ZooKeeper later.

        Raises:
            StaleEpochError: another run has taken over; it finishes the plan.
        """
        if self._attached(plan.flow):
            try:
                self._store.commit(lease, plan, checkpoint, receipts, counts)
            except CheckpointUnavailableError as error:
                self._detach(plan.flow, error)
        if self._absence is not None:
            # Planned while ZooKeeper was there, the plan is not in the spool yet.
            self._announce(self._absence, lease.epoch, plan)
            outcome = PlanOutcome(plan, checkpoint, receipts, counts)
            self._spool.put_outcome(outcome, self._built_on())
            self._absence.outcomes.append(outcome)
            self._absence.announced = None
        if plan.chunks is not None and self._snapshot:
            self._snapshot = (after_batch(self._snapshot[0], plan.chunks.snapshot),)
        self._committed, self._pending, self._looked = checkpoint, None, True

    def reconcile(
        self, lease: Lease, flow: str, outcomes: Sequence[PlanOutcome], pending: Plan | None
    ) -> Checkpoint | None:
        """Catch up with what a former holder moved; what was known before is forgotten."""
        self._require_own(flow)
        self._committed, self._looked = None, False
        return self._retried.reconcile(lease, flow, outcomes, pending)

    def start(self, flow: str, lease: Lease, offset: Offset, who: str, why: str = "") -> Checkpoint:
        """Write the first checkpoint, which only ZooKeeper can hold."""
        self._require_own(flow)
        self._committed = self._retried.start(flow, lease, offset, who, why)
        return self._committed

    def paused(self, flow: str) -> Pause | None:
        """Return who paused the flow, as far as is known: while ZooKeeper is away nobody can."""
        self._require_own(flow)
        if not self._looked:
            return self._retried.paused(flow)
        if self._attached(flow):
            try:
                self._pause = self._store.paused(flow)
            except CheckpointUnavailableError as error:
                self._detach(flow, error)
        return self._pause

    def snapshot(self, flow: str) -> Snapshot | None:
        """Return the flow's snapshot as it will stand in ZooKeeper; while that is away no person can change it.

        Raises:
            CheckpointUnavailableError: ZooKeeper went away before it was ever asked.
        """
        if self._attached(flow):
            try:
                self._snapshot = (self._store.snapshot(flow),)
            except CheckpointUnavailableError as error:
                self._detach(flow, error)
        if not self._snapshot:
            self.require_attached(flow, "its snapshot is not known")
            return None
        return self._snapshot[0]

    def sinks_behind(self, flow: str) -> Sequence[str]:
        """Return the sinks that have a checkpoint of their own, as far as is known."""
        self._require_own(flow)
        if self._absence is not None and self._behind is not None:
            return self._behind
        found = self._retried.sinks_behind(flow)
        if found:
            self.note_batch(self._retried.highest_batch(flow))
        self._behind = found
        return found

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of all checkpoints and plans; away from ZooKeeper only ours grow."""
        if self._attached(flow):
            try:
                self.note_batch(self._store.highest_batch(flow))
            except CheckpointUnavailableError as error:
                self._detach(flow, error)
        self.note_batch(self._committed.batch if self._committed else 0)
        return self._highest

    def moved_to(self, checkpoint: Checkpoint) -> Checkpoint:
        """Remember where the flow stands after a move that no commit made."""
        self._committed, self._pending = checkpoint, None
        return checkpoint

    def note_batch(self, batch: int) -> None:
        """Remember that a batch number is used."""
        self._highest = max(self._highest, batch)

    def of_sink(self, sink: str) -> CheckpointStore:
        """Return the view of a sink that is behind: it waits for nothing, and stands still while ZooKeeper is away."""
        return SinkView(self, self._store.of_sink(sink))

    def detach(self, flow: str, lease: Lease, sink: str, why: str) -> Checkpoint:
        """Give a sink a checkpoint of its own, which only ZooKeeper can hold.

        Raises:
            CheckpointUnavailableError: it is away.
        """
        self.require_attached(flow, f"sink {sink} cannot fall behind the others")
        return self._store.detach(flow, lease, sink, why)

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Let a sink go with the flow again. Whoever goes on must know whether it does, so this waits for ZooKeeper.

        Raises:
            CheckpointUnavailableError: it is away.
        """
        self.require_attached(flow, f"sink {sink} cannot join the others")
        return self.moved_to(self._retried.join(flow, lease, sink, who))

    def connected(self) -> bool:
        """Return whether ZooKeeper can be asked just now."""
        return self._store.connected()

    def recorded(self, flow: str, number: int) -> None:
        """Let history entries up to `number` go; while ZooKeeper is away all are kept."""
        if self._absence is None:
            self._store.recorded(flow, number)

    def require_attached(self, flow: str, what: str) -> None:
        """Refuse what only ZooKeeper can hold while it is away.

        Raises:
            CheckpointUnavailableError: it is away; names what is refused.
        """
        self._require_own(flow)
        if self._absence is not None:
            raise CheckpointUnavailableError(
                f"flow {flow} goes on without ZooKeeper, so {what}: {self._absence.cause.message}",
                hint="Bring ZooKeeper back, then try again.",
            )

    def successor_waiting(self, flow: str, lease: Lease) -> bool:
        """Return whether another run waits for the lease; without ZooKeeper none can."""
        if not self._attached(flow):
            return False
        try:
            return lease.successor_waiting()
        except CheckpointUnavailableError as error:
            self._detach(flow, error)
            return False

    def close(self) -> None:
        """Close the register."""
        self._register.close()

    def _announce(self, absence: _Absence, epoch: Epoch, plan: Plan) -> None:
        if absence.announced == plan:
            return
        self._spool.put_plan(plan, self._built_on())
        self._register.announce(Announcement(epoch, plan.batch, plan.hash))
        absence.announced = plan

    def _built_on(self) -> Checkpoint:
        if self._committed is None:
            raise AssertionError("a plan was made without a checkpoint")
        return self._committed

    def _detach(self, flow: str, error: CheckpointUnavailableError) -> None:
        if self._committed is None or not self._looked or self._behind is None or self._lease is None:
            raise error  # where the flow stands is not known
        self._absence = _Absence(time.monotonic(), error)
        log.warning(
            "flow %s: going on without ZooKeeper after batch %d, for up to %g s and %d batches: %s",
            flow,
            self._committed.batch,
            self._terms.max_seconds,
            self._terms.max_batches,
            error,
        )

    def _require_own(self, flow: str) -> None:
        if flow != self._flow:
            raise AssertionError(f"the store of flow {self._flow} is asked about {flow}")

    def _attached(self, flow: str) -> bool:
        """Return whether ZooKeeper is to be asked; when it has come back it is brought up to date first."""
        self._require_own(flow)
        absence = self._absence
        if absence is None:
            return True
        if not self._store.connected() or self._lease is None:
            return False
        try:
            self._store.reconcile(self._lease, flow, absence.outcomes, absence.announced)
        except CheckpointUnavailableError as error:
            log.info("flow %s: ZooKeeper is not back yet: %s", flow, error)
            return False
        away_s = time.monotonic() - absence.since
        log.info("flow %s: ZooKeeper is back after %.1f s, %d batches added", flow, away_s, len(absence.outcomes))
        self._absence = None
        self._spool.clear()
        return True

    def _within_terms(self, flow: str, absence: _Absence) -> None:
        away_s, batches = time.monotonic() - absence.since, len(absence.outcomes)
        if away_s < self._terms.max_seconds and batches < self._terms.max_batches:
            return
        raise CheckpointUnavailableError(
            f"flow {flow} has gone on without ZooKeeper for {away_s:.0f} s and {batches} batches, which is its limit: "
            f"{absence.cause.message}",
            hint="Bring ZooKeeper back: the next run adds these batches to it and goes on. "
            "zookeeper_loss and zookeeper_loss_batches of the flow set the limit.",
        )
