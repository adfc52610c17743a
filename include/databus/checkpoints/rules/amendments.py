"""Amendment rules: which one a checkpoint allows, and what it makes of checkpoint and gaps. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from databus.checkpoints.rules.accepted import without_outputs
from databus.checkpoints.rules.lagging_sinks import Joining, Standing, joined
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.positions.gaps import OPEN, Gap
from databus.core.positions.offset_ranges import unreached, with_lives_of
from databus.core.positions.offsets import BinlogOffset, Offset, Ordering
from databus.core.state.amendments import Amendment
from databus.core.state.checkpoint import Checkpoint, Epoch, merged_slots
from databus.core.state.known_outputs import still_first
from databus.core.state.plan import Plan


def require_started(flow: str, stored: Checkpoint | None) -> Checkpoint:
    """Return the checkpoint of a flow that has one.

    Raises:
        CheckpointConflictError: it has not run yet.
    """
    if stored is None:
        raise CheckpointConflictError(
            f"flow {flow} has no checkpoint yet, so there is nothing to change",
            hint="Its first run begins where `start` of its source says.",
        )
    return stored


def check_amendment(
    flow: str, amendment: Amendment, stored: Checkpoint, pending: Plan | None, behind: Sequence[str]
) -> None:
    """Refuse an amendment that does not fit what is stored.

    Raises:
        CheckpointConflictError: a sink stands behind the others, another plan is in flight than the one that the sinks
            have closed, the move goes nowhere or in the wrong direction or onto an earlier timeline, or a forward move
            names no gap.
    """
    require_all_joined(flow, amendment.action, behind)
    _require_closed(flow, amendment, pending)
    require_timeline(flow, amendment.offset, stored.offset)
    direction = amendment.offset.compare(stored.offset)
    wrong = {"rewind": Ordering.AFTER, "skip": Ordering.BEFORE}.get(amendment.action)
    if direction in (Ordering.EQUAL, Ordering.DIVERGED, wrong):
        raise CheckpointConflictError(
            f"flow {flow}: cannot {amendment.action} from {stored.offset} to {amendment.offset}, "
            f"which lies {direction.value if direction is not Ordering.EQUAL else 'at the same place'}",
            hint="rewind goes back, skip goes forward; restore does either.",
        )
    if direction is Ordering.AFTER:
        _require_gap(flow, amendment, stored)


def check_sink_amendment(flow: str, sink: str, amendment: Amendment, own: Standing, flow_at: Checkpoint) -> None:
    """Refuse to move a sink that is behind by hand but forward, up to where the flow stands at most.

    Raises:
        CheckpointConflictError: it is not behind, another plan of it is in flight than the one that it has closed, the
            move goes elsewhere, or names no gap.
    """
    stored, pending = require_behind(flow, sink, own[0]), own[1]
    _require_closed(flow, amendment, pending)
    require_timeline(flow, amendment.offset, stored.offset)
    direction, upto = amendment.offset.compare(stored.offset), amendment.offset.compare(flow_at.offset)
    forward = direction is Ordering.AFTER and upto is Ordering.BEFORE
    if not forward and upto is not Ordering.EQUAL:
        raise CheckpointConflictError(
            f"flow {flow}: sink {sink} cannot go from {stored.offset} to {amendment.offset}: the flow stands at "
            f"{flow_at.offset}",
            hint="A sink that is behind goes forward, up to where the flow stands.",
        )
    if direction is not Ordering.EQUAL:
        _require_gap(flow, amendment, stored)


def require_behind(flow: str, sink: str, stored: Checkpoint | None) -> Checkpoint:
    """Return the checkpoint of a sink that is behind.

    Raises:
        CheckpointConflictError: it goes with the flow.
    """
    if stored is None:
        raise CheckpointConflictError(
            f"flow {flow}: sink {sink} is not behind", hint=f"See `databus checkpoint show {flow}`."
        )
    return stored


def is_caught_up(own: Standing, flow_at: Standing) -> bool:
    """Return whether a sink that is behind stands where the flow stands: an amendment takes it along.

    Its plan in flight, if any, is the flow's, which the amendment closes at every sink.
    """
    (sink_at, sink_plan), (stored, pending) = own, flow_at
    if sink_at is None or stored is None or sink_at.offset.compare(stored.offset) is not Ordering.EQUAL:
        return False
    return sink_plan is None or (pending is not None and sink_plan.hash == pending.hash)


def _require_closed(flow: str, amendment: Amendment, pending: Plan | None) -> None:
    closed = amendment.closed
    if (pending.hash if pending else None) != (closed.hash if closed else None):
        found = f"batch {pending.batch} (plan {pending.hash})" if pending else "no plan"
        raise CheckpointConflictError(
            f"flow {flow}: {amendment.action} to {amendment.offset}: {found} is in flight, "
            f"not {f'batch {closed.batch} (plan {closed.hash})' if closed else 'none'}",
            hint="Preview the change again.",
        )


def _require_gap(flow: str, amendment: Amendment, stored: Checkpoint) -> None:
    gap = amendment.gap
    if (
        gap is None
        or gap.start.compare(stored.offset) is not Ordering.EQUAL
        or gap.end.compare(amendment.offset) is not Ordering.EQUAL
    ):
        raise CheckpointConflictError(
            f"flow {flow}: {amendment.action} from {stored.offset} to {amendment.offset} passes over a range "
            "that no gap names"
        )


def require_all_joined(flow: str, action: str, behind: Sequence[str]) -> None:
    """Refuse to move a flow while sinks stand behind it: they would pass over, or miss, what it does not move again.

    Raises:
        CheckpointConflictError: one does.
    """
    if behind:
        raise CheckpointConflictError(
            f"flow {flow}: cannot {action} while sinks stand behind the others: {', '.join(behind)}",
            hint=f"Run the flow until they have caught up (`databus checkpoint show {flow}` shows where they stand). "
            f"One that never will gives up what it lacks: `databus checkpoint skip {flow} --sink {behind[0]}`.",
        )


def require_timeline(flow: str, offset: Offset, stored: Offset) -> None:
    """Refuse a place on an earlier timeline: all versions made from there would lie below what is there.

    Raises:
        CheckpointConflictError: it is on an earlier one.
    """
    if isinstance(offset, BinlogOffset) and isinstance(stored, BinlogOffset) and offset.timeline < stored.timeline:
        raise CheckpointConflictError(
            f"flow {flow}: {offset} is on timeline {offset.timeline}, the flow has come to timeline {stored.timeline}: "
            "sinks that order rows by version would refuse every row from there on as older than what they hold",
            hint=f"Name the place by `databus checkpoint rewind {flow}` or `restore`, which keep the timeline.",
        )


def taken_along(
    flow: str, stored: Checkpoint, own: Mapping[str, Checkpoint | None], by: Joining
) -> Iterator[tuple[str, Checkpoint]]:
    """Yield each sink that has caught up, and the flow's checkpoint with it and those before."""
    for sink, sink_at in own.items():
        stored = joined(flow, sink, (stored, None), (sink_at, None), by)
        yield sink, stored


def amended_checkpoint(previous: Checkpoint, amendment: Amendment, epoch: Epoch, now: datetime) -> Checkpoint:
    """Return the checkpoint after an amendment; the number of a closed plan is used up.

    The watermark is kept going forward, where it stays a lower bound, and unknown going back. Rows of the closed plan
    may stand at sinks without markers; outputs that it took for new still are.
    """
    closed = amendment.closed
    back = amendment.offset.compare(previous.offset) is Ordering.BEFORE
    offset = with_lives_of(amendment.offset, closed.range.end) if closed else amendment.offset
    left = closed.left_behind(amendment.slots) if closed else ()
    return Checkpoint(
        offset=offset,
        batch=max(previous.batch, closed.batch if closed else 0),
        epoch=epoch,
        run_id=amendment.who,
        plan_hash="",
        counts={},
        watermark=None if back else previous.watermark,
        updated_at=now,
        slots=merged_slots(previous.slots, amendment.slots),
        replay_until=unreached(offset, previous.offset, previous.replay_until),
        closed_until=unreached(offset, previous.closed_until, *left),
        output_ids=without_outputs(previous, amendment.gone),
        output_names=previous.output_names,
        first=still_first(previous.first, first_of(closed), {}),
        detached=previous.detached,
    )


def first_of(closed: Plan | None) -> dict[str, tuple[str, ...]]:
    """Return sink → outputs that a plan which is given up took for new."""
    return {name: sink.first for name, sink in closed.sinks.items()} if closed else {}


def is_amended(stored: Checkpoint, amendment: Amendment, epoch: Epoch) -> bool:
    """Return whether the stored checkpoint is this amendment's: an epoch that amends does nothing else before."""
    return (stored.epoch, stored.run_id, stored.plan_hash) == (epoch, amendment.who, "") and stored.offset.compare(
        amendment.offset
    ) is Ordering.EQUAL


def numbered(gap: Gap, known: Sequence[Gap]) -> tuple[Gap, bool]:
    """Return the gap with its number, and whether it takes the place of a known one.

    An undecided gap from the same start is the same gap: its end may have moved, or a decision was taken.
    """
    for other in known:
        if other.decision == OPEN and other.start.compare(gap.start) is Ordering.EQUAL:
            return replace(gap, number=other.number), True
    return replace(gap, number=1 + max((other.number for other in known), default=0)), False
