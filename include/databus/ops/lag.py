"""Measure how far flows are behind their sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from databus.core.flow import Flow, FlowContext
from databus.core.lag import Headroom, Lag
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
    """

    flow: str
    committed: str | None
    lag: Lag | None
    headroom: Headroom | None


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
        return FlowLag(flow.name, str(offset), source.lag(offset), source.headroom(offset))
    finally:
        source.close()


def _earlier(one: Offset, other: Offset) -> Offset:
    return other if other.compare(one) is Ordering.BEFORE else one
