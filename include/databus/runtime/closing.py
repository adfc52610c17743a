"""Closing the plan in flight of a changed flow: at every sink if none holds any of it, else at none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from databus.core.errors import SinkFencedError
from databus.core.plan import Plan
from databus.core.protocols import FencedPlan, Sink
from databus.runtime.outage import naming

log = logging.getLogger(__name__)

_ROUNDS = 4
"""A writer that begins anew while its plan is closed is a task tried again; Spark tries four times by default."""


@dataclass(frozen=True)
class Closed:
    """Outcome of closing a plan.

    Attributes:
        held: sinks that hold a part of it; it stays open at all sinks then.
        slots: sink with markers → batch that each slot's marker holds now; empty where the plan stays open.
    """

    held: tuple[str, ...]
    slots: Mapping[str, tuple[int, ...]]


def close_unwritten(sinks: Mapping[str, Sink], plan: Plan) -> Closed:
    """Close a plan that will not be finished, unless a sink holds rows of it; idempotent, also after a kill.

    A writer of the plan may still live. So all slots of all sinks are fenced first, then markers are looked at, then
    they are moved. Where a slot holds rows of the plan, markers that an earlier attempt had moved are put back.

    Args:
        sinks: open sinks by name; those that the plan does not name are left alone.
        plan: the plan.

    Raises:
        SinkFencedError: a writer of the plan began anew each time.
        MarkerDivergedError: a slot's marker has nothing to do with the plan.
        SinkUnavailableError: no answer.
    """
    for left in reversed(range(_ROUNDS)):
        try:
            return _close(sinks, plan)
        except SinkFencedError as error:
            if not left:
                raise
            log.info("flow %s: a writer of batch %d came in between, looking again: %s", plan.flow, plan.batch, error)
    raise AssertionError("unreachable")


def _close(sinks: Mapping[str, Sink], plan: Plan) -> Closed:
    with ExitStack() as stack:
        fenced: dict[str, FencedPlan] = {}
        for name in (name for name in sinks if name in plan.sinks):
            with naming(name):
                at_sink = sinks[name].fence(plan)
            if at_sink is not None:
                stack.callback(at_sink.discard)
                fenced[name] = at_sink
        held = tuple(name for name, at_sink in fenced.items() if at_sink.held())
        for name, at_sink in fenced.items():
            with naming(name):
                if held:
                    at_sink.put_back()
                else:
                    at_sink.abandon()
    return Closed(held, {} if held else {name: plan.sinks[name].marks_after(plan.batch) for name in fenced})
