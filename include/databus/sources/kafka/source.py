"""The open Kafka source: plans stretches of partitions between the checkpoint and the logs' ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from math import ceil

from databus.core.amounts import counted
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors.root import DatabusError
from databus.core.errors.source import SourceSettingError
from databus.core.findings import Finding, Level
from databus.core.flow_specs import FlowContext
from databus.core.positions.lag import Lag, PartitionLag
from databus.core.positions.offsets import KafkaOffsets, Offset, OffsetRange
from databus.core.state.backfill import LogMoment
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import TablesNow
from databus.kafka.client import ClientSettings
from databus.kafka.cluster import KafkaCluster
from databus.schema_registry.settings import RegistrySettings, registry_findings
from databus.sources.kafka.gaps import KafkaGaps
from databus.sources.kafka.partitions import KafkaLogs
from databus.sources.kafka.positions import LogState, advanced, shares
from databus.sources.kafka.ranges import (
    at_or_end,
    backlog_of,
    given_start,
    kafka_offsets,
    offsets_at,
    pieces_of,
    places_of,
    source_plan,
    stretches_of,
)
from databus.sources.kafka.raw_split import RawKafkaSplit
from databus.sources.kafka.record_sampling import DEFAULT_BYTES, Sample, Sampler
from databus.sources.kafka.spec import GROUP_PREFIX, OFFSETS_PREFIX, KafkaTopics, utc
from databus.sources.kafka.split import KafkaSplit
from databus.sources.kafka.stable_offsets import StableOffsets

log = logging.getLogger(__name__)

_IDLE_S = 0.1
"""Pause of an idle plan between two looks at the ends."""

_LOOKS_SHARE = 0.25
"""Share of its time that an idle plan looks at most: a look at thousands of partitions takes CPU."""


class KafkaTopicsSource:
    """An open Kafka source; used by one thread of the control process."""

    def __init__(
        self, spec: KafkaTopics, connection: Connection, context: FlowContext, registry: Connection | None = None
    ):
        self._spec, self._flow = spec, context.flow
        self._registry = None if registry is None else RegistrySettings.of(registry, spec.timeout_s)
        try:
            self._client = ClientSettings.of(connection, spec.timeout_s)
        except DatabusError as error:
            raise SourceSettingError(error.message, hint=error.hint) from error
        self._cluster = KafkaCluster(self._client, spec.isolation)
        self._sampler = Sampler(self._client, spec.isolation, spec.consumer)
        self._stable = StableOffsets(self._cluster, self._flow) if spec.isolation == "read_committed" else None
        self._gaps = KafkaGaps(spec, self._cluster, self._flow)
        self._logs = KafkaLogs(spec, self._cluster)
        self._turn = 0
        self._topics_gone = False

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Probe brokers, topics, rights to read, the start offset and the schema registry; changes nothing."""
        return [*self._cluster_findings(start), *registry_findings(self._registry, self._spec.registry_formats())]

    def _cluster_findings(self, start: Offset | None) -> Sequence[Finding]:
        name = f"kafka: {self._spec.conn_id}"
        try:
            found = self._logs.topics()
            places = places_of(found)
            if places:
                self._cluster.ends(places[:1])
            findings = [Finding(name, Level.OK, f"{counted(len(found), 'topic')}, {counted(len(places), 'partition')}")]
            if start is not None:
                self._gaps.refuse(kafka_offsets(start), self._logs.state(found))
        except DatabusError as error:
            return [Finding.of(name, error)]
        return findings

    def tables_now(self) -> TablesNow:
        """Ask for the topics of the flow; their columns are those that the source gives them."""
        return self._logs.tables_now()

    def tables_gone(self, standing: Offset | None = None) -> Sequence[str]:
        """Ask for the topics of the flow; return names and patterns without any, and topics read that are gone."""
        self._topics_gone = False
        return self._logs.gone(None if standing is None else kafka_offsets(standing))

    def tables_may_be_gone(self) -> bool:
        """Return whether a plan found topics gone since."""
        return self._topics_gone

    def unread(self, standing: Offset) -> Mapping[str, int]:
        """Return topic → offsets that were left when the logs were seen last, also of topics that are gone since."""
        return self._logs.unread(kafka_offsets(standing))

    def start_offset(self) -> Offset:
        """Return the offset that `start` names, or where the range of this view begins."""
        if self._logs.between is not None:
            return self._logs.between.start
        start = self._spec.start
        if start == "earliest":
            return self.earliest_offset()
        if start == "latest":
            return self.latest_offset()
        if start.startswith((GROUP_PREFIX, OFFSETS_PREFIX)):
            return given_start(self._spec, self._cluster, self._logs.state(), start)
        return self.offset_at(utc(datetime.fromisoformat(start)))

    def earliest_offset(self) -> Offset:
        """Return the first offset of each partition."""
        state = self._logs.state()
        return offsets_at(state, state.earliest)

    def latest_offset(self) -> Offset:
        """Return the last stable offset of each partition."""
        state = self._logs.state()
        return offsets_at(state, state.ends)

    def offset_at(self, when: datetime) -> Offset:
        """Return per partition the first offset with a timestamp not before `when`, its end where there is none."""
        state = self._logs.state()
        found = self._cluster.at_time(state.ends, ceil(when.timestamp() * 1000))
        return offsets_at(state, at_or_end(found, state))

    def boundary_at(self, when: datetime) -> LogMoment:
        """Return per partition the first offset with a timestamp not before `when`, its end where there is none.

        A record that comes later and says an earlier time lies behind the place, as with any reader by time.

        Raises:
            OffsetPurgedError: older records of a partition were deleted and none is left from before `when`; not where
                `on_gap` says to go on with what is left.
        """
        state = self._logs.state()
        found = self._cluster.at_time(state.ends, ceil(when.timestamp() * 1000))
        wanted = at_or_end(found, state)
        if self._spec.on_gap == "fail":
            self._gaps.refuse_untold(wanted, state, when)
        # Behind the last stable offset lie records that are not decided on, of an earlier time maybe.
        undecided = any((at := found.get(place)) is None or at > end for place, end in state.ends.items())
        return LogMoment(offsets_at(state, wanted), open=undecided)

    def plan_exactly(self, wanted: OffsetRange) -> SourcePlan:
        """Describe a range; see `reopen`."""
        return self.reopen(wanted)

    def between(self, wanted: OffsetRange) -> KafkaTopicsSource:
        """Return a view, sharing the clients, that begins and ends at two places of each partition.

        Raises:
            OffsetPurgedError: a log was replaced between the two.
        """
        view = copy(self)
        view._logs = self._logs.cut(wanted)  # noqa: SLF001 - it is one of this class
        return view

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Return the next range, or a gap to pass over; waits up to `limit.max_seconds` for a record.

        Raises:
            OffsetPurgedError: records are gone and the policy is to ask; nothing may be moved before a decision.
        """
        start, deadline = kafka_offsets(after), time.monotonic() + limit.max_seconds
        while True:
            began = time.monotonic()
            state = self._logs.state()
            self._topics_gone |= self._logs.notices(start, state)
            if missing := self._gaps.refuse(start, state):
                return self._gaps.passing(start, state, missing)
            found = self._next(start, state, limit)
            left = deadline - time.monotonic()
            if found is not None or left <= 0 or self._logs.between is not None:
                return found
            if self._stable is not None:
                self._stable.watch(state.ends)
            looked = time.monotonic() - began
            time.sleep(min(left, max(_IDLE_S, looked * (1 / _LOOKS_SHARE - 1))))

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range again.

        Raises:
            OffsetPurgedError: records of it are gone meanwhile.
            SourceUnavailableError: a partition is not there at the moment.
        """
        return self._again(planned, passes=False)

    def resume(self, planned: OffsetRange) -> SourcePlan:
        """Describe a planned range again; unless `on_gap` is "fail", what is left of it. Raises as `reopen` does.

        Nothing is left of a log that was deleted, made anew or cut back; a view of a range refuses it.
        """
        return self._again(planned, passes=self._spec.on_gap != "fail")

    def splits(self, plan: SourcePlan, count: int) -> Sequence[KafkaSplit]:
        """Cut the stretches into about equal pieces in the order of the partitions' names; raw records in none."""
        start, end = kafka_offsets(plan.start), kafka_offsets(plan.range.end)
        # A task of raw records picks its partitions itself, with one consumer for all.
        pieces = [] if end.passed else pieces_of(stretches_of(start, end), 1 if self._spec.raw else count)
        schemas: dict[str, tuple[TableSchema, ...]] = {}
        for schema in plan.tables:
            schemas[schema.table] = (*schemas.get(schema.table, ()), schema)
        split = RawKafkaSplit if self._spec.raw else KafkaSplit
        return [
            split(
                self._spec,
                piece,
                {s.topic: schemas[s.topic] for s in piece},
                self._cluster.id,
                self._client,
                self._flow,
                self._registry,
            )
            for piece in pieces
        ]

    def discard(self, plan: SourcePlan) -> None:
        """Discard nothing: no range is staged."""

    def release(self, plan: SourcePlan) -> None:
        """Release nothing: no range is staged."""

    def lag(self, committed: Offset) -> Lag:
        """Measure the distance to the ends, in bytes by the size of the records that are next."""
        start = kafka_offsets(committed)
        state = self._logs.state()
        now = datetime.now(UTC)
        self._gaps.refuse(start, state)
        head = str(offsets_at(state, state.ends))
        stretches = stretches_of(start, advanced(start, state, backlog_of(start, state)))
        behind = sum(s.end - s.begin for s in stretches)
        if not behind:
            return Lag(0, 0.0, head, now)
        sample = self._sampler.look(stretches, tail=False)
        seconds = None if sample.first_at is None else max(0.0, (now - sample.first_at).total_seconds())
        return Lag(behind * sample.record_bytes, seconds, head, now)

    def partition_lags(self, committed: Offset) -> tuple[PartitionLag, ...]:
        """Return the distance to the end of each partition, by topic and number."""
        start = kafka_offsets(committed)
        state = self._logs.state()
        self._gaps.refuse(start, state)
        backlog = backlog_of(start, state)
        first = self._sampler.first_times(stretches_of(start, advanced(start, state, backlog)))
        now = datetime.now(UTC)
        ages = {place: max(0.0, (now - when).total_seconds()) for place, when in first.items()}
        held = self._stable.held_back(state.ends) if self._stable is not None else {}
        return tuple(
            PartitionLag(*place, left, ages.get(place) if left else 0.0, held.get(place, 0))
            for place, left in sorted(backlog.items())
        )

    def headroom(self, committed: Offset) -> None:
        """Return None: what retention takes is found by the next plan and named."""

    def close(self) -> None:
        """Close the clients; safe to call twice."""
        self._sampler.close()
        self._cluster.close()

    def _next(self, start: KafkaOffsets, state: LogState, limit: Batching) -> SourcePlan | None:
        backlog = backlog_of(start, state)
        waiting = sum(backlog.values())
        if not waiting:
            return None
        self._turn += 1
        most = limit.max_rows
        sample = Sample(DEFAULT_BYTES, None, None)
        taken = shares(backlog, most, self._turn)
        planned = OffsetRange(start, advanced(start, state, taken))
        sample = self._sampler.look(stretches_of(start, kafka_offsets(planned.end)))
        if (fewer := max(1, limit.max_bytes // sample.record_bytes)) < sum(taken.values()):
            taken = shares(backlog, fewer, self._turn)
            planned = OffsetRange(start, advanced(start, state, taken))
            sample = self._sampler.look(stretches_of(start, kafka_offsets(planned.end)))
        return source_plan(self._spec, planned, sample, more=sum(taken.values()) < waiting)

    def _again(self, planned: OffsetRange, *, passes: bool) -> SourcePlan:
        start, end = kafka_offsets(planned.start), kafka_offsets(planned.end)
        if end.passed:
            return SourcePlan(
                planned, (), 0, 0, passed=f"on_gap={self._spec.on_gap}: what was gone when {planned} was planned"
            )
        stretches = stretches_of(start, end)
        state = self._logs.whole_state(sorted({s.topic for s in stretches}))
        lost = self._gaps.lost_of(planned, stretches, state, passes=passes, view=self._logs.between is not None)
        left = stretches if lost is None else stretches_of(kafka_offsets(lost.range.end), end)
        behind = any(state.ends[s.topic, s.partition] > s.end for s in left)
        return source_plan(self._spec, planned, self._sampler.look(left), more=behind, lost=lost)
