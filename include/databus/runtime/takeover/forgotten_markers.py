"""Expired markers of a plan that is not the live flow's: those it was built on are written again.

Nothing refreshes the markers of replays and backfills, which stand still for as long as nobody runs them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Protocol, runtime_checkable

from databus.core.errors.sink import MarkerDivergedError
from databus.core.protocols.sink import Sink
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import MarkedSink
from databus.runtime.marker_refresh import ForgetfulSink
from databus.runtime.sink_outage.outage import naming
from databus.runtime.takeover.closing import in_rounds

log = logging.getLogger(__name__)

_SOONEST_S = 60.0
"""No sink forgets a marker sooner: Kafka counts offsets.retention.minutes. A plan just made asks for nothing."""

_NAMED = 5


@runtime_checkable
class EmptyTellingSink(Protocol):
    """A sink that reports outputs that nobody ever wrote to."""

    def never_held(self, plan: Plan) -> bool:
        """Return whether no output of a plan has ever held anything, whoever might have written it.

        Raises:
            SinkUnavailableError: no answer.
        """
        ...


def recall(sinks: Mapping[str, Sink], plan: Plan, lease: Lease, now: datetime, *, accept: bool) -> None:
    """Write what the sinks had forgotten before a replay's plan was made again, as far as that can be determined.

    Args:
        sinks: open sinks by name, with the replay's own markers.
        plan: the plan in flight, new or found unfinished.
        lease: the claim under which it goes on.
        now: the time.
        accept: whether rows may come once more where nothing shows whether they came.

    Raises:
        MarkerDivergedError: a plan found unfinished is so old that its own markers may be forgotten too.
        SinkError, CheckpointError: as `write_again`.
    """
    unknown = _untold(sinks, plan, _forgetting(sinks, plan), now)
    if unknown and not accept:
        raise MarkerDivergedError(
            f"flow {plan.live_flow}: replay {plan.batch} was {_nothing_tells(plan, unknown)}",
            hint="Look there for the event ids that `databus quarantine list` names. With --accept the replay is "
            "finished: rows that are there come once more, under the same event ids.",
        )
    write_again(sinks, plan, lease)


def recall_piece(
    sinks: Mapping[str, Sink], plan: Plan, lease: Lease, standing: Checkpoint, now: datetime, *, accept: bool
) -> None:
    """Write what the sinks had forgotten of a backfill that stood still again, before its plan in flight was made.

    Args:
        sinks: open sinks by name, with the piece's own markers.
        plan: the plan in flight, new or found unfinished.
        lease: the claim under which it goes on.
        standing: the checkpoint that the plan goes on from.
        now: the time.
        accept: whether rows may come once more where nothing shows whether they came.

    Raises:
        MarkerDivergedError: a plan found unfinished is so old that its own markers may be forgotten too.
        SinkError, CheckpointError: as `write_again`.
    """
    forgetting = _forgetting(sinks, plan)
    unknown = _untold(sinks, plan, forgetting, now)
    if unknown and not accept:
        raise MarkerDivergedError(
            f"flow {plan.live_flow}: backfill {plan.flow}: batch {plan.batch} {plan.range} was "
            f"{_nothing_tells(plan, unknown)}",
            hint=f"Look in {_outputs(plan, unknown)} for rows of that range. With --accept (in Airflow `accept`) the "
            "backfill goes on: rows that are there come once more, under the same event ids.",
        )
    told = {}
    for name, missing in forgetting.items():
        lacks = any(plan.sinks[name].prev[slot] for slot in missing)
        if lacks and (name in unknown or _may_forget(name, sinks[name], standing.updated_at, now)):
            told[name] = sinks[name]
    write_again(told, plan, lease)
    if unknown:
        log.warning("flow %s: batch %d goes on as accepted: rows may come once more", plan.flow, plan.batch)


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


def _untold(sinks: Mapping[str, Sink], plan: Plan, forgetting: Mapping[str, object], now: datetime) -> list[str]:
    """Return the sinks that may have forgotten markers of the plan itself, and may hold rows of it."""
    return [
        name
        for name in forgetting
        if _may_forget(name, sinks[name], plan.clock, now) and not _never_held(name, sinks[name], plan)
    ]


def _never_held(name: str, sink: Sink, plan: Plan) -> bool:
    with naming(name):
        return isinstance(sink, EmptyTellingSink) and sink.never_held(plan)


def _nothing_tells(plan: Plan, unknown: Sequence[str]) -> str:
    return (
        f"begun at {plan.clock:%Y-%m-%d %H:%M} and not finished; what its sinks ({', '.join(unknown)}) kept of it has "
        "expired since: nothing shows whether they have rows of it"
    )


def _outputs(plan: Plan, sinks: Sequence[str]) -> str:
    outputs = sorted({output for name in sinks for output in plan.sinks[name].partitions})
    more = f" and {len(outputs) - _NAMED} more" if len(outputs) > _NAMED else ""
    return (", ".join(outputs[:_NAMED]) or ", ".join(sinks)) + more


def _may_forget(name: str, sink: Sink, since: datetime, now: datetime) -> bool:
    """Return whether a sink may have forgotten a marker that was written at a time."""
    age_s = (now - since).total_seconds()
    if age_s < _SOONEST_S:
        return False
    with naming(name):
        return isinstance(sink, ForgetfulSink) and age_s >= sink.marker_retention_s()


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
