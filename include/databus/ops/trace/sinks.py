"""Sink tracing: what the sinks of a flow show of a change; each is opened when it is asked first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.trace import Change, ChangeSelector, Sighting, TraceableSink, TraceError
from databus.ops.trace.batches import number_of
from databus.records.batch_record import BatchRecord


class TracedSinks:
    """The sinks of one flow.

    Args:
        flow: the flow.
        connections: where its servers are.
    """

    def __init__(self, flow: Flow, connections: ConnectionSource) -> None:
        self._flow, self._connections = flow, connections
        self._specs = {spec.sink_name: spec for spec in flow.sinks}
        self._stack = ExitStack()
        self._open: dict[str, TraceableSink | None] = {}

    def close(self) -> None:
        """Close those that were opened; safe to call twice."""
        self._stack.close()
        self._open.clear()

    def is_kafka(self, name: str) -> bool:
        """Return whether a sink's outputs are topics of rows."""
        return name in self._specs and self._specs[name].kind == "kafka"

    def conn_id(self, name: str) -> str:
        """Return the connection of a sink; "" where it has none, or the flow has it no more."""
        return next((conn_id for conn_id, _ in self._specs[name].conn_ids()), "") if name in self._specs else ""

    def known(self, name: str) -> TraceableSink | None:
        """Return what shows records of a sink; None where nothing does, or the flow has it no more."""
        if name not in self._open:
            spec = self._specs.get(name)
            opened = spec.tracing(self._connections) if spec is not None else None
            if opened is not None:
                self._stack.callback(opened.close)
            self._open[name] = opened
        return self._open[name]

    def reader(self, name: str) -> TraceableSink:
        """Return what shows records of a sink.

        Raises:
            TraceError: nothing does, or the flow has it no more.
        """
        found = self.known(name)
        if found is None:
            raise TraceError(
                f"flow {self._flow.name}: sink {name} is not in the flow any more, or cannot show single records"
            )
        return found

    def seen(self, batches: Sequence[BatchRecord], selector: ChangeSelector, notes: list[str]) -> list[Sighting]:
        """Return what batches wrote of the selected changes; what could not be looked at is added to the notes."""
        found: list[Sighting] = []
        for batch in batches:
            for name, outputs in _outputs([batch]).items():
                sink = self.known(name)
                if sink is None:
                    continue
                try:
                    found += sink.sightings(outputs, selector)
                except DatabusError as error:
                    notes.append(error.message)
        return list({(s.sink, s.place): s for s in found}.values())

    def documents(self, change: Change, batches: Sequence[BatchRecord], told: set[str]) -> list[Sighting]:
        """Return the documents of a change's key, which became known on the way, in sinks that found nothing yet."""
        if change.key is None:
            return []
        selector = ChangeSelector(key=change.key, table=change.table)
        found: list[Sighting] = []
        for name, sink, outputs in self._of_documents(batches):
            if name not in told:
                found += sink.sightings(outputs, selector)
        return found

    def expect(self, batches: Sequence[BatchRecord], changes: Sequence[Change]) -> None:
        """Let sinks read at once what `documents` will be asked of them change by change."""
        rows = [(change.key, change.table) for change in changes if change.key is not None]
        for _, sink, outputs in self._of_documents(batches) if rows else ():
            sink.expect(outputs, rows)

    def _of_documents(self, batches: Sequence[BatchRecord]) -> Iterable[tuple[str, TraceableSink, Mapping[str, Any]]]:
        for name, outputs in _outputs(batches).items():
            sink = self.known(name)
            if sink is not None and not self.is_kafka(name):
                yield name, sink, outputs


def _outputs(batches: Iterable[BatchRecord]) -> dict[str, dict[str, Any]]:
    """Return sink → outputs of all its receipts."""
    found: dict[str, dict[str, Any]] = {}
    for batch in batches:
        for receipt in batch.receipts:
            found.setdefault(receipt["sink"], {}).update({k: v for k, v in receipt["outputs"].items() if k})
    return found


def selector_for(change: Change) -> ChangeSelector:
    """Return what finds a change again: its id, else what is known of it."""
    ids = frozenset({change.event_id}) if change.event_id else frozenset[str]()
    return ChangeSelector(ids, change.gtid, change.file, change.position, change.key, change.table)


def judged(sighting: Sighting, change: Change) -> Sighting:
    """Say whether a document shows this change or another one."""
    theirs, mine = number_of(sighting.change), number_of(change)
    if sighting.kind != "document" or theirs is None or mine is None:
        return sighting
    if theirs == mine:
        return replace(sighting, state="shows this change")
    age = "a newer" if theirs > mine else "an older"
    return replace(sighting, state=f"shows {age} change: {sighting.state}")
