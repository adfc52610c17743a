"""Plan rules: which plan may follow a checkpoint, and which checkpoint a plan. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from databus.core.errors.checkpoint import CheckpointConflictError, StaleEpochError
from databus.core.positions.offsets import Offset, Ordering
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan


def first_checkpoint(offset: Offset, epoch: Epoch, who: str, now: datetime) -> Checkpoint:
    """Return the checkpoint of a flow that has moved nothing yet."""
    return Checkpoint(offset, 0, epoch, who, "", {}, None, now)


def check_epoch(flow: str, mine: Epoch, stored: Epoch) -> None:
    """Refuse a holder whose lease was claimed by another since.

    Raises:
        StaleEpochError: the stored epoch is another.
    """
    if mine != stored:
        raise StaleEpochError(
            f"flow {flow}: this run holds epoch {mine}, but epoch {stored} has been claimed since",
            hint="Another run has taken over and goes on from the committed checkpoint; this one changed nothing.",
        )


def check_start(flow: str, offset: Offset, stored: Checkpoint) -> None:
    """Refuse to start a flow that has a checkpoint already, except by the same first offset.

    Raises:
        CheckpointConflictError: the flow has another checkpoint.
    """
    if stored.batch != 0 or stored.offset.compare(offset) is not Ordering.EQUAL:
        raise CheckpointConflictError(
            f"flow {flow}: cannot start at {offset}, it stands at {stored.offset} after batch {stored.batch}",
            hint="Load the checkpoint and go on from there.",
        )


def check_plan(plan: Plan, stored: Checkpoint | None, pending: Plan | None) -> None:
    """Refuse a plan that does not continue the checkpoint, or whose batch number was used.

    Raises:
        CheckpointConflictError: no checkpoint yet, a gap or an overlap, or a batch number not above those
            committed and in flight.
    """
    if stored is None:
        raise CheckpointConflictError(
            f"flow {plan.flow}: batch {plan.batch} is planned, but the flow has no checkpoint", hint="Start it first."
        )
    if plan.range.start.compare(stored.offset) is not Ordering.EQUAL:
        raise CheckpointConflictError(
            f"flow {plan.flow}: batch {plan.batch} is planned from {plan.range.start}, "
            f"but {stored.offset} is committed",
            hint="Plan again from the committed checkpoint.",
        )
    if plan.batch <= stored.batch:
        raise CheckpointConflictError(
            f"flow {plan.flow}: batch {plan.batch} is planned, but batch {stored.batch} is committed",
            hint="Batch numbers are never used twice.",
        )
    if pending is not None and plan.batch <= pending.batch:
        raise CheckpointConflictError(
            f"flow {plan.flow}: batch {plan.batch} cannot be planned while batch {pending.batch} is in flight",
            hint="Run the plan that is in flight first.",
        )


def check_chunks(plan: Plan, behind: Sequence[str]) -> None:
    """Refuse chunks of a snapshot while sinks are behind: these read the log alone on their way, and would miss them.

    Raises:
        CheckpointConflictError: the plan has chunks, and sinks are behind.
    """
    if plan.chunks is not None and behind:
        raise CheckpointConflictError(
            f"flow {plan.flow}: batch {plan.batch} is planned with chunks of snapshot {plan.chunks.snapshot.number}, "
            f"but sinks are behind, which would miss them: {', '.join(behind)}",
            hint="The snapshot waits until they have caught up.",
        )


def check_commit(epoch: Epoch, plan: Plan, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that is not the outcome of the plan.

    Raises:
        CheckpointConflictError: names every field that differs.
    """
    wanted: dict[str, tuple[Any, Any]] = {
        "batch": (checkpoint.batch, plan.batch),
        "plan_hash": (checkpoint.plan_hash, plan.hash),
        "epoch": (checkpoint.epoch, epoch),
    }
    wrong = [f"{name} {got} instead of {want}" for name, (got, want) in wanted.items() if got != want]
    if checkpoint.offset.compare(plan.range.end) is not Ordering.EQUAL:
        wrong.append(f"offset {checkpoint.offset} instead of {plan.range.end}")
    if wrong:
        raise CheckpointConflictError(
            f"flow {plan.flow}: the checkpoint of batch {plan.batch} does not follow from its plan: {'; '.join(wrong)}"
        )


def is_committed(plan: Plan, epoch: Epoch, stored: Checkpoint | None) -> bool:
    """Return whether the stored checkpoint is this plan's, committed by this epoch."""
    return stored is not None and (stored.batch, stored.plan_hash, stored.epoch) == (plan.batch, plan.hash, epoch)


def check_planned(plan: Plan, pending: Plan | None, stored: Checkpoint | None) -> None:
    """Refuse to commit a plan that is not the one in flight.

    Raises:
        CheckpointConflictError: another plan or none is in flight.
    """
    if pending is not None and pending.hash == plan.hash:
        return
    found = f"batch {pending.batch} (plan {pending.hash})" if pending else "no plan"
    stands = f"batch {stored.batch} (plan {stored.plan_hash or '-'})" if stored else "nothing"
    raise CheckpointConflictError(
        f"flow {plan.flow}: batch {plan.batch} (plan {plan.hash}) cannot be committed: {found} is in flight, "
        f"{stands} is committed",
        hint="Load the checkpoint and the plan in flight, and go on from those.",
    )
