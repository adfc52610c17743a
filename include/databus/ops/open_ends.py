"""Open a flow's source and sinks without Spark, for those who look or amend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.sink import Sink
from databus.core.protocols.source import Source
from databus.runtime.context import Services, open_ends


@dataclass(frozen=True)
class Ends:
    """Both ends of a flow, open.

    Attributes:
        source: open source.
        sinks: open sinks by name, in the flow's order.
    """

    source: Source
    sinks: Mapping[str, Sink]


@contextmanager
def opened_ends(flow: Flow, services: Services) -> Iterator[Ends]:
    """Open source and sinks; all are closed at the end.

    Raises:
        DatabusError: a connection is missing, a server refused or cannot be reached.
    """
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with ExitStack() as stack:
        yield Ends(*open_ends(stack, flow, services.connections, context))
