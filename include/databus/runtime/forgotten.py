"""Markers that a sink has forgotten for age, of a plan that is not the live flow's: those it was built on come back.

Nothing refreshes the markers of replays and backfills, which stand still for as long as nobody runs them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from functools import partial

from databus.core.checkpoint import Checkpoint
from databus.core.checkpoint_store import Lease
from databus.core.errors import MarkerDivergedError
from databus.core.marks import MarkedSink
from databus.core.plan import Plan
from databus.core.protocols import Sink
from databus.runtime.closing import in_rounds
from databus.runtime.outage import naming
from databus.runtime.upkeep import ForgetfulSink

log = logging.getLogger(__name__)


def recall(sinks: Mapping[str, Sink], plan: Plan, lease: Lease, now: datetime, *, accept: bool) -> None:
    """Write what the sinks had forgotten before a replay's plan was made again, as far as that can be told.

    Args:
        sinks: open sinks by name, with the replay's own markers.
        plan: the plan in flight, new or found unfinished.
        lease: the claim under which it goes on.
        now: the time.
        accept: whether rows may come once more where nothing tells whether they came.

    Raises:
        MarkerDivergedError: a plan found unfinished is so old that its own markers may be forgotten too.
        SinkError, CheckpointError: as `write_again`.
    """
    unknown = [name for name in _forgetting(sinks, plan) if _may_forget(name, sinks[name], plan.clock, now)]
    if unknown and not accept:
        raise MarkerDivergedError(
            f"flow {plan.live_flow}: replay {plan.batch} was begun at {plan.clock:%Y-%m-%d %H:%M} and not finished; "
            f"what its sinks ({', '.join(unknown)}) kept of it has expired since: nothing tells whether they have rows "
            "of it",
            hint="Look there for the event ids that `databus quarantine list` names. With --accept the replay is "
            "finished: rows that are there come once more, under the same event ids.",
        )
    write_again(sinks, plan, lease)


def recall_piece(sinks: Mapping[str, Sink], plan: Plan, lease: Lease, standing: Checkpoint, now: datetime) -> None:
    """Write what the sinks had forgotten of a backfill that stood still again, before its plan in flight was made.

    Where that plan is so old that its own markers may be forgotten too, all stays as it is. Raises as `write_again`.
    """
    told = {}
    for name, missing in _forgetting(sinks, plan).items():
        sink, lacks = sinks[name], any(plan.sinks[name].prev[slot] for slot in missing)
        if lacks and _may_forget(name, sink, standing.updated_at, now) and not _may_forget(name, sink, plan.clock, now):
            told[name] = sink
    write_again(told, plan, lease)


def write_again(sinks: Mapping[str, Sink], plan: Plan, lease: Lease) -> None:
    """Write the markers that a plan was built on again, where a slot has none and nothing of the plan; idempotent.

    The plan keeps its hash, so slots that hold a part of it go on.

    Args:
        sinks: open sinks by name, none of which can have forgotten anything of the plan itself.
        plan: the plan in flight.
        lease: the claim under which it goes on.

    Raises:
        StaleEpochError: the flow was claimed again since; no marker was written.
        SinkFencedError: a writer of the plan began anew each time.
        SinkUnavailableError, CheckpointUnavailableError: no answer.
    """
    for name, missing in _forgetting(sinks, plan).items():
        if any(plan.sinks[name].prev[slot] for slot in missing):
            with naming(name):
                in_rounds(plan, partial(_write, sinks[name], plan, lease))
            log.warning("flow %s: sink %s had forgotten markers, which are written again", plan.flow, name)


def _may_forget(name: str, sink: Sink, since: datetime, now: datetime) -> bool:
    """Tell whether a sink may have forgotten a marker that was written at a time."""
    with naming(name):
        return isinstance(sink, ForgetfulSink) and (now - since).total_seconds() >= sink.marker_retention_s()


def _forgetting(sinks: Mapping[str, Sink], plan: Plan) -> dict[str, list[int]]:
    """Return sink → slots of the plan that have no marker, of each sink with such slots."""
    found: dict[str, list[int]] = {}
    for name, sink in sinks.items():
        if name not in plan.sinks or not isinstance(sink, MarkedSink) or not sink.marked:
            continue
        with naming(name):
            # Not waited for: what a dead writer left open is ended, and looked at again, before anything is written.
            marks = sink.marks(plan.sinks[name].slots, settled=False)
        missing = [slot for slot, mark in enumerate(marks) if mark is None]
        if missing:
            found[name] = missing
    return found


def _write(sink: Sink, plan: Plan, lease: Lease) -> None:
    fenced = sink.fence(plan)
    if fenced is not None:
        try:
            lease.confirm()
            fenced.remember()
        finally:
            fenced.discard()
