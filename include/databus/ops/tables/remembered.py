"""Memory of a flow's earlier runs about its tables: what it found there once, and what it and its sinks hid."""

from __future__ import annotations

from collections.abc import Mapping

from databus.core.flow import Flow
from databus.core.tables.hidden_columns import RememberedHidden
from databus.ops.tables.wants import wants_of
from databus.runtime.context import Services


def accepted_of(flow: Flow, services: Services) -> frozenset[str]:
    """Return the wants of a flow that are not refused any more; all of them for one that ran before these were kept."""
    accepted = services.accepted.load(flow.name) if services.accepted is not None else None
    if accepted is None and services.store.load(flow.name) is not None:
        return wants_of(flow)
    return accepted or frozenset()


def remembered_of(flow: Flow, services: Services) -> RememberedHidden:
    """Return what a flow remembers of the columns that its transforms hide."""
    return services.hidden_columns.load(flow.name) if services.hidden_columns is not None else RememberedHidden()


def remembered_of_sinks(flow: Flow, services: Services) -> Mapping[str, RememberedHidden]:
    """Return sink → what is remembered of the columns that its transforms hide, of each that has some of its own."""
    hidden = services.hidden_columns
    own = [spec.sink_name for spec in flow.sinks if spec.transforms]
    return {sink: hidden.of_sink(sink).load(flow.name) for sink in own} if hidden is not None else {}
