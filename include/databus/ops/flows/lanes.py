"""Lane that a flow takes, in words: by its definition alone, or by the tables of its source as they are now."""

from __future__ import annotations

from contextlib import closing

from databus.core.connections import ConnectionSource
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_source import DefinedSource
from databus.core.settings import Settings
from databus.runtime.check import row_checks
from databus.runtime.direct.reasons import refusal, table_lanes
from databus.runtime.tables.sink_views import transforms_anywhere

ALL = "*"
"""Name that stands for all tables of a flow."""


def lane_of(flow: Flow) -> str:
    """Return a flow's lane as far as its definition says it."""
    reason = refusal(flow)
    if reason:
        return f"Spark, because {reason}"
    told = table_lanes(flow, ())
    if told:
        return str(told[0])
    alone = [transform.label() for transform in transforms_anywhere(flow) if not transform.compilable()]
    if alone:
        together = any(spec.needs_transactions() for spec in flow.sinks)
        which = "batches with rows of the tables" if together else "the tables"
        return f"direct, but for {which} of {', '.join(alone)} (databus plan, or --connect, says which)"
    if row_checks(flow) or not all(spec.by_table for spec in transforms_anywhere(flow)):
        return "direct, where the types of a table's columns allow it (databus plan, or --connect, says where)"
    return "direct"


def lanes_now(flow: Flow, connections: ConnectionSource) -> dict[str, str]:
    """Return `database.table` → its lane in words, of the tables that a flow's source has now; `ALL` for all of them.

    A batch whose tables differ takes both lanes. A source that does not tell its tables says what the
    definition says.

    Args:
        flow: the flow.
        connections: where its source's connection is found.

    Raises:
        DatabusError: the source does not answer, or a transform or check does not fit its tables.
    """
    source = flow.source.open(connections, FlowContext(flow.name, Settings.from_environment()))
    with closing(source):
        if not isinstance(source, DefinedSource):
            return {ALL: lane_of(flow)}
        tables = source.tables_now().captured
    return {lane.table or ALL: str(lane) for lane in table_lanes(flow, tables)}
