"""Plan: choose the next range under the lease and write it down before anything is read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from databus.core.checkpoint import Checkpoint, merged_slots
from databus.core.checkpoint_store import Lease
from databus.core.errors import CheckpointConflictError, PlanChangedError
from databus.core.known_outputs import known_outputs
from databus.core.offsets import Ordering
from databus.core.plan import Plan, SinkPlan, SourcePlan
from databus.runtime.closing import close_unwritten
from databus.runtime.context import FlowSession
from databus.runtime.outage import naming
from databus.runtime.pace import Pace
from databus.runtime.purged import note_passed
from databus.runtime.routing import outputs_of, prepare
from databus.runtime.written_tables import written_tables

log = logging.getLogger(__name__)

_LOOK_UP_S = 2.0
"""A source waits this long at most before the window looks for a drain and for a successor; Airflow kills a cancelled
task after 5 seconds."""


@dataclass(frozen=True)
class PlannedBatch:
    """A plan in ZooKeeper together with what the source knows of its range.

    Attributes:
        plan: the plan.
        source: the source's description of the same range.
        previous: checkpoint it starts from.
        attempt: 1, or 2 when an earlier attempt had left the plan behind.
    """

    plan: Plan
    source: SourcePlan
    previous: Checkpoint
    attempt: int


def next_plan(
    session: FlowSession, lease: Lease, checkpoint: Checkpoint, *, settled: bool = False
) -> PlannedBatch | None:
    """Return the plan found unfinished, else a new one; None when the source has nothing new.

    A plan found unfinished is taken as it is: same range, same slots, same clock. With `settled` none is looked for:
    the caller has committed the last one, or found none, under the same claim.

    Raises:
        PlanChangedError: the flow changed while a sink already holds part of the unfinished batch.
    """
    pending = None if settled else session.store.pending_plan(session.flow.name)
    if pending is not None and pending.spec_hash == session.spec_hash:
        log.info("flow %s: batch %d %s found unfinished, taken up again", pending.flow, pending.batch, pending.range)
        return PlannedBatch(pending, session.source.reopen(pending.range), checkpoint, attempt=2)
    batch, marks = _next_number(session, checkpoint), dict(checkpoint.slots)
    if pending is not None:
        marks = merged_slots(marks, _abandon(session, pending))
        batch = max(batch, pending.batch + 1)
    patience = Pace.of(checkpoint.pace, session.flow.batching).limit(session.flow.batching)
    if patience.max_seconds > _LOOK_UP_S:
        patience = patience.model_copy(update={"max_seconds": _LOOK_UP_S})
    proposed = session.source.plan(checkpoint.offset, patience)
    if proposed is None and pending is None:
        return None
    if proposed is None:
        raise CheckpointConflictError(
            f"flow {session.flow.name}: the unfinished batch {batch - 1} was planned over a range "
            "that the source no longer offers",
            hint="Compare `databus checkpoint show` with the server's log before going on.",
        )
    if proposed.passed:
        note_passed(session.store, session.flow.name, lease, proposed, (session.identity.run_id, session.clock.now()))
    plan = replace(_new_plan(session, (checkpoint, marks), proposed, batch), mode=_mode(session, checkpoint, proposed))
    session.store.write_plan(lease, plan)
    return PlannedBatch(plan, proposed, checkpoint, attempt=1)


def _new_plan(
    session: FlowSession, standing: tuple[Checkpoint, Mapping[str, tuple[int, ...]]], proposed: SourcePlan, batch: int
) -> Plan:
    checkpoint, marks = standing
    sinks: dict[str, SinkPlan] = {}
    tables = written_tables(session.flow, proposed.tables)
    for name, sink in session.sinks.items():
        outputs = outputs_of(session.flow, session.sink_spec(name), tables)
        with naming(name):
            pinned = prepare(sink, proposed, outputs, known_outputs(checkpoint, name, session.live_standing))
        sinks[name] = pinned.following(marks.get(name, ()), batch - 1)
    return Plan(
        installation=session.settings.installation,
        flow=session.flow.name,
        batch=batch,
        range=proposed.range,
        sinks=sinks,
        spec_hash=session.spec_hash,
        clock=session.clock.now(),
    )


def _mode(session: FlowSession, checkpoint: Checkpoint, proposed: SourcePlan) -> str:
    """Tell whether sinks may hold newer rows: in a backfill, and before the place from which the flow was set back."""
    until = checkpoint.replay_until
    if session.replays:
        return "replay"
    return "replay" if until is not None and proposed.range.start.compare(until) is Ordering.BEFORE else "live"


def _next_number(session: FlowSession, checkpoint: Checkpoint) -> int:
    """Numbers are unique in a flow: while a sink is behind, its plans count too."""
    return (session.store.highest_batch(session.flow.name) if session.split else checkpoint.batch) + 1


def _abandon(session: FlowSession, pending: Plan) -> Mapping[str, tuple[int, ...]]:
    """Close the plan of a former definition at every sink; return what the markers hold afterwards."""
    closed = close_unwritten(session.sinks, pending)
    if closed.held:
        raise PlanChangedError(
            f"flow {pending.flow} changed while batch {pending.batch} {pending.range} was half written "
            f"(already in: {', '.join(closed.held)})",
            hint="Put the former definition back until this batch is committed, then change the flow.",
        )
    log.warning(
        "flow %s: batch %d %s was planned under another definition and nothing of it was written: planned anew",
        pending.flow,
        pending.batch,
        pending.range,
    )
    return closed.slots
