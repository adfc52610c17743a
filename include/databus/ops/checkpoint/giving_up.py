"""Skip of a lagging sink that cannot catch up: it moves forward by hand, and what it never got is named."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.errors.config import ConfigError
from databus.core.errors.sink import SinkSettingError
from databus.core.flow import Flow
from databus.core.positions.gaps import PURGED, SKIPPED, Gap, cause_of_sink
from databus.core.positions.offset_ranges import earlier
from databus.core.positions.offsets import Offset, Ordering
from databus.core.state.amendments import Amendment, SinkEffect
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import Plan
from databus.ops.checkpoint.amend import Attribution, claimed
from databus.ops.checkpoint.targets import Target, missing, resolve
from databus.ops.checkpoint.version import require_version
from databus.ops.services import Ends, opened_ends
from databus.runtime.context import Services
from databus.runtime.takeover.takeover import ClaimedFlow, take_over

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GivingUp:
    """A move of a sink that is behind, looked at, not made.

    Attributes:
        flow: flow name.
        sink: the sink.
        start: where it stands.
        end: where it would stand.
        cause: why it goes forward, for the gap.
        stands: where the flow stands.
        closes: the sink's plan in flight, which is closed first.
        part: whether the sink is part of the flow still.
        joins: whether it goes with the flow again then.
        effect: what its readers would see.
        half_written: whether it holds a part of the closed plan, which comes once more from where the sink goes on.
    """

    flow: str
    sink: str
    start: Offset
    end: Offset
    cause: str
    stands: Offset
    closes: Plan | None
    part: bool
    joins: bool
    effect: SinkEffect
    half_written: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        then = "goes with the flow again" if self.joins else "catches up with the flow from there"
        if not self.part:
            then = "is no part of the flow, and keeps it from nothing any more"
        elif self.end.compare(self.stands) is Ordering.EQUAL and not self.joins:
            then = "goes with the flow again once its plan in flight is committed or closed"
        closes = f"batch {self.closes.batch} {self.closes.range}" if self.closes else None
        if closes and not self.part:
            closes += ", not at the sink itself: where it holds a part of it, put it back under another name only"
        return {
            "flow": self.flow,
            "sink": self.sink,
            "from": str(self.start),
            "to": str(self.end),
            "to_offset": self.end.to_json(),
            "flow_at": str(self.stands),
            "plan_closed": closes,
            "half_written": "rows of the plan closed that it holds come once more" if self.half_written else None,
            "effect": f"rows in between never come: {self.effect.effect}",
            "refused": self.effect.refused or None,
            "then": then,
        }


def preview(flow: Flow, services: Services, sink: str, target: Target | None) -> GivingUp:
    """Say what the move would do; changes nothing.

    Args:
        flow: the flow.
        services: the installation.
        sink: name of a sink that is behind, also of one that was taken out of the flow.
        target: where it is to go; None for where the flow stands.

    Raises:
        CheckpointConflictError: the sink is not behind, or the place does not lie between it and the flow.
        ConfigError, SourceError: the target is no place of the source's log, or none for this sink.
    """
    with opened_ends(flow, services) as ends:
        return _look(flow, services, ends, sink, target)


def execute(flow: Flow, services: Services, sink: str, target: Target | None, said: Attribution) -> GivingUp:
    """Move the sink under a claim of the flow's lease, and return what was done; repeating it is safe.

    Its plan in flight is closed first, by markers of its own. The others' rows, and the flow's place, stay as they are.

    Raises:
        LeaseBusyError: a run holds the flow.
        CheckpointMovedError: flow or sink are not where the user saw them; nothing was closed.
        SinkSettingError: the sink refuses the move, and the user did not consent.
        SinkUnavailableError: the sink does not answer, and its plan cannot be closed.
        MarkerDivergedError, MarkersAheadError: its markers have nothing to do with its plan in flight, or are ahead.
        DatabusError: as `preview`.
    """
    preview(flow, services, sink, target)  # raises, before a claim makes nodes for a flow that never ran
    store, name = services.store, flow.name
    lease = claimed(name, flow, services, f"skip of sink {sink} by {said.who}")
    try:
        with opened_ends(flow, services) as ends:
            take_over(ClaimedFlow(flow, services.settings, store, ends.sinks, lease))
            require_version(name, store, said.seen)
            found = _look(flow, services, ends, sink, target)
            if found.effect.refused and not said.consents:
                raise SinkSettingError(
                    f"flow {name}: skip of sink {sink} to {found.end} is refused by {sink}: {found.effect.refused}",
                    hint="Give --accept if its readers can bear it.",
                    code="sink_refuses_move",
                )
            plan, slots = found.closes, {}
            if plan is not None and sink in ends.sinks and ends.sinks[sink].abandon(plan):
                slots = {sink: plan.sinks[sink].marks_after(plan.batch)}
            gap = None
            if found.start.compare(found.end) is not Ordering.EQUAL:
                cause, now = cause_of_sink(sink, found.cause), services.clock.now()
                gap = Gap(0, found.start, found.end, cause, SKIPPED, said.who, said.why, now)
            if gap is not None or plan is not None:
                store.amend_sink(name, lease, sink, Amendment("skip", said.who, said.why, found.end, plan, slots, gap))
            if found.joins:
                store.join(name, lease, sink, said.who)
    finally:
        lease.release()
    log.warning(
        "flow %s: sink %s: skip from %s to %s by %s: %s", name, sink, found.start, found.end, said.who, said.why
    )
    return found


def _look(flow: Flow, services: Services, ends: Ends, sink: str, target: Target | None) -> GivingUp:
    store, name = services.store, flow.name
    checkpoint, own = store.load(name), store.of_sink(sink).load(name)
    if checkpoint is None or own is None:
        behind = ", ".join(store.sinks_behind(name)) if checkpoint is not None else ""
        raise CheckpointConflictError(
            f"flow {name}: sink {sink} is not behind: {f'behind is {behind}' if behind else 'no sink is'}",
            hint=f"See `databus checkpoint show {name}`.",
        )
    part, plan = sink in ends.sinks, store.of_sink(sink).pending_plan(name)
    end = checkpoint.offset if target is None else _end(flow, services, ends, (sink, own), checkpoint, target)
    reached = end.compare(checkpoint.offset) is Ordering.EQUAL
    return GivingUp(
        flow=name,
        sink=sink,
        start=own.offset,
        end=end,
        cause=PURGED if target is not None and target.past_gap else "skip",
        stands=checkpoint.offset,
        closes=plan,
        part=part,
        joins=reached and store.pending_plan(name) is None,
        half_written=part
        and plan is not None
        and end.compare(plan.range.end) is Ordering.BEFORE
        and ends.sinks[sink].wrote_any_of(plan),
        effect=ends.sinks[sink].effect_of((), back=False) if part else SinkEffect(sink, "it is no part of the flow"),
    )


def _end(
    flow: Flow, services: Services, ends: Ends, which: tuple[str, Checkpoint], checkpoint: Checkpoint, target: Target
) -> Offset:
    sink, own = which
    if target.new_log or sink not in ends.sinks:
        what = "does not go onto a new log by itself" if target.new_log else "is no part of the flow"
        raise ConfigError(
            f"flow {flow.name}: sink {sink} {what}",
            hint=f"`databus checkpoint skip {flow.name} --sink {sink}`, without a place, gives up all that it lacks.",
        )
    if target.past_gap and missing(ends.source, own) is None:
        raise ConfigError(
            f"flow {flow.name}: nothing is missing for sink {sink}: the log can be read from {own.offset}",
            hint="Run the flow: it catches up by itself.",
        )
    end = resolve(flow, services, ends.source, own, target)
    if target.past_gap:
        end = earlier(end, checkpoint.offset)
    upto = end.compare(checkpoint.offset)
    if end.compare(own.offset) is not Ordering.AFTER or upto not in (Ordering.BEFORE, Ordering.EQUAL):
        raise CheckpointConflictError(
            f"flow {flow.name}: sink {sink} cannot go to {end}: it stands at {own.offset}, the flow at "
            f"{checkpoint.offset}",
            hint="A sink that is behind goes forward, up to where the flow stands.",
        )
    return end
