"""Sink `noop`: counts rows and drops them, for measuring the path without a server."""

from __future__ import annotations

from typing import ClassVar

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, SinkSpec
from databus.core.protocols.sink import Sink


class Noop(SinkSpec):
    """Rows are counted and dropped."""

    kind: ClassVar[str] = "noop"
    direct: ClassVar[bool] = True

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:  # noqa: ARG002 - no connection
        """Return the open sink."""
        from databus.sinks.markerless import UnmarkedSink

        return UnmarkedSink(self.sink_name)
