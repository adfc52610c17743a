"""Checkpoint store: leases, batches, amendments, snapshots, lagging sinks, history; each a protocol of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from databus.core.batches.counts import TableCounts
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import Offset
from databus.core.state.amendments import AcceptedOutputs, Amendment, Pause
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.snapshot import CaptureScope, Snapshot


class Lease(Protocol):
    """A claim of a flow, held by this process."""

    epoch: Epoch

    def held(self) -> bool:
        """Return whether the lease is still ours as far as this process knows."""
        ...

    def confirm(self) -> None:
        """Ask whether this is the latest claim, for what no write of the store guards.

        Raises:
            StaleEpochError: the flow was claimed again since.
            CheckpointUnavailableError: no answer.
        """
        ...

    def successor_waiting(self) -> bool:
        """Return whether another run has registered that it waits for this lease."""
        ...

    def release(self) -> None:
        """Give the lease up; safe to call twice."""
        ...


class Batches(Protocol):
    """Batches of a flow: its checkpoint, the plan in flight, commits.

    Every write checks the epoch of the lease, in one atomic step; the same call again changes nothing.
    """

    def load(self, flow: str) -> Checkpoint | None:
        """Return the committed checkpoint, None before the first."""
        ...

    def start(self, flow: str, lease: Lease, offset: Offset, who: str, why: str = "") -> Checkpoint:
        """Write the first checkpoint of a flow (batch 0); the history's first entry has the reason."""
        ...

    def pending_plan(self, flow: str) -> Plan | None:
        """Return the plan in flight, None when the last one was committed."""
        ...

    def write_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan ahead of reading; replaces one of an older batch number that was never written by a sink."""
        ...

    def commit(
        self,
        lease: Lease,
        plan: Plan,
        checkpoint: Checkpoint,
        receipts: Sequence[Mapping[str, Any]],
        counts: Mapping[str, TableCounts],
    ) -> None:
        """Move the checkpoint, delete the plan and append history in one atomic step, or raise and change nothing."""
        ...

    def reconcile(
        self, lease: Lease, flow: str, outcomes: Sequence[PlanOutcome], pending: Plan | None
    ) -> Checkpoint | None:
        """Catch up with batches that were moved while the store was away; those it has already change nothing.

        Checkpoint, history and plan in flight move together, in one atomic step as far as it fits the bound on its
        size, else in several, each of which is a state that the flow was in.

        Args:
            lease: the claim; its epoch is checked.
            flow: flow name.
            outcomes: in order, the first continues the checkpoint or lies before it.
            pending: the plan after them, in flight; None for none.

        Returns:
            The checkpoint as it stands then.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: they do not continue what is stored.
        """
        ...


class Amendments(Protocol):
    """Amendments of a flow by hand: moves of its checkpoint, gaps, accepted outputs, pauses.

    Each is one atomic step with its own history entry, and all but pauses check the epoch; the same call again changes
    nothing.
    """

    def gaps(self, flow: str) -> Sequence[Gap]:
        """Return the flow's named gaps, oldest first."""
        ...

    def note_gap(self, flow: str, lease: Lease, gap: Gap) -> Gap:
        """Name a gap before which the flow stops, undecided; the same gap again is the same entry.

        Returns the gap with its number.
        """
        ...

    def amend(self, flow: str, lease: Lease, amendment: Amendment) -> Checkpoint:
        """Move the checkpoint by hand in one atomic step: plan deleted, history appended, gap named; idempotent.

        A sink that is behind goes with the flow again where it stands at its place, with no plan in flight but the
        flow's; any other refuses the move. A snapshot that mends the gap (`Amendment.repair`) begins in the same step.
        """
        ...

    def amend_sink(self, flow: str, lease: Lease, sink: str, amendment: Amendment) -> Checkpoint:
        """Move a sink that is behind forward by hand, up to where the flow stands at most, in one atomic step.

        Its plan is deleted, its own history appended, the gap named among the flow's; the same again changes nothing.
        Returns the sink's checkpoint. It stays behind until it is joined.
        """
        ...

    def accept_outputs(self, flow: str, lease: Lease, accepted: AcceptedOutputs) -> Checkpoint:
        """Know outputs as they are now, in checkpoint and plan in flight, in one atomic step; history appended.

        Nothing else changes, and the plan keeps its hash; the same again changes nothing.
        """
        ...

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str, after: int = 0) -> None:
        """Set the checkpoint to where the sinks stand, drop the plan in flight, and say so in the history.

        Args:
            lease: the claim; its epoch is checked.
            flow: flow name.
            checkpoint: where the sinks stand.
            why: reason.
            after: number of the newest history entry that is known elsewhere (ledger pages); the new one follows it.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the checkpoint stands at this batch or a later one.
        """
        ...

    def paused(self, flow: str) -> Pause | None:
        """Return who paused the flow, None while it may run."""
        ...

    def pause(self, flow: str, who: str, why: str) -> Pause:
        """Pause a flow, also while it runs; returns the pause that was there already, if there was one."""
        ...

    def resume(self, flow: str, who: str, why: str) -> Pause | None:
        """End a pause and return it; None when the flow was not paused."""
        ...


class Snapshots(Protocol):
    """Snapshots of a flow: one at a time; a commit of a plan with chunks moves it in the commit's own step.

    Each call is one atomic step with its own history entry, made by a run or, while a run may hold the lease, by a
    person; the same again changes nothing.
    """

    def snapshot(self, flow: str) -> Snapshot | None:
        """Return the flow's snapshot, the unfinished one or the last; None before the first."""
        ...

    def begin_snapshot(self, flow: str, lease: Lease | None, snapshot: Snapshot, who: str, why: str) -> Snapshot:
        """Begin a snapshot, and return it as it stands: further on where it was begun before.

        Args:
            flow: flow name.
            lease: the claim, whose epoch is checked; None for a person, who needs none.
            snapshot: with the number after the last one's, and no chunk read yet; gaps that it mends have been passed.
            who: run or user.
            why: reason.

        Raises:
            SnapshotUnfinishedError: another one is unfinished.
            CheckpointConflictError: its number was used, or the flow has no checkpoint yet.
            StaleEpochError: another run claimed the flow since.
        """
        ...

    def capture_scope(self, flow: str) -> CaptureScope | None:
        """Return what the flow captured at its last claim; None where no claim has said so yet."""
        ...

    def follow_scope(
        self, flow: str, lease: Lease, scope: CaptureScope, added: Snapshot | None, who: str, why: str
    ) -> Snapshot | None:
        """Write what the flow captures, and the snapshot of the tables that came with it, in one step.

        Nothing is written where the scope stands there already: then its tables were added with it.

        Args:
            flow: flow name.
            lease: the claim, whose epoch is checked.
            scope: what the flow captures now.
            added: snapshot of the tables to be read for it, none begun. Where another one is unfinished its tables are
                appended to that; else it begins, with the number after the last one's. None where nothing is to be
                read; then no history is written.
            who: run.
            why: reason.

        Returns:
            The flow's snapshot as it stands then.

        Raises:
            CheckpointConflictError: the flow has no checkpoint yet.
            StaleEpochError: another run claimed the flow since.
        """
        ...

    def pause_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Hold the unfinished snapshot: no more chunks are planned, the batch in flight still brings its own.

        Raises:
            CheckpointConflictError: none is unfinished.
        """
        ...

    def resume_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """Let a held snapshot go on. Raises CheckpointConflictError where none is unfinished."""
        ...

    def cancel_snapshot(self, flow: str, who: str, why: str) -> Snapshot:
        """End the unfinished snapshot for good: no more chunks are planned, the batch in flight still brings its own.

        Raises:
            CheckpointConflictError: none is unfinished, nor was one cancelled last.
        """
        ...


class LaggingSinks(Protocol):
    """Lagging sinks of a flow: those with a checkpoint, plan and history of their own (ADR 16).

    A sink detaches and joins in one atomic step; the same call again changes nothing.
    """

    def of_sink(self, sink: str) -> CheckpointStore:
        """Return a view in which checkpoint, plan and history are those of a sink that is behind."""
        ...

    def sinks_behind(self, flow: str) -> Sequence[str]:
        """Return the names of the sinks that have a checkpoint of their own, sorted."""
        ...

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of the flow's checkpoints and plans, those of sinks behind included."""
        ...

    def detach(self, flow: str, lease: Lease, sink: str, why: str) -> Checkpoint:
        """Give a sink a checkpoint of its own where the flow's stands, and the plan in flight if it names the sink.

        In one atomic step, or raises and changes nothing; the same again changes nothing. Returns that checkpoint.
        """
        ...

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Let a sink that stands where the flow stands go with it again, with no plan in flight at either.

        In one atomic step, or raises and changes nothing; the same again changes nothing. Returns the flow's new
        checkpoint, which holds the sink's slots and the higher batch number.
        """
        ...


class History(Protocol):
    """History of a flow: appended by the write that an entry records, never changed."""

    def history(self, flow: str, last: int) -> Sequence[HistoryEntry]:
        """Return the newest entries, newest first."""
        ...

    def recorded(self, flow: str, number: int) -> None:
        """Let history entries up to `number` go, those above the number kept: they have ledger pages.

        Entries that this was not said of are never deleted, however many there are.
        """
        ...


class CheckpointStore(Batches, Amendments, Snapshots, LaggingSinks, History, Protocol):
    """Checkpoint store of all flows of an installation. Whoever needs a part of it names that part."""

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> Lease:
        """Take the lease and raise the epoch; waits up to `wait_s`, then raises LeaseBusyError naming the holder."""
        ...

    def connected(self) -> bool:
        """Return whether the store can be asked just now, as far as is known here; asks nothing."""
        ...
