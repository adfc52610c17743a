"""The open Kafka sink: pins plans, encodes, hands out writers, closes abandoned plans."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from databus.core.connections import Connection
from databus.core.errors.sink import MarkerDivergedError, SinkError, SinkSettingError, SinkUnavailableError
from databus.core.events import Op
from databus.core.findings import Finding
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_sink import DirectEncoder
from databus.core.protocols.sink import SlotWriter
from databus.core.state.amendments import SinkEffect
from databus.core.state.evidence import CommittedState, Evidence
from databus.core.state.known_outputs import NOTHING_KNOWN, ChangedOutput, KnownOutputs, changed_outputs
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.state.sink_markers import SlotMark
from databus.core.tables.schemas import TableSchema
from databus.kafka.client import ClientSettings, LastError
from databus.schema_registry.settings import registry_findings
from databus.sinks.kafka import evidence
from databus.sinks.kafka.claim_register import KafkaClaimRegister, mark_of
from databus.sinks.kafka.encoding import encode
from databus.sinks.kafka.fenced_plan import KafkaFencedPlan
from databus.sinks.kafka.marker_upkeep import abandon_slot, is_due, refresh_slot
from databus.sinks.kafka.markers import MARKER_TOPIC, Marker, MarkerKey
from databus.sinks.kafka.message_options import require_read_back
from databus.sinks.kafka.preflight import keyless, probe
from databus.sinks.kafka.registered.registration import Registration
from databus.sinks.kafka.session import ProducerSettings
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.topics.cluster_topics import DEFAULT_RETENTION_S, Topics, effect_of
from databus.sinks.kafka.topics.names import DEFAULT_MAX_MESSAGE_BYTES, replaced, topics_of
from databus.sinks.kafka.topics.standing import PinnedTopics, require_standing, standing_ids
from databus.sinks.kafka.transactions import made_topics, planned_topics, topic_settings

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.core.protocols.validated_sink import SinkState

_MARKER_PARTITIONS = 16


class KafkaSink:
    """An open Kafka sink; used by one thread of the control process."""

    def __init__(self, spec: Kafka, connection: Connection, context: FlowContext, registry: Connection | None = None):
        self.spec = spec
        self.context = context
        self.settings = ClientSettings.of(connection, spec.timeout_s)
        self.key = MarkerKey(context.settings.installation, context.flow, spec.sink_name)
        self.topics = Topics(self.settings)
        self._registration = None if registry is None else Registration(registry, spec)
        self._seen = LastError()
        self._markers: Consumer | None = None

    @property
    def marked(self) -> bool:
        """Return whether it keeps markers: profile="exactly_once"."""
        return self.spec.profile == "exactly_once"

    def accepts(self) -> frozenset[str]:
        """Return the ops this sink writes; the runtime counts the others as filtered."""
        rows = {Op.CREATE, Op.UPDATE, Op.DELETE, Op.READ}
        if self.spec.envelope == "debezium":
            rows |= {Op.TRUNCATE, Op.DDL} if self.spec.ddl else {Op.TRUNCATE}
        if self._registration is not None:
            rows -= {Op.TRUNCATE}  # it names a table and not its columns: nothing says which schema it has
        return frozenset(op.value for op in rows)

    def preflight(self) -> Sequence[Finding]:
        """Probe reachability, rights, the topic, transactions and retention; changes nothing."""
        registry = None if self._registration is None else self._registration.settings
        formats = (self.spec.format,)
        return [*probe(self.spec, self.context.flow, self.topics), *registry_findings(registry, formats)]

    def judge(self, outputs: Sequence[tuple[TableSchema, str]]) -> Sequence[Finding]:
        """Name tables without a key whose topic is compacted; see `JudgingSink`."""
        return keyless(self.spec, self.context.flow, self.topics, outputs)

    def prepare(
        self,
        plan: SourcePlan,
        outputs: Sequence[tuple[TableSchema, str]],
    ) -> SinkPlan:
        """Make missing topics, and pin slots, partition counts and the markers as they stand.

        Args:
            plan: unused, the outputs say it all.
            outputs: (table, route) of each table whose rows or statements this sink takes.

        Raises:
            SinkSettingError: a topic cannot be created.
            SinkUnavailableError: no broker answers.
            MarkerDivergedError: a slot stands in the middle of a batch whose plan is gone.
        """
        return self.prepare_known(plan, outputs, NOTHING_KNOWN)

    def prepare_known(
        self,
        plan: SourcePlan,
        outputs: Sequence[tuple[TableSchema, str]],
        known: KnownOutputs,
    ) -> SinkPlan:
        """Do what `prepare` does, and pin the topics' ids; known topics are never made again.

        A format with a registry has its schemas registered before anything is made.

        Raises:
            SinkOutputChangedError: a known topic was deleted; nothing was made.
            SinkSchemaError: a table's schema does not go with those registered before it; nothing was made.
            SinkError: see `prepare`.
        """
        names = planned_topics(
            self.spec, topics_of(self.spec.topic, outputs, self.context.flow, known), self.context.flow
        )
        schemas = {} if self._registration is None else self._registration.register(plan, outputs, self.context.flow)
        there = self._still_there(names, known)
        made = [self.new_topic(*each) for each in made_topics(self.spec, names.keys() - there, self.context.flow)]
        partitions = self.topics.ensure([*made, *([self._marker_topic()] if self.marked else ())])
        if self.marked and partitions.pop(MARKER_TOPIC) < self.spec.slots:
            self.topics.grow(MARKER_TOPIC, self.spec.slots)
        return replace(self._pinned({**there, **partitions}, known), names=replaced(names), schemas=schemas)

    def make_unplanned(self, plan: Plan, outputs: Sequence[tuple[TableSchema, str]], known: KnownOutputs) -> None:
        """Make missing topics of statements, whose records have no key and need no partition count, beside a plan.

        Raises:
            SinkOutputChangedError: a known topic was deleted; nothing was made.
            SinkSettingError: a topic cannot be created.
        """
        pinned = plan.sinks[self.spec.sink_name].partitions
        names = [name for name in topics_of(self.spec.topic, outputs, plan.flow, known) if name not in pinned]
        there = self._still_there(names, known)
        self.topics.ensure([self.new_topic(name) for name in names if name not in there])

    def changed(self, known: Mapping[str, str]) -> Sequence[ChangedOutput]:
        """Return which topics (topic → id) are gone or are others now; changes nothing."""
        return changed_outputs(known, self.topics.ids(known, anew=True))

    def written_of(self, plan: Plan) -> dict[str, int] | None:
        """Return the records of a plan in flight that its slots' markers name; without markers all is sent again."""
        if not self.marked or MARKER_TOPIC not in self.topics.partitions():
            return {}
        return evidence.written_of(plan, self.markers(plan.sinks[self.spec.sink_name].slots))

    def make_again(self, outputs: Mapping[str, int]) -> Mapping[str, str]:
        """Make topics (topic → partitions) that a plan in flight needs; return topic → id."""
        self.topics.ensure([self.new_topic(topic, count) for topic, count in outputs.items()])
        return standing_ids(self.topics, outputs)

    def wrote_any_of(self, plan: Plan) -> bool:
        """Return whether any slot holds this plan, in whole or in chunks; False where nothing was ever written."""
        if not self.marked or MARKER_TOPIC not in self.topics.partitions():
            return False
        markers = self.markers(plan.sinks[self.spec.sink_name].slots)
        return any(m is not None and (m.batch, m.hash) == (plan.batch, plan.hash) and m.chunk >= 0 for m in markers)

    def never_held(self, plan: Plan) -> bool:
        """Return whether no partition of the plan's topics ever held a record; also true of topics that are gone."""
        topics, standing = plan.sinks[self.spec.sink_name].partitions, self.topics.partitions()
        outputs = [f"{topic}[{number}]" for topic in topics for number in range(standing.get(topic, 0))]
        with closing(self.key.consumer(self.settings, self._seen)) as consumer:
            ends = evidence.ends_of(consumer, self.settings, standing, outputs, self._seen)
        return not any(ends.values())

    def encode(self, rows: Any, plan: Plan) -> Any:
        """Return the DataFrame of `encoding.COLUMNS`.

        Raises:
            SinkSettingError: the messages' form is one that Spark's lane cannot write.
        """
        if option := self.spec.needs_direct_lane():
            raise SinkSettingError(
                f"sink {self.spec.sink_name}: {option} is written by the direct lane alone", code="lane_required"
            )
        return encode(rows, self.spec, plan)

    @property
    def transactions(self) -> bool:
        """Return whether the boundaries of transactions are written."""
        return bool(self.spec.transaction_topic)

    def encoder(self, plan: Plan) -> DirectEncoder:
        """Return the encoder of the direct lane; it gives the same columns."""
        if self._registration is not None:
            from databus.sinks.kafka.registered.encoder import encoder_of

            return encoder_of(self.spec, plan)
        if self.spec.envelope == "outbox":
            from databus.sinks.kafka.outbox_events import OutboxEncoder

            return OutboxEncoder(self.spec, plan)
        from databus.sinks.kafka.direct import KafkaEncoder  # looking at records needs no kernels

        return KafkaEncoder(self.spec, plan, self.spec.message_format())

    def writer(self, plan: Plan) -> SlotWriter:
        """Return the plan's writer; it carries the topics' size limits and the connection.

        Raises:
            SinkOutputChangedError: a topic of the plan was deleted since it was planned.
        """
        self._require_planned(plan)
        limits = self.topics.max_message_bytes(sorted(plan.sinks[self.spec.sink_name].partitions))
        ours = (self.spec.sink_name, plan, self._producer(limits), limits)
        told: Any = {"fails": self._fails(plan), "form": self.spec.content_format}
        if not self.marked:
            from databus.sinks.kafka.plain_writer import PlainSlotWriter

            return PlainSlotWriter(*ours, self.spec.profile, **told)
        from databus.sinks.kafka.writer import KafkaSlotWriter

        return KafkaSlotWriter(*ours, self.spec.chunk_rows, **told)

    def markers(self, slots: int | None = None) -> list[Marker | None]:
        """Return the committed marker of each slot, None where there is none."""
        if self._markers is None:
            self._markers = self.key.consumer(self.settings, self._seen)
        return self.key.read(self._markers, self.settings, range(slots or self.spec.slots), self._seen)

    def evidence(self, ledger: CommittedState) -> Evidence:
        """Compare markers and the topics' ends with what the ledger says."""
        name, partitions = self.spec.sink_name, self.topics.partitions()
        slots = len(ledger.checkpoint.slots.get(name, ()))
        markers = self.markers(slots) if slots and MARKER_TOPIC in partitions else []
        outputs = evidence.outputs_of(ledger)
        with closing(self.key.consumer(self.settings, self._seen)) as consumer:
            ends = evidence.ends_of(consumer, self.settings, partitions, outputs, self._seen)
        problems = [
            *evidence.marker_problems(ledger, name, markers),
            *evidence.output_problems(ledger, ends),
        ]
        looked_at = f"markers of {slots} slots; ends of {len(outputs)} partitions; {len(ledger.receipts)} receipts"
        return Evidence(f"sink {name}", (looked_at, *evidence.accepted_notes(ledger)), tuple(problems))

    def marks(self, slots: int, *, settled: bool = True) -> Sequence[SlotMark | None]:
        """Return what each of the first `slots` slots holds, None where there is no marker."""
        if not self.marked or MARKER_TOPIC not in self.topics.partitions():
            return (None,) * slots
        if settled:
            found = self.markers(slots)
        else:
            with closing(self.key.consumer(self.settings, self._seen, settled=False)) as consumer:
                found = self.key.read(consumer, self.settings, range(slots), self._seen)
        return tuple(mark_of(marker) if marker is not None and marker.batch else None for marker in found)

    def register(self) -> KafkaClaimRegister:
        """Return the flow's register; makes the marker topic when it is missing."""
        self.topics.ensure([self._marker_topic()])
        return KafkaClaimRegister(self.key, self._producer({}))

    def abandon(self, plan: Plan) -> dict[int, str]:
        """Close a plan that will not be finished, before a skip or rewind; idempotent.

        Any writer of the plan that still runs is fenced, and one that comes later finds the marker and stops.

        Returns:
            Slot → "abandoned", or "written" where the slot had been written in full before.

        Raises:
            MarkerDivergedError: a slot's marker has nothing to do with the plan.
        """
        if not self.marked:
            return {}
        slots = plan.sinks[self.spec.sink_name].slots
        return {slot: abandon_slot(self.key, slot, self._producer({}), plan) for slot in range(slots)}

    def fence(self, plan: Plan) -> KafkaFencedPlan | None:
        """Fence the writers of a plan in every slot; None without markers (see `Sink.fence`)."""
        if not self.marked or MARKER_TOPIC not in self.topics.partitions():
            return None
        return KafkaFencedPlan(self.key, self._producer({}), plan)

    def effect_of(self, outputs: Sequence[str], *, back: bool) -> SinkEffect:
        """Say what a move of the checkpoint does to the topics."""
        return effect_of(self.spec.sink_name, self.topics, outputs, back=back)

    def refresh(self, after_s: float = 0.0) -> int:
        """Commit each slot's marker again, for an idle flow whose group would expire; only under the flow's lease.

        Args:
            after_s: a marker that was refreshed less than so many seconds ago stays, whoever did that.

        Returns:
            Number of markers refreshed.
        """
        if not self.marked:
            return 0
        now = time.time()
        due = [
            slot for slot, marker in enumerate(self.markers()) if marker is not None and is_due(marker, now, after_s)
        ]
        return sum(refresh_slot(self.key, slot, self._producer({}), now) for slot in due)

    def marker_retention_s(self) -> float:
        """Return for how long the brokers keep a marker that is not written again (offsets.retention.minutes)."""
        try:
            return self.topics.offsets_retention_s()
        except SinkUnavailableError:
            raise
        except SinkError:  # the brokers do not report it
            return DEFAULT_RETENTION_S

    def new_topic(self, name: str, partitions: int = 0) -> NewTopic:
        """Describe a topic as this sink would create it, or with another number of partitions."""
        count, config = partitions or self.spec.partitions, topic_settings(self.spec, name, self.context.flow)
        return NewTopic(name, count, self.spec.replication_factor, config=config)

    def expected(self, encoded: pa.RecordBatch) -> pa.RecordBatch:
        """Return the state that encoded rows leave in their topics; see `ValidatedSink`.

        Raises:
            ValidationRefusedError: the form of the messages is not read back.
        """
        require_read_back(self.spec)
        from databus.sinks.kafka.held_rows import expected_of

        return expected_of(encoded, self.spec.envelope)

    def held(self, outputs: Sequence[str]) -> SinkState:
        """Open the state of topics, which must keep the last record of each key; see `ValidatedSink`.

        Raises:
            ValidationRefusedError: a topic forgets rows, or the form of the messages is not read back.
        """
        require_read_back(self.spec)
        from databus.sinks.kafka.held_rows import require_state
        from databus.sinks.kafka.held_topics import HeldTopics

        standing = self.topics.partitions()
        there = {name: standing[name] for name in outputs if name in standing}
        require_state(self.topics.configs(ConfigResource.Type.TOPIC, sorted(there)) if there else {})
        return HeldTopics(self.settings, f"databus-validate-{self.context.flow}", self.spec.envelope, there)

    def close(self) -> None:
        """Close the clients; safe to call twice."""
        self.topics.close()
        if self._markers is not None:
            self._markers.close()
            self._markers = None

    def _fails(self, plan: Plan) -> bool:
        """Return whether a row that is too large stops a plan; one that is replayed is held back again."""
        return self.spec.on_reject == "fail" and plan.flow == self.context.flow

    def _marker_topic(self) -> NewTopic:
        return NewTopic(MARKER_TOPIC, max(_MARKER_PARTITIONS, self.spec.slots), self.spec.replication_factor)

    def _still_there(self, names: Iterable[str], known: KnownOutputs) -> dict[str, int]:
        """Return topic → partitions of the known ones among those named.

        Raises:
            SinkOutputChangedError: one was deleted.
        """
        mine = replace(known, ids={name: known.ids[name] for name in names if name in known.ids})
        counts = self.topics.counted(sorted(mine.ids))
        missing = counts.keys() != mine.ids.keys()
        require_standing(self.topics, mine, self.context.flow, self.spec.sink_name, anew=missing)
        return self.topics.awaited(sorted(mine.ids)) if missing else counts

    def _pinned(self, partitions: Mapping[str, int], known: KnownOutputs) -> SinkPlan:
        """Return the plan of topics that are there; ids that are known stay: a writer finds out what changes now."""
        prev = tuple(self._standing()) if self.marked else (0,) * self.spec.slots
        return SinkPlan(self.spec.slots, prev, dict(sorted(partitions.items())), self._ids(partitions, known))

    def _ids(self, partitions: Mapping[str, int], known: KnownOutputs) -> dict[str, str]:
        found = standing_ids(self.topics, [topic for topic in partitions if not known.ids.get(topic)])
        mine = {topic: known.ids[topic] for topic in partitions if topic in known.ids}
        return {**mine, **found}

    def _require_planned(self, plan: Plan) -> None:
        """Refuse a plan that was taken up again, so not prepared here, if a topic of it was deleted since."""
        standing = PinnedTopics.of(plan, self.spec.sink_name, self.settings)
        require_standing(self.topics, standing.known, plan.flow, self.spec.sink_name)

    def _standing(self) -> list[int]:
        standing = []
        for slot, marker in enumerate(self.markers()):
            if marker is not None and not marker.last and marker.state != "abandoned":
                raise MarkerDivergedError(
                    f"flow {self.context.flow}, sink {self.spec.sink_name}, slot {slot}: "
                    f"the marker stands at {marker}, and its plan is gone"
                )
            standing.append(marker.batch if marker else 0)
        return standing

    def _producer(self, limits: Mapping[str, int]) -> ProducerSettings:
        known = [DEFAULT_MAX_MESSAGE_BYTES, *limits.values()]
        return ProducerSettings(self.settings, self.spec.compression, max(known), min(known), dict(self.spec.producer))
