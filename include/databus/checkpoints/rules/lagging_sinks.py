"""Rules for lagging sinks: when one may leave its flow and join again, and what both then stand at. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.positions.offset_ranges import unreached
from databus.core.positions.offsets import Ordering
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan

Standing = tuple[Checkpoint | None, Plan | None]
"""A checkpoint and the plan in flight."""


def detached(
    flow: str, sink: str, stored: Checkpoint | None, pending: Plan | None, epoch: Epoch
) -> tuple[Checkpoint, Plan | None]:
    """Return the first checkpoint of a sink that leaves its flow, and its plan: the one in flight if it names the sink.

    Raises:
        CheckpointConflictError: the flow has no checkpoint.
    """
    if stored is None:
        raise CheckpointConflictError(f"flow {flow}: sink {sink} cannot fall behind, the flow has no checkpoint")
    own = {sink: stored.slots[sink]} if sink in stored.slots else {}
    ids, names = _of(sink, stored.output_ids), _of(sink, stored.output_names)
    first = _of(sink, stored.first)
    mine = replace(stored, slots=own, output_ids=ids, output_names=names, first=first)
    checkpoint = replace(mine, epoch=epoch, counts={}, detached=stored.batch)
    return checkpoint, pending if pending is not None and sink in pending.sinks else None


def check_detached(flow: str, sink: str, wanted: Checkpoint, stored: Checkpoint) -> None:
    """Refuse to detach a sink that is behind already, except by the same step.

    Raises:
        CheckpointConflictError: it stands elsewhere, or another run detached it.
    """
    if stored != wanted:
        raise CheckpointConflictError(
            f"flow {flow}: sink {sink} is behind already, at {stored.offset} after batch {stored.batch}",
            hint="Go on from the sink's own checkpoint.",
        )


@dataclass(frozen=True)
class Joining:
    """Join of a lagging sink: who lets it join its flow again, and when."""

    epoch: Epoch
    who: str
    now: datetime


def joined(flow: str, sink: str, flows: Standing, sinks: Standing, by: Joining) -> Checkpoint:
    """Return the flow's checkpoint with a sink that caught up.

    Raises:
        CheckpointConflictError: one of the two has no checkpoint, a plan is in flight, or they stand at two places.
    """
    (flow_at, flow_plan), (sink_at, sink_plan) = flows, sinks
    problem = ""
    if flow_at is None or sink_at is None:
        raise CheckpointConflictError(
            f"flow {flow}: sink {sink} cannot join: {'the flow' if flow_at is None else 'the sink'} has no checkpoint",
            hint="Read which sinks are behind, and go on from that.",
        )
    if flow_plan is not None:
        problem = f"batch {flow_plan.batch} of the flow is in flight"
    elif sink_plan is not None:
        problem = f"batch {sink_plan.batch} of the sink is in flight"
    elif sink_at.offset.compare(flow_at.offset) is not Ordering.EQUAL:
        problem = f"the flow stands at {flow_at.offset}, the sink at {sink_at.offset}"
    if problem:
        raise CheckpointConflictError(f"flow {flow}: sink {sink} cannot join: {problem}")
    newest = max(flow_at, sink_at, key=lambda at: at.batch)
    return replace(
        flow_at,
        batch=newest.batch,
        plan_hash=newest.plan_hash,
        counts=newest.counts,
        bytes=newest.bytes,
        epoch=by.epoch,
        run_id=by.who,
        updated_at=by.now,
        slots={**flow_at.slots, **sink_at.slots},
        # What a person made the sink forget is forgotten.
        output_ids={**_but(sink, flow_at.output_ids), **sink_at.output_ids},
        output_names={**_but(sink, flow_at.output_names), **sink_at.output_names},
        # Of other sinks it may hold what its plan named, where it was adopted.
        first={**_but(sink, flow_at.first), **_of(sink, sink_at.first)},
        pace=min((at.pace for at in (flow_at, sink_at) if at.pace), key=lambda pace: pace["rows"], default={}),
        closed_until=unreached(flow_at.offset, flow_at.closed_until, sink_at.closed_until),
    )


_T = TypeVar("_T")


def _of(sink: str, outputs: Mapping[str, _T]) -> Mapping[str, _T]:
    return {name: known for name, known in outputs.items() if name == sink}


def _but(sink: str, outputs: Mapping[str, _T]) -> Mapping[str, _T]:
    return {name: known for name, known in outputs.items() if name != sink}
