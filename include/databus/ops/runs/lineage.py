"""OpenLineage datasets of a flow and of its runs, with namespaces from the flow's connections."""

from __future__ import annotations

from databus.core.connections import ConnectionSource
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.records.lineage.datasets import Lineage, declared, namespace_of, recorded
from databus.records.lineage.run_columns import columns_of_run
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.records.summary import summarize


def declared_lineage(flow: Flow, connections: ConnectionSource) -> Lineage:
    """Return what a flow is declared to read and write."""
    outputs: dict[str, tuple[str, ...]] = {}
    for sink in flow.sinks:
        for space in _namespaces(sink.conn_ids(), connections):
            outputs[space] = (*outputs.get(space, ()), *sink.datasets())
    return declared(_source(flow, connections), flow.source.datasets(), outputs, flow.name)


def recorded_lineage(
    flow: Flow, connections: ConnectionSource, run_id: str, settings: Settings | None = None
) -> Lineage:
    """Return what a run's committed batches read and wrote; the declared datasets when there was nothing to move."""
    with RecordStore((settings or Settings.from_environment()).records_url) as records:
        return lineage_in(records, flow, connections, run_id)


def lineage_in(records: RecordStore, flow: Flow, connections: ConnectionSource, run_id: str) -> Lineage:
    """Return the same as `recorded_lineage`, from a records store that is open."""
    summary = summarize(flow.name, run_id, Reports(records).batches(flow.name, run_id))
    columns = columns_of_run(records, flow.name, run_id)
    sinks = {sink.sink_name: space for sink in flow.sinks for space in _namespaces(sink.conn_ids(), connections)}
    found = recorded(summary, _source(flow, connections), sinks, columns)
    if found.inputs:
        return found
    meant = declared_lineage(flow, connections)
    return Lineage(meant.inputs, meant.outputs, found.run_facets)


def _source(flow: Flow, connections: ConnectionSource) -> str:
    return next(iter(_namespaces(flow.source.conn_ids(), connections)), f"databus://{flow.source.kind}")


def _namespaces(pairs: tuple[tuple[str, str], ...], connections: ConnectionSource) -> list[str]:
    return [namespace_of(connections.get(conn_id)) for conn_id, _ in pairs[:1]]
