"""Trace view for its page: journeys through the flows that a person may see, and the rows that sinks hold of them."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.core.trace import ImageSink, RowImages, TraceNotRecordedError
from databus.ops.flows.flow_view import readable
from databus.ops.trace.flow import FlowTrace
from databus.ops.trace.follow import trace
from databus.ops.trace.journey import lines
from databus.ops.trace.query import Kind, recognise
from databus.ops.trace.steps import steps_json
from databus.records.definitions import Definition, newest_definitions
from databus.records.outputs import masked_fields
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.store import RecordStore

_LONGEST = 2_000
_MOST_COLUMNS = 1_000
_MOST_JOURNEYS = 50
_NAMED = 10


@dataclass(frozen=True)
class TraceAsked:
    """Trace that is asked for.

    Attributes:
        text: as `databus trace` takes it.
        table: only changes of this `database.table`, "" for any.
        kind: which kind of thing the text is, "" by its form.
        flow: name of the only flow that is searched, "" for all.
        site: connection of the Kafka cluster that holds a record, "" for any.
        lines: whether each journey is told in lines too.
    """

    text: str
    table: str = ""
    kind: str = ""
    flow: str = ""
    site: str = ""
    lines: bool = False


class TracePage:
    """Answers of the page of traces.

    Args:
        connections: where servers are.
        settings: the installation's.
    """

    def __init__(self, connections: ConnectionSource, settings: Settings) -> None:
        self._where = connections, settings

    def trace(self, asked: TraceAsked, dags: Collection[str]) -> dict[str, Any]:
        """Return plain JSON of what a text asks for.

        Args:
            asked: what is asked for.
            dags: ids of the DAGs that the person may see: only their flows are looked through and shown.

        Raises:
            TraceError: nothing is found, or it cannot be followed.
            ConfigError: there is no flow of the name that was given.
            RecordingError: the records cannot be read.
        """
        began = time.monotonic()
        text = asked.text
        query = recognise(text, Kind(asked.kind) if asked.kind else None)
        flows, unread = self._flows(dags)
        chosen = [flow for name, flow in flows.items() if asked.flow in ("", name)]
        looked = {"flows": sorted(flows), "not_readable": sorted(unread)}
        try:
            if flows and not chosen:
                names = ", ".join(sorted(flows)[:_NAMED])
                raise ConfigError(f"no flow {asked.flow!r}", hint=f"Known: {names}.", code="flow_unknown")
            beside = flows.values()
            found = trace(query, chosen, self._where, asked.table, beside=beside, site=asked.site) if flows else []
            if not flows:
                raise TraceNotRecordedError(
                    f"no flow that you may see could hold {text}: none has recorded its definition yet",
                    hint="A flow is looked through from its first batch under this version on.",
                )
        except DatabusError as error:
            error.looked_through = looked  # type: ignore[attr-defined]
            raise
        dag_ids = {name: known.dag_id for name, known in self._known.items()}
        shown = found[:_MOST_JOURNEYS]
        return {
            "kind": str(query.kind),
            "what": query.text,
            "seconds": round(time.monotonic() - began, 3),
            "looked_through": looked,
            "more": len(found) - len(shown),
            "journeys": [
                {
                    **journey.to_json(),
                    "dag_id": dag_ids.get(journey.flow, ""),
                    "steps": steps_json(journey),
                    **({"lines": [list(line) for line in lines(journey)]} if asked.lines else {}),
                }
                for journey in shown
            ],
        }

    def images(self, dag_id: str, sink: str, place: str) -> dict[str, Any]:
        """Return plain JSON of the row that a sink of a DAG's flow holds at a place that this flow wrote.

        Raises:
            TraceError: the flow did not write there, or nothing stands there any more.
            RecordingError: the records cannot be read.
        """
        flows, _ = self._flows({dag_id})
        for flow in flows.values():
            if any(spec.sink_name == sink for spec in flow.sinks):
                return self._images(flow, sink, place)
        raise TraceNotRecordedError(f"DAG {dag_id} runs no flow with a sink {sink!r}", hint="Trace it anew.")

    def _images(self, flow: Flow, sink: str, place: str) -> dict[str, Any]:
        connections, settings = self._where
        with RecordReader(settings.records_url) as reader:
            provenance = Provenance(reader)
            if "/" in place:
                wrote = place.partition("/")[0] in provenance.outputs(flow.name).get(sink, set())
            else:
                with FlowTrace(flow, connections, settings, provenance) as traced:
                    wrote = sink in traced.sinks_at(place)  # refuses what no sink wrote
        if not wrote:
            raise TraceNotRecordedError(f"flow {flow.name}: no recorded batch wrote {place} by sink {sink}")
        spec = next(spec for spec in flow.sinks if spec.sink_name == sink)
        opened = spec.tracing(connections)
        if opened is None or not isinstance(opened, ImageSink):
            return _shown(RowImages(note="this sink shows no rows"), {})
        try:
            found, table = opened.images(place), opened.sighting(place).change.table
        finally:
            opened.close()
        with RecordStore(settings.records_url) as store:
            return _shown(found, masked_fields(store, flow.name, table, sink))

    def _flows(self, dags: Collection[str]) -> tuple[dict[str, Flow], set[str]]:
        """Return the flows of DAGs by name, and the names of those whose definition cannot be read here."""
        with RecordStore(self._where[1].records_url) as store:
            found = [known for known in newest_definitions(store) if known.dag_id in dags]
        self._known: dict[str, Definition] = {known.flow: known for known in found}
        flows = {known.flow: readable(known) for known in found}
        read = {name: flow for name, flow in flows.items() if flow is not None}
        return read, flows.keys() - read.keys()


def _shown(images: RowImages, masked: Mapping[str, str]) -> dict[str, Any]:
    """Return images as text: JSON numbers as they are written, long values cut."""
    return {
        "before": images.before and _row(images.before),
        "after": images.after and _row(images.after),
        "masked": dict(masked),
        "note": images.note,
    }


def _row(row: Mapping[str, Any]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, value in list(row.items())[:_MOST_COLUMNS]:
        if value is None:
            found[name] = None
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        more = f"… ({len(text):,} characters)" if len(text) > _LONGEST else ""
        found[name] = text[:_LONGEST] + more
    return found
