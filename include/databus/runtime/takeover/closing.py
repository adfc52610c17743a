"""Closing the plan in flight of a changed flow, at every sink if none holds any of it, and opening it again.

Only the latest claim may do either. Writers are fenced first, then the claim is confirmed, then markers are moved: who
claims the flow after that fences this one before its markers are touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from databus.core.errors.sink import SinkFencedError
from databus.core.protocols.sink import FencedPlan, Sink
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import MarkedSink
from databus.runtime.sink_outage.outage import naming

log = logging.getLogger(__name__)
T = TypeVar("T")

_ROUNDS = 4
"""A writer that begins anew while its plan is closed is a task tried again; Spark tries four times by default."""


@dataclass(frozen=True)
class ClosingOutcome:
    """Outcome of closing a plan.

    Attributes:
        held: sinks that hold a part of it; it stays open at all sinks then.
        slots: sink with markers → batch that each slot's marker holds now; empty where the plan stays open.
    """

    held: tuple[str, ...]
    slots: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ClosedForGood:
    """Sink states of a plan that was closed for good.

    Attributes:
        whole: sinks that hold all of it.
        partly: sink → slots that hold something of it, e.g. "1 of 2 slots"; "" for a sink without markers, of which
            nothing shows what it holds.
        slots: sink with markers → batch that each slot's marker holds now.
    """

    whole: frozenset[str]
    partly: Mapping[str, str]
    slots: Mapping[str, tuple[int, ...]]


def close_unwritten(sinks: Mapping[str, Sink], plan: Plan, lease: Lease) -> ClosingOutcome:
    """Close a plan that will not be finished, unless a sink holds rows of it; idempotent, also after a kill.

    A writer of the plan may still live. So all slots of all sinks are fenced first, then markers are looked at, then
    they are moved. Where a slot holds rows of the plan, markers that an earlier attempt had moved are put back.

    Args:
        sinks: open sinks by name; those that the plan does not name are left alone.
        plan: the plan.
        lease: the claim under which it is closed.

    Raises:
        StaleEpochError: the flow was claimed again since; no marker was moved.
        SinkFencedError: a writer of the plan began anew each time.
        MarkerDivergedError: a slot's marker has nothing to do with the plan.
        SinkUnavailableError, CheckpointUnavailableError: no answer.
    """
    return in_rounds(plan, partial(_close, sinks, plan, lease))


def close_for_good(sinks: Mapping[str, Sink], plan: Plan, lease: Lease) -> ClosedForGood:
    """Close a plan that nothing can finish any more, whatever sinks hold of it; idempotent, also after a kill.

    Args:
        sinks: open sinks by name; those that the plan does not name are left alone.
        plan: the plan.
        lease: the claim under which it is closed.

    Raises:
        StaleEpochError: the flow was claimed again since; no marker was moved.
        SinkFencedError: a writer of the plan began anew each time.
        MarkerDivergedError: a slot's marker has nothing to do with the plan.
        SinkUnavailableError, CheckpointUnavailableError: no answer.
    """
    return in_rounds(plan, partial(_close_for_good, {n: s for n, s in sinks.items() if n in plan.sinks}, plan, lease))


def open_again(sinks: Mapping[str, Sink], plan: Plan, lease: Lease) -> None:
    """Let a plan go on that is closed in some slots, or in all: the flow's change has been taken back; idempotent.

    A closing may have been cut off, or another plan not been written after it. Markers are looked at once; a sink whose
    slots are all open is left alone.

    Args:
        sinks: open sinks by name.
        plan: the plan in flight, of the flow's own definition.
        lease: the claim under which it goes on.

    Raises:
        StaleEpochError: the flow was claimed again since; no marker was moved.
        SinkFencedError: a writer of the plan began anew each time.
        SinkUnavailableError, CheckpointUnavailableError: no answer.
    """
    for name, sink in ((name, sink) for name, sink in sinks.items() if name in plan.sinks):
        with naming(name):
            if _is_closed(sink, name, plan):
                log.warning("flow %s: batch %d was closed at sink %s, and goes on", plan.flow, plan.batch, name)
                in_rounds(plan, partial(_put_back, sink, plan, lease))


def in_rounds(plan: Plan, call: Callable[[], T]) -> T:
    """Fence and look again where a writer of a plan began anew in between. Raises as the call, at last."""
    for left in reversed(range(_ROUNDS)):
        try:
            return call()
        except SinkFencedError as error:
            if not left:
                raise
            log.info("flow %s: a writer of batch %d came in between, looking again: %s", plan.flow, plan.batch, error)
    raise AssertionError("unreachable")


def _is_closed(sink: Sink, name: str, plan: Plan) -> bool:
    if not isinstance(sink, MarkedSink) or not sink.marked:
        return False
    # Not waited for: what a dead writer left open its successor ends, and a closing that lives is fenced by that one.
    marks = sink.marks(plan.sinks[name].slots, settled=False)
    own = (plan.batch, plan.hash)
    return any(mark is not None and mark.closed and (mark.batch, mark.plan_hash) == own for mark in marks)


def _put_back(sink: Sink, plan: Plan, lease: Lease) -> None:
    fenced = sink.fence(plan)
    if fenced is not None:
        try:
            lease.confirm()
            fenced.put_back()
        finally:
            fenced.discard()


def _close(sinks: Mapping[str, Sink], plan: Plan, lease: Lease) -> ClosingOutcome:
    with ExitStack() as stack:
        fenced: dict[str, FencedPlan] = {}
        for name in (name for name in sinks if name in plan.sinks):
            with naming(name):
                at_sink = sinks[name].fence(plan)
            if at_sink is not None:
                stack.callback(at_sink.discard)
                fenced[name] = at_sink
        lease.confirm()
        held = tuple(name for name, at_sink in fenced.items() if at_sink.held())
        for name, at_sink in fenced.items():
            with naming(name):
                if held:
                    at_sink.put_back()
                else:
                    at_sink.abandon()
    return ClosingOutcome(held, {} if held else {name: plan.sinks[name].marks_after(plan.batch) for name in fenced})


def _close_for_good(sinks: Mapping[str, Sink], plan: Plan, lease: Lease) -> ClosedForGood:
    held: dict[str, int] = {}
    with ExitStack() as stack:
        for name, sink in sinks.items():
            with naming(name):
                fenced = sink.fence(plan)
            if fenced is not None:
                stack.callback(fenced.discard)
                held[name] = len(fenced.held())
        lease.confirm()
    whole, partly, slots = set[str](), dict[str, str](), dict[str, tuple[int, ...]]()
    for name, sink in sinks.items():
        with naming(name):
            states = sink.abandon(plan)
        if not states:
            partly[name] = ""
            continue
        slots[name] = plan.sinks[name].marks_after(plan.batch)
        if all(state == "written" for state in states.values()):
            whole.add(name)
        elif held.get(name):
            partly[name] = f"{held[name]} of {len(states)} slots"
    return ClosedForGood(frozenset(whole), partly, slots)
