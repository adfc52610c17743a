"""Look at a flow's checkpoint, plan in flight and history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from databus.core.flow import Flow
from databus.core.positions.gaps import OPEN, Gap
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

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        committed = self.checkpoint
        if committed is None:
            return {"flow": self.flow, "checkpoint": None, "note": "the flow has not run yet"}
        return {
            "flow": self.flow,
            "offset": committed.offset.to_json(),
            "gtids": getattr(committed.offset, "gtids", "") or None,
            "batch": committed.batch,
            "epoch": committed.epoch,
            "run": committed.run_id,
            "watermark": committed.watermark.isoformat() if committed.watermark else None,
            "updated_at": committed.updated_at.isoformat(),
            "last_counts": {table: c.figures for table, c in committed.counts.items()},
            "plan_in_flight": f"batch {self.pending.batch} {self.pending.range}" if self.pending else None,
            "paused": str(self.paused) if self.paused else None,
            **({"snapshot": self.snapshot.text} if self.snapshot else {}),
            "open_gaps": [str(gap) for gap in self.gaps if gap.decision == OPEN],
            "sinks_behind": {name: f"batch {own.batch} {own.offset}" for name, own in self.behind.items()},
            "pace": dict(committed.pace) or None,
            "outputs": {sink: dict(known) for sink, known in committed.output_ids.items()} or None,
        }


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
