"""Assets: what a flow writes, as things that downstream DAGs wait for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.sdk import Asset, AssetAlias

from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.state.backfill import dag_name

log = logging.getLogger(__name__)


def output_asset(conn_id: str, output: str) -> Asset:
    """Return the asset of one output, for `schedule=[output_asset("kafka_east", "cdc.orders")]` of a downstream DAG.

    Args:
        conn_id: the sink's connection, or the sink's name where it has none.
        output: topic, index or table.
    """
    return Asset(name=f"{conn_id}:{output}", uri=f"databus://{conn_id}/{output}", group="databus")


def outputs_alias(flow: Flow) -> AssetAlias:
    """Return the alias through which a flow's runs name the outputs that they wrote; names may hold a table's name."""
    return AssetAlias(name=f"databus:{flow.name}", group="databus")


def emit(flow: Flow, records_url: str, run_id: str, started: datetime | None, outlet_events: Any) -> int:
    """Add an event for each output that the run wrote rows to, and for those of earlier runs that were never audited.

    Args:
        flow: the flow.
        records_url: where the batch reports are.
        run_id: the run.
        started: when it started; batches that others committed after it are theirs to report.
        outlet_events: of the task's context; the alias is among the task's outlets.

    Returns:
        The number of events.
    """
    from databus.records.outputs import written_outputs
    from databus.records.store import RecordStore

    with RecordStore(records_url) as store:
        written = written_outputs(store, flow.name, run_id, started)
    return _add(flow, written, run_id, outlet_events)


def emit_backfilled(flow: Flow, records_url: str, run_id: str, outlet_events: Any) -> int:
    """Add an event for each output that a run of the flow's backfill DAG wrote rows to: live ones, or those beside.

    Args:
        flow: the flow.
        records_url: where the batch reports are.
        run_id: the backfill's run.
        outlet_events: of the task's context; the alias is among the task's outlets.

    Returns:
        The number of events.
    """
    from databus.records.outputs import moved_outputs
    from databus.records.store import RecordStore

    with RecordStore(records_url) as store:
        written = moved_outputs(store, dag_name(flow.name), run_id)
    return _add(flow, written, run_id, outlet_events)


def _add(flow: Flow, written: Mapping[tuple[str, str], int], run_id: str, outlet_events: Any) -> int:
    specs = {spec.sink_name: spec for spec in flow.sinks}
    events = outlet_events[outputs_alias(flow)]
    for (sink, output), rows in sorted(written.items()):
        asset = output_asset(_conn_id(specs.get(sink), sink), output)
        events.add(asset, extra={"flow": flow.name, "sink": sink, "rows": rows, "run_id": run_id})
        log.info("asset %s: %d records", asset.uri, rows)
    return len(written)


def _conn_id(spec: SinkSpec | None, sink: str) -> str:
    pairs = spec.conn_ids() if spec is not None else ()
    return pairs[0][0] if pairs else sink
