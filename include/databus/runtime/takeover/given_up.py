"""Plans that are given up: of a former definition of the flow, or whose chunks are lost; closed at every sink."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from databus.core.errors.checkpoint import PlanChangedError
from databus.core.protocols.sink import Sink
from databus.core.state.sink_markers import MarkedSink
from databus.runtime.takeover.closing import close_unwritten

if TYPE_CHECKING:
    from databus.core.errors.source import ChunkFileError
    from databus.core.state.checkpoint_store import Lease
    from databus.core.state.plan import Plan
    from databus.runtime.context import FlowSession

log = logging.getLogger(__name__)


def abandon(
    session: FlowSession, lease: Lease, pending: Plan, lost: ChunkFileError | None
) -> Mapping[str, tuple[int, ...]]:
    """Close the plan of a former definition, or whose chunks are lost; return what the markers hold afterwards.

    Raises:
        PlanChangedError: the flow changed, and a sink holds a part of the plan.
        ChunkFileError: the one given, where a sink holds a part of the plan, or nobody would read its chunks again.
    """
    if lost is not None and session.passed is not None:  # nobody reads these chunks again for a sink that is behind
        raise lost
    closed = close_unwritten(session.sinks, pending, lease)
    if closed.held and lost is not None:
        lost.message += f"; batch {pending.batch} is already in {', '.join(closed.held)}"
        raise lost
    if closed.held:
        raise PlanChangedError(
            f"flow {pending.flow} changed while batch {pending.batch} {pending.range} was half written "
            f"(already in: {', '.join(closed.held)})",
            hint="Put the former definition back until this batch is committed, then change the flow; "
            "or the former databus, where only that was changed.",
        )
    log.warning(
        "flow %s: batch %d %s %s and %s: planned anew",
        pending.flow,
        pending.batch,
        pending.range,
        f"cannot be finished ({lost.message})" if lost else "was planned under another definition",
        _not_held(session, pending),
    )
    return closed.slots


def _not_held(session: FlowSession, closed: Plan) -> str:
    """Say where nothing of a closed plan is, and where that is not known."""
    there = [name for name in sorted(closed.sinks) if name in session.sinks]
    unknown = [name for name in there if not _marked(session.sinks[name])]
    said = (
        [f"nothing of it is in {', '.join(n for n in there if n not in unknown)}"] if len(unknown) < len(there) else []
    )
    if unknown:
        said.append(f"{', '.join(unknown)} (without markers) may hold a part of it, which is sent again")
    return "; ".join(said) or "none of its sinks is the flow's any more"


def _marked(sink: Sink) -> bool:
    return isinstance(sink, MarkedSink) and sink.marked
