"""Follow one change both ways through all flows: from its source to the sinks, and on through mirrors to other sites.

Flows are known to each other by what they are recorded to have moved: a mirror goes on with a record that another flow
wrote, where both name the same Kafka cluster. So all of them must share the records store (ADR 41).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from databus.core.amounts import counted
from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.core.trace import RecordPlace, Sighting, TraceExpiredError, TraceNotRecordedError, TraceQueryError
from databus.ops.trace.clusters import Sites
from databus.ops.trace.flow import FlowTrace
from databus.ops.trace.journey import Hop, Journey
from databus.ops.trace.mirror_offsets import is_mirror
from databus.ops.trace.mirrors import Origin, TracedMirrors, Way
from databus.ops.trace.query import Kind, Query
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader

_MOST_TOLD = 5
"""Flows whose records are named where none has what is asked for."""


def trace(
    query: Query,
    flows: Iterable[Flow],
    where: tuple[ConnectionSource, Settings],
    table: str = "",
    *,
    beside: Iterable[Flow] = (),
    site: str = "",
) -> list[Journey]:
    """Follow what is asked for through flows.

    Args:
        query: what.
        flows: in which flows to look; with mirrors alone, for what went through them.
        where: connections, and the installation's settings.
        table: only changes of this `database.table`, "" for any.
        beside: further flows that a journey may go through.
        site: the connection of the Kafka cluster on which a record stands, "" for any that flows lead to.

    Raises:
        TraceError: no flow knows it; the most telling reason.
    """
    if site and query.kind is not Kind.RECORD:
        raise TraceQueryError(
            f"a site says where a record stands, and {query.text} is a {query.kind}",
            hint="Leave --site out, or write TOPIC:PARTITION:OFFSET.",
        )
    chosen = {flow.name: flow for flow in flows}
    known = {**{flow.name: flow for flow in beside}, **chosen}
    with ExitStack() as opened:
        provenance = Provenance(opened.enter_context(RecordReader(where[1].records_url)))
        recorded = frozenset(provenance.flows())
        tracing = _Tracing([flow for name, flow in known.items() if name in recorded], where, provenance, table, opened)
        journeys = tracing.follow(query, frozenset(chosen), site)
    if journeys:
        return journeys
    if not tracing.problems:
        raise TraceNotRecordedError(
            f"no flow has recorded anything that could hold {query.text}", hint="Check --dags and DATABUS_RECORDS_URL."
        )
    raise _told(query.text, tracing.problems)


def _told(text: str, problems: Sequence[DatabusError]) -> DatabusError:
    """Return the most telling of some problems; where no flow has recorded it, one that speaks for all of them."""
    unknown = [problem for problem in problems if isinstance(problem, TraceNotRecordedError)]
    if len(unknown) < len(problems) or len(problems) == 1:
        return next((p for p in problems if not isinstance(p, TraceNotRecordedError)), problems[0])
    near = [problem for problem in unknown if problem.recorded]
    told = [f"{problem.flow} {problem.recorded}" for problem in near[:_MOST_TOLD]]
    told += [f"and {counted(len(near) - _MOST_TOLD, 'more flow')}"] if len(near) > _MOST_TOLD else []
    others = len(unknown) - len(near)
    told += [f"{counted(others, 'other flow' if near else 'flow')} never read or wrote there"] if others else []
    return TraceNotRecordedError(
        f"no flow has recorded {text}: {'; '.join(told)}",
        hint="It is not committed yet (`databus lag`), before a flow's start, or of another server. --flow asks one "
        "flow alone.",
    )


class _Tracing:
    """Flows that have recorded something.

    Args:
        flows: the flows.
        where: connections, and the installation's settings.
        provenance: the records.
        table: only changes of this `database.table`, "" for any.
        opened: closes what is opened.
    """

    def __init__(
        self,
        flows: Sequence[Flow],
        where: tuple[ConnectionSource, Settings],
        provenance: Provenance,
        table: str,
        opened: ExitStack,
    ) -> None:
        self.problems: list[DatabusError] = []
        self._sites = Sites(where[0])
        opened.callback(self._sites.close)
        self._writers = {
            flow.name: opened.enter_context(FlowTrace(flow, *where, provenance, table))
            for flow in flows
            if not is_mirror(flow)
        }
        self._mirrors = TracedMirrors(flows, self._sites, provenance)

    def follow(self, query: Query, chosen: frozenset[str], site: str) -> list[Journey]:
        """Return the journeys of what is asked for, through flows that were chosen; notes problems."""
        if query.kind is Kind.RECORD:
            return self._of_record(query.text, chosen, self._sites.of(site) if site else "")
        writers = [self._writers[name] for name in self._writers if name in chosen]
        found: list[Journey] = []
        for writer in writers or self._writers.values():
            try:
                found += writer.follow(query)
            except DatabusError as error:
                self.problems.append(error)
        found = self._with_hops(found)
        if writers or not found:
            return found
        if not (through := [j for j in found if any(hop.mirror in chosen for hop in j.hops)]):
            names = ", ".join(sorted(chosen))
            self.problems.append(
                TraceNotRecordedError(f"{query.text} did not go through {names}, as far as is recorded")
            )
        return through

    def _of_record(self, text: str, chosen: frozenset[str], site: str) -> list[Journey]:
        starts: dict[RecordPlace, None] = {}
        for name, writer in self._writers.items():
            if name in chosen:
                try:
                    starts |= {RecordPlace.read(self._sites.of(conn), text): None for conn in writer.wrote(text)}
                except DatabusError as error:
                    self.problems.append(error)
        starts |= dict.fromkeys(self._mirrors.known(text, chosen))
        found: dict[RecordPlace, Journey] = {}
        for start in starts:
            if site not in ("", start.site):
                continue
            try:
                origin = self._mirrors.origin(start)
                if origin.record not in found:
                    journey = self._of_origin(origin)
                    found[origin.record] = self._extended(journey, origin.hops, self._onward(journey, origin))
            except DatabusError as error:
                self.problems.append(error)
        if not (found or self.problems):
            where = f"{text} on {site}" if site else text
            names = ", ".join(sorted(chosen))
            self.problems.append(TraceNotRecordedError(f"no recorded batch of {names} has read or written {where}"))
        return list(found.values())

    def _of_origin(self, origin: Origin) -> Journey:
        """Return the journey up to where a record was written first: by a flow, or by another's producer."""
        record = origin.record
        kept = next((seen for seen in origin.seen.values() if seen is not None), None)

        def copy() -> Sighting | None:
            return kept or (None if origin.replaced else self._copy(record))

        for writer in () if origin.replaced else self._writers.values():
            try:
                return writer.record(record, lambda conn: self._sites.of(conn) == record.site, copy)
            except TraceNotRecordedError:
                continue
        original = None if origin.replaced else origin.seen[record] or self._mirrors.look(record)
        found = original or copy()
        if found is None:
            self._sites.reader(record.site).sighting(str(record))  # says why there is nothing
            raise TraceExpiredError(f"{record} on {record.site} is not kept any more, and no copy of it is")
        state = "" if original is not None else "not kept there any more"
        seen = replace(found, sink=record.site, site=record.site, place=str(record), state=state)
        told = f"no flow here wrote it to {record.site}: another producer did"
        if origin.replaced:
            told = f"{record.topic} on {record.site} was made anew since: who wrote it there is not looked for"
        return Journey("", found.change, (), (seen,), (told,))

    def _copy(self, record: RecordPlace) -> Sighting | None:
        """Return what stands where mirrors took a record."""
        for hop in self._mirrors.beyond({record: None})[record].hops:
            if hop.target is not None and not hop.state:
                return self._sites.reader(hop.target.site).sighting(str(hop.target))
        return None

    def _with_hops(self, journeys: Sequence[Journey]) -> list[Journey]:
        """Return journeys with where mirrors took their records; those of all are followed together."""
        mine = [self._records(journey) for journey in journeys]
        ways = self._mirrors.beyond({record: seen for records in mine for record, seen in records.items()})
        return [
            self._extended(journey, (), [ways[record] for record in records])
            for journey, records in zip(journeys, mine, strict=True)
        ]

    def _onward(self, journey: Journey, origin: Origin) -> list[Way]:
        starts = {**origin.seen, **self._records(journey)}
        if origin.replaced:
            del starts[origin.record]
        return list(self._mirrors.beyond(starts).values())

    def _records(self, journey: Journey) -> dict[RecordPlace, Sighting | None]:
        """Return the records that a journey has seen."""
        return {
            RecordPlace.read(self._sites.of(seen.site), seen.place): seen for seen in journey.sightings if seen.site
        }

    def _extended(self, journey: Journey, before: Sequence[Hop], ways: Sequence[Way]) -> Journey:
        hops = {(hop.mirror, hop.batch.plan_hash, hop.source, hop.target): hop for hop in before}
        for way in ways:
            for hop in way.hops:
                hops.setdefault((hop.mirror, hop.batch.plan_hash, hop.source, hop.target), hop)
        notes = dict.fromkeys((*journey.notes, *(note for way in ways for note in way.notes)))
        flow = journey.flow or next((hop.mirror for hop in hops.values()), "")
        return replace(journey, flow=flow, hops=tuple(hops.values()), notes=tuple(notes))
