"""Measure how far flows are behind their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from databus.core.checkpoint import HistoryEntry
from databus.core.flow import Flow, FlowContext
from databus.core.lag import Headroom, Lag, eta_s
from databus.core.offsets import Offset, Ordering
from databus.runtime.context import Services


@dataclass(frozen=True)
class FlowLag:
    """A flow's lag.

    Attributes:
        flow: flow name.
        committed: committed offset in text form, None before the first run.
        lag: distance to the head, None before the first run.
        headroom: distance to what the source's server deletes, None before the first run or where nothing is deleted.
        eta_s: seconds in which the flow is at the head at the rate of its last batches, None when unknown.
    """

    flow: str
    committed: str | None
    lag: Lag | None
    headroom: Headroom | None
    eta_s: float | None = None


def measure(flow: Flow, services: Services) -> FlowLag:
    """Compare the committed offset, that of the sink furthest behind, with the head of the source's log.

    Raises:
        SourceUnavailableError: the source does not answer.
    """
    checkpoint = services.store.load(flow.name)
    if checkpoint is None:
        return FlowLag(flow.name, None, None, None)
    source = flow.source.open(services.connections, FlowContext(flow.name, services.settings, services.server_ids))
    try:
        own = (services.store.of_sink(name).load(flow.name) for name in services.store.sinks_behind(flow.name))
        offset = reduce(_earlier, (at.offset for at in own if at is not None), checkpoint.offset)
        lag = source.lag(offset)
        eta = eta_s(lag.bytes, *_recent(services.store.history(flow.name, _BATCHES + 1)))
        return FlowLag(flow.name, str(offset), lag, source.headroom(offset), eta)
    finally:
        source.close()


_BATCHES = 20
"""Batches whose rate counts."""


def _recent(history: Sequence[HistoryEntry]) -> tuple[int, float]:
    """Return log bytes of the last batches and the seconds from commit to commit; history is newest first."""
    moved, seconds = 0, 0.0
    for entry, before in pairwise(history):
        if entry.action == "commit" and before.action in {"commit", "start"} and entry.bytes:
            moved += entry.bytes
            seconds += (entry.at - before.at).total_seconds()
    return moved, seconds


def _earlier(one: Offset, other: Offset) -> Offset:
    return other if other.compare(one) is Ordering.BEFORE else one
