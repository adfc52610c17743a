"""Sink `console`: rows as JSON lines on the standard output of the process that runs the flow."""

from __future__ import annotations

import json
import sys
from typing import Any, ClassVar

from pydantic import Field

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, SinkSpec
from databus.core.protocols.sink import Sink


class Console(SinkSpec):
    """JSON lines on standard output; at least once, a retried batch is printed again. Workers on the same machine only.

    Attributes:
        limit: rows printed per batch at most, e.g. 5; all are counted. Default 20.
    """

    kind: ClassVar[str] = "console"
    direct: ClassVar[bool] = True

    limit: int = Field(20, ge=0)

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:  # noqa: ARG002 - no connection
        """Open the mailbox that the workers deliver to."""
        from databus.sinks.markerless import UnmarkedSink

        return UnmarkedSink(self.sink_name, _print, self.limit)

    def datasets(self) -> tuple[str, ...]:
        """Return the standard output."""
        return ("stdout",)


def _print(batch: int, slot: int, rows: list[dict[str, Any]]) -> None:  # noqa: ARG001 - a mailbox's delivery
    for row in rows:
        # The envelope's text is passed on as it is: parsing it would round its numbers.
        sys.stdout.write(f'{{"batch":{batch},"route":{json.dumps(row["route"])},"value":{row["value"]}}}\n')
    sys.stdout.flush()
