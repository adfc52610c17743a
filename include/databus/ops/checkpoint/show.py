"""Look at a flow's checkpoint, plan in flight and history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from databus.core.flow import Flow
from databus.core.positions.gaps import Gap
from databus.core.state.amendments import Pause
from databus.core.state.checkpoint import Checkpoint, HistoryEntry
from databus.core.state.plan import Plan
from databus.core.state.snapshot_progress import SnapshotProgress, progress_of
from databus.runtime.context import Services

_NAMED = 5


@dataclass(frozen=True)
class CheckpointView:
    """Checkpoint view of a flow, as stored.

    Attributes:
        flow: flow name.
        checkpoint: committed state, None before the first run.
        pending: plan in flight, None when the last one was committed.
        paused: who paused the flow, None while it may run.
        gaps: the flow's named gaps.
        behind: sink that fell behind → its own checkpoint; the flow as a whole stands at the least of all.
        snapshot: how far an unfinished snapshot has come; None without one.
    """

    flow: str
    checkpoint: Checkpoint | None
    pending: Plan | None
    paused: Pause | None = None
    gaps: tuple[Gap, ...] = ()
    behind: Mapping[str, Checkpoint] = field(default_factory=dict)
    snapshot: SnapshotProgress | None = None


def show(flow: Flow, services: Services) -> CheckpointView:
    """Read the committed state and the plan in flight."""
    store = services.store
    own = {name: store.of_sink(name).load(flow.name) for name in store.sinks_behind(flow.name)}
    behind = {name: checkpoint for name, checkpoint in own.items() if checkpoint is not None}
    found = store.snapshot(flow.name)
    return CheckpointView(
        flow.name,
        store.load(flow.name),
        store.pending_plan(flow.name),
        store.paused(flow.name),
        tuple(store.gaps(flow.name)),
        behind,
        progress_of(found, services.clock.now()) if found is not None and found.unfinished else None,
    )


def history(flow: Flow, services: Services, last: int) -> Sequence[HistoryEntry]:
    """Return the newest entries, newest first."""
    return services.store.history(flow.name, last)


def why_of(entry: HistoryEntry) -> str:
    """Return the reason of an entry, and which outputs were accepted with it: the first of each sink, and a count."""
    replaced = entry.replaced.outputs if entry.replaced is not None else {}
    named = (f"{sink}: {_listed(outputs)}" for sink, outputs in sorted(replaced.items()))
    return "; ".join(part for part in (entry.why, *named) if part)


def _listed(outputs: Mapping[str, str | None]) -> str:
    told = [f"{name} {'deleted' if id_ is None else 'made anew'}" for name, id_ in sorted(outputs.items())[:_NAMED]]
    return ", ".join(told) + (f" and {len(outputs) - _NAMED} more" if len(outputs) > _NAMED else "")
