"""Look at a flow's checkpoint, plan in flight and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from databus.core.amendments import Pause
from databus.core.checkpoint import Checkpoint, HistoryEntry
from databus.core.flow import Flow
from databus.core.gaps import Gap
from databus.core.plan import Plan
from databus.runtime.context import Services


@dataclass(frozen=True)
class CheckpointView:
    """What stands in the store for a flow.

    Attributes:
        flow: flow name.
        checkpoint: committed state, None before the first run.
        pending: plan in flight, None when the last one was committed.
        paused: who paused the flow, None while it may run.
        gaps: the flow's named gaps.
    """

    flow: str
    checkpoint: Checkpoint | None
    pending: Plan | None
    paused: Pause | None
    gaps: tuple[Gap, ...]


def show(flow: Flow, services: Services) -> CheckpointView:
    """Read the committed state and the plan in flight."""
    store, name = services.store, flow.name
    return CheckpointView(name, store.load(name), store.pending_plan(name), store.paused(name), tuple(store.gaps(name)))


def history(flow: Flow, services: Services, last: int) -> Sequence[HistoryEntry]:
    """Return the newest entries, newest first."""
    return services.store.history(flow.name, last)
