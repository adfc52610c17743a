"""Follow one change both ways within a flow: source position ↔ batch and run ↔ Kafka record, document.

No row is kept per change. Batches are found by ranges of the log and of offsets (`records.ranges`); then a few records
of the sinks are read, or one range of the log (ADR 25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.errors.source import SourceError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.core.trace import (
    Change,
    ChangeSelector,
    RecordPlace,
    Sighting,
    TraceExpiredError,
    TraceLogPurgedError,
    TraceNotRecordedError,
    chunk_of,
    in_log,
    log_of,
    of_event_id,
    row_of_copy,
)
from databus.ops.trace.batches import BatchFinder, by_log, generation_of
from databus.ops.trace.journey import Journey
from databus.ops.trace.query import Kind, Query
from databus.ops.trace.sinks import TracedSinks, judged, selector_for
from databus.records.batch_record import BatchRecord
from databus.records.provenance import Provenance
from databus.sources.mock.spec import LOG_FILE as MOCK_FILE
from databus.sources.mock.spec import Mock

_WHICH_LOG = "of log {}; log {} had the same GTID or place for other changes: each log replaced the one before"
_DOCUMENTS = 50
"""Changes of one transaction that are compared with a document's id."""


class FlowTrace:
    """Traces within one flow; opens sinks when they are needed and closes them at the end.

    Args:
        flow: the flow.
        connections: where its servers are.
        settings: the installation's.
        provenance: the records.
        table: only changes of this `database.table`, "" for any.
    """

    def __init__(
        self, flow: Flow, connections: ConnectionSource, settings: Settings, provenance: Provenance, table: str = ""
    ) -> None:
        self.flow, self.table, self.provenance = flow, table, provenance
        self._connections, self._settings = connections, settings
        self._finder = BatchFinder(flow.name, provenance, MOCK_FILE if isinstance(flow.source, Mock) else "")
        self._sinks = TracedSinks(flow, connections)
        self._held: dict[str, list[dict[str, Any]]] = {}
        self._logs: dict[tuple[object, ...], list[Change] | SourceError] = {}

    def __enter__(self) -> FlowTrace:
        return self

    def __exit__(self, *_: object) -> None:
        self._sinks.close()

    def follow(self, query: Query) -> list[Journey]:
        """Return the journeys of what is asked for; of a record, see `record`.

        Raises:
            TraceError: it cannot be followed, and why.
        """
        if query.kind is Kind.DOCUMENT:
            return self._of_document(query.text)
        if query.kind is Kind.KEY:
            return self._of_key(query.text)
        return self._of_log(query)

    def wrote(self, place: str) -> list[str]:
        """Return the connections of the Kafka clusters on which the flow wrote "topic:partition:offset".

        Raises:
            TraceNotRecordedError: no recorded batch did.
        """
        return list(dict.fromkeys(self._sinks.conn_id(sink) for sink in self._writers(place)[1]))

    def sinks_at(self, place: str) -> list[str]:
        """Return the sinks that wrote "topic:partition:offset". Raises TraceNotRecordedError: no recorded batch did."""
        return self._writers(place)[1]

    def record(
        self, record: RecordPlace, is_there: Callable[[str], bool], copy: Callable[[], Sighting | None]
    ) -> Journey:
        """Return the journey of the change that a record of a Kafka cluster carries.

        Args:
            record: where it stands.
            is_there: returns whether a connection leads to that cluster.
            copy: finds a copy of the record on another one; asked where it is not kept any more.

        Raises:
            TraceNotRecordedError: no recorded batch wrote it there.
            TraceExpiredError: it is not kept, and no copy is.
        """
        place = str(record)
        batches, sinks = self._writers(place)
        sink = next((name for name in sinks if is_there(self._sinks.conn_id(name))), None)
        if sink is None:
            raise self._finder.not_written(place)
        try:
            sighting = self._sinks.reader(sink).sighting(place)
        except TraceExpiredError as error:
            kept = copy()
            if kept is None or not self._in(batches, kept.change):
                told = "; ".join(
                    f"batch {b.batch} of run {b.run_id} wrote it, from {b.start} to {b.end}" for b in batches
                )
                raise TraceExpiredError(f"{error.message}. By the records, {told}", hint=error.hint) from None
            site = self._sinks.conn_id(sink)
            sighting = replace(kept, sink=sink, place=place, site=site, at_ms=None, state="not kept there any more")
        return self._around(sighting, batches)

    def _in(self, batches: Sequence[BatchRecord], change: Change) -> bool:
        """Return whether one of some batches may have moved a change: by the records, as far as they go."""
        found = self._finder.read(change)
        return not found or any(batch.plan_hash == other.plan_hash for batch in batches for other in found)

    def _writers(self, place: str) -> tuple[list[BatchRecord], list[str]]:
        """Return the batches that wrote to a place of a topic, and by which sinks."""
        batches = self._finder.wrote(place)
        output = "{}[{}]".format(*place.rsplit(":", 2)[:2])
        return batches, list(dict.fromkeys(r["sink"] for b in batches for r in b.receipts if output in r["outputs"]))

    def _of_document(self, place: str) -> list[Journey]:
        index = place.partition("/")[0]
        outputs = self.provenance.outputs(self.flow.name)
        names = [name for name, written in outputs.items() if index in written]
        if not names:
            raise TraceNotRecordedError(f"flow {self.flow.name}: none of its newest batches wrote to an index {index}")
        found = []
        for name in names:
            sink = self._sinks.reader(name)
            sighting = sink.sighting(place)
            notes: list[str] = []
            batches = self._finder.read(sighting.change)
            others = self._sinks.seen(batches, selector_for(sighting.change), notes)
            rows = [s.change for s in others]
            if batches and not rows:
                rows = self._rows(batches[0], sighting.change, notes) or []
            rows = list(dict.fromkeys(rows))[:_DOCUMENTS]
            sink.expect([index], [(row.key, row.table) for row in rows if row.key is not None])
            for row in rows:
                same = ChangeSelector(key=row.key, table=row.table)
                if row.key is not None and any(s.place == place for s in sink.sightings({index: {}}, same)):
                    sighting = replace(sighting, change=row)
            found.append(self._around(sighting, batches))
        return found

    def _of_key(self, key: str) -> list[Journey]:
        outputs = self.provenance.outputs(self.flow.name)
        found: list[Sighting] = []
        problems: list[DatabusError] = []
        # A document is found by its id at once: topics are looked through only where no search sink finds it.
        for name in sorted(outputs, key=self._sinks.is_kafka):
            sink = self._sinks.known(name)
            if sink is None or (found and self._sinks.is_kafka(name)):
                continue
            try:
                found += sink.newest(sorted(outputs[name]), key, self.table)
            except DatabusError as error:
                problems.append(error)
        if not found:
            raise (
                problems[0]
                if problems
                else TraceNotRecordedError(
                    f"flow {self.flow.name}: no sink shows a change of {key}",
                    hint="Write its columns in key order, with the values as in the table; or the row was deleted.",
                )
            )
        asked = Change(key=key, table=self.table)
        return [self._around(replace(seen, change=seen.change.plus(asked)), []) for seen in found]

    def _of_log(self, query: Query) -> list[Journey]:
        told = of_event_id(query.text)
        if query.kind is Kind.GTID:
            told = Change(gtid=query.text)
        elif query.kind is Kind.POSITION:
            file, _, position = query.text.rpartition(":")
            told = Change(file=file, position=int(position))
        asked = log_of(told.event_id) if told.event_id else None
        of_chunk = chunk_of(told.event_id) is not None
        logs = by_log(self._finder.read(told if of_chunk else replace(told, event_id="")), asked or 0)
        if not logs or (asked is not None and asked not in logs):
            raise self._finder.not_recorded(query.text, told)
        found: list[Journey] = []
        problems: list[DatabusError] = []
        # What the id says comes first, then the log that is there, then those that it replaced.
        for generation in sorted(logs, key=lambda generation: (generation != asked, -generation)):
            others = ", ".join(str(other) for other in sorted(logs) if other != generation)
            notes = [_WHICH_LOG.format(generation, others)] if others else []
            same = replace(told, event_id=in_log(told.event_id, generation))
            try:
                found += self._in_log(query.text, same, logs[generation], notes)
            except TraceLogPurgedError as error:
                problems.append(error)
                found.append(Journey(self.flow.name, same, tuple(logs[generation]), (), (*notes, error.message)))
            if not found and generation == asked:
                return []  # its transaction has no such change
        if len(problems) == len(logs) == 1:
            raise problems[0]
        return found

    def _in_log(self, text: str, told: Change, batches: Sequence[BatchRecord], notes: list[str]) -> list[Journey]:
        """Return the journeys of the changes of one log that are asked for."""
        generation = generation_of(batches[0])
        groups: dict[str, list[Sighting]] = {}
        for sighting in self._sinks.seen(batches, replace(selector_for(told), table=self.table), notes):
            seen = sighting.change.event_id
            if not seen or generation in (None, log_of(seen)):
                groups.setdefault(seen, []).append(sighting)
        if groups:
            self._look_ahead(batches, [seen[0].change for seen in groups.values()])
            return [self._journey(seen[0].change, batches, seen, notes) for seen in groups.values()]
        if chunk_of(told.event_id) is not None:
            return [self._journey(told, batches, [], notes)]
        rows = self._rows(batches[0], told, notes)
        if rows is None:
            raise TraceLogPurgedError(
                f"flow {self.flow.name}: batch {batches[0].batch} of run {batches[0].run_id} read {text} between "
                f"{batches[0].start} and {batches[0].end}, but neither a sink nor the log shows it: {'; '.join(notes)}",
                hint="Segments that are kept longer let a trace reach further back than the server's log.",
            )
        # The position was inside of a transaction: its end and ids are from the log.
        return [self._around(Sighting("", "", "", row), batches, notes) for row in rows]

    def _around(self, sighting: Sighting, batches: Sequence[BatchRecord], notes: Sequence[str] = ()) -> Journey:
        """Look for a change that was seen in one place in all others."""
        change, told = sighting.change, list(notes)
        batches = self._finder.read(change) or batches
        at = sighting.sink, sighting.place
        others = [s for s in self._sinks.seen(batches, selector_for(change), told) if (s.sink, s.place) != at]
        return self._journey(change, batches, [sighting, *others] if sighting.place else others, told)

    def _journey(
        self, change: Change, batches: Sequence[BatchRecord], seen: Sequence[Sighting], notes: Sequence[str]
    ) -> Journey:
        """Complete what is known of a change, and say what became of it."""
        told, asked = list(notes), change
        change = replace(change, file="") if change.file.startswith(".") else change
        for sighting in seen:
            if not sighting.change.file.startswith("."):
                change = change.plus(sighting.change)
        if chunk_of(change.event_id) is not None:
            told.append("a snapshot read it: no event of the log has it")
        elif batches and not (change.event_id and change.file):
            rows = self._rows(batches[0], asked.plus(change), told) or []
            of_row = row_of_copy(change.event_id)
            rows = [r for r in rows if of_row == r.event_id or (not of_row and change.key in (None, r.key))]
            change = change.plus(rows[-1]) if rows else change
        seen = [*seen, *self._sinks.documents(change, batches, {s.sink for s in seen})]
        if change.event_id:
            ids = dict.fromkeys((row_of_copy(change.event_id), change.event_id))
            found = self._held_back(list(ids))
            held = [row for event_id in ids for row in found[event_id]]
            told += [f"held back by {row['stage']}: {row['cause']} (quarantine, batch {row['batch']})" for row in held]
            if not seen and not held and batches:
                told.append("no sink shows it: it was filtered, or is not kept there any more")
        if not batches:
            told.append("no recorded batch read it: something else wrote it, or the report is not stored yet")
        shown = tuple(judged(sighting, change) for sighting in seen)
        return Journey(self.flow.name, change, tuple(batches), shown, tuple(dict.fromkeys(told)))

    def _look_ahead(self, batches: Sequence[BatchRecord], changes: Sequence[Change]) -> None:
        """Read at once what the journeys of a transaction's changes will ask for one by one."""
        self._held_back([change.event_id for change in changes if change.event_id])
        self._sinks.expect(batches, changes)

    def _held_back(self, event_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return event id → what the quarantine holds of it."""
        unknown = [event_id for event_id in event_ids if event_id not in self._held]
        for row in self.provenance.held(self.flow.name, unknown) if unknown else ():
            self._held.setdefault(row["event_id"], []).append(row)
        self._held |= {event_id: [] for event_id in unknown if event_id not in self._held}
        return self._held

    def _rows(self, batch: BatchRecord, wanted: Change, notes: list[str]) -> list[Change] | None:
        """Return the changes of a transaction from the log; None when the log is gone."""
        from databus.ops.trace.log import rows_of_log  # needs the decoder, which most traces do not

        if self._finder.is_of_former_log(batch):
            notes.append("the log: another one has replaced it since")
            return None
        asked = (batch.batch, batch.plan_hash, wanted.gtid or (wanted.file, wanted.position))
        if asked not in self._logs:
            try:
                self._logs[asked] = rows_of_log(self.flow, self._connections, self._settings, batch, wanted)
            except SourceError as error:
                self._logs[asked] = error
        rows = self._logs[asked]
        if isinstance(rows, SourceError):
            notes.append(f"the log: {rows.message}")
            return None
        event_id = row_of_copy(wanted.event_id)
        return [
            row
            for row in rows
            if self.table in ("", row.table) and event_id in ("", row.event_id) and wanted.key in (None, row.key)
        ]
