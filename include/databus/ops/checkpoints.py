"""Look at a flow's checkpoint, plan in flight and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from databus.core.checkpoint import Checkpoint, HistoryEntry
from databus.core.flow import Flow
from databus.core.plan import Plan
from databus.runtime.context import Services


@dataclass(frozen=True)
class CheckpointView:
    """What stands in the store for a flow.

    Attributes:
        flow: flow name.
        checkpoint: committed state, None before the first run.
        pending: plan in flight, None when the last one was committed.
    """

    flow: str
    checkpoint: Checkpoint | None
    pending: Plan | None


def show(flow: Flow, services: Services) -> CheckpointView:
    """Read the committed state and the plan in flight."""
    return CheckpointView(flow.name, services.store.load(flow.name), services.store.pending_plan(flow.name))


def history(flow: Flow, services: Services, last: int) -> Sequence[HistoryEntry]:
    """Return the newest entries, newest first."""
    return services.store.history(flow.name, last)
