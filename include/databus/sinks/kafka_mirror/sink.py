"""The open mirror sink: makes the target's topics like the source's, and hands out writers of raw records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from databus.core.connections import Connection
from databus.core.errors.sink import SinkSettingError
from databus.core.events import Op
from databus.core.findings import Finding, Level
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_sink import DirectEncoder
from databus.core.protocols.sink import SlotWriter
from databus.core.state.known_outputs import NOTHING_KNOWN, KnownOutputs
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.kafka.client import ClientSettings
from databus.rows.raw_records import RawRecords
from databus.sinks.kafka.sink import KafkaSink
from databus.sinks.kafka.topics.cluster_topics import Topics
from databus.sinks.kafka_mirror.spec import MirrorTopics
from databus.sinks.kafka_mirror.topic_settings import own, wanted
from databus.sinks.kafka_mirror.topic_sync import fewer_partitions
from databus.sinks.kafka_mirror.writer import MirrorSlotWriter


@dataclass(frozen=True)
class MirrorEncoder:
    """Names target topics; a partition always belongs to the same slot (see `core.protocols.RawRecordEncoder`).

    Attributes:
        spec: the mirror's sink.
        plan: pins slots.
    """

    spec: MirrorTopics
    plan: Plan

    def slot_of(self, partition: int) -> int:
        """Return the slot that writes a partition."""
        return partition % self.plan.sinks[self.spec.sink_name].slots

    def encode_raw(self, records: RawRecords) -> RawRecords:
        """Return the records with the topic they go to."""
        return replace(records, topic=self.spec.target(records.schema.table))

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:  # noqa: ARG002 - the protocol's signature
        """Refuse: these are rows, and a mirror moves bytes.

        Raises:
            SinkSettingError: always.
        """
        raise SinkSettingError(
            f"sink {self.spec.sink_name}: its rows are not raw records",
            hint="Use Mirror(…), or KafkaTopics(raw=True) without transforms and row checks.",
        )


class MirrorSink(KafkaSink):
    """An open mirror sink; used by one thread of the control process."""

    def __init__(self, spec: MirrorTopics, target: Connection, source: Connection, context: FlowContext):
        super().__init__(spec, target, context)
        self._mirror = spec
        self._source = Topics(ClientSettings.of(source, spec.timeout_s))

    def accepts(self) -> frozenset[str]:
        """Return the one op of raw records."""
        return frozenset({Op.CREATE.value})

    def preflight(self) -> Sequence[Finding]:
        """Probe both clusters, rights and transactions, and that they are two; changes nothing."""
        found = list(super().preflight())
        if any(finding.level is Level.ERROR for finding in found):
            return found
        ours, theirs = self.topics.metadata().cluster_id, self._source.metadata().cluster_id
        subject = f"mirror {self._mirror.source_conn_id} → {self._mirror.conn_id}"
        if ours == theirs and not (self._mirror.prefix or self._mirror.renames):
            return [
                *found,
                Finding(
                    subject,
                    Level.ERROR,
                    f"both connections lead to the cluster {ours}, and topics keep their names: a loop",
                    "Point the connections at two clusters, or set prefix=.",
                    "mirror_loop",
                ),
            ]
        return [*found, Finding(subject, Level.OK, f"cluster {theirs} → cluster {ours}")]

    def prepare_known(
        self, plan: SourcePlan, outputs: Sequence[tuple[TableSchema, str]], known: KnownOutputs
    ) -> SinkPlan:
        """Make missing topics like their sources, add partitions where the source has more, pin slots and markers.

        Raises:
            SinkOutputChangedError: a topic that was written to was deleted on the target; nothing was made.
            SinkSettingError: names clash, a topic cannot be made, or has fewer partitions and may not grow.
        """
        counts = self._source.partitions()
        moved = {table.table for table, _ in outputs}
        # All that is mirrored must go together, not only what this batch holds.
        everything = self._mirror.targets(moved | {topic for topic in counts if self._mirror.wants(topic)})
        names = {topic: everything[topic] for topic in sorted(moved)}
        self._refuse_own_cluster(names)
        there = self._still_there(names.values(), known)
        listed = {**self.topics.partitions(), **there}
        missing = [topic for topic, name in names.items() if name not in listed and topic in counts]
        settings = self._own_settings(missing) if self._mirror.copy_settings else {}
        new = [
            NewTopic(
                names[topic],
                counts[topic],
                self.spec.replication_factor,
                config=wanted(self._mirror, settings.get(topic, {})),
            )
            for topic in missing
        ]
        partitions = self.topics.ensure(new)
        for topic, name in names.items():
            have = partitions.get(name, listed.get(name, 0))
            need = counts.get(topic, 0)
            if have < need:
                self._grow(topic, name, have, need)
            partitions[name] = max(have, need)
        pinned = super().prepare_known(plan, (), NOTHING_KNOWN)
        ids = self._ids({name: count for name, count in partitions.items() if count}, known)
        return replace(pinned, partitions=dict(sorted(partitions.items())), ids=ids)

    def encode(self, rows: Any, plan: Plan) -> Any:  # noqa: ARG002 - the protocol's signature
        """Refuse: a mirror moves bytes, and a DataFrame has none of them.

        Raises:
            SinkSettingError: always.
        """
        raise SinkSettingError(
            f"flow {plan.flow}, sink {self.spec.sink_name}: a mirror takes no transforms, row checks or other sinks",
            hint='For those use a flow of KafkaTopics and Kafka; a Mirror has lane="auto".',
        )

    def encoder(self, plan: Plan) -> DirectEncoder:
        """Return the encoder of the direct lane."""
        return MirrorEncoder(self._mirror, plan)

    def writer(self, plan: Plan) -> SlotWriter:
        """Return the plan's writer."""
        self._require_planned(plan)
        limits = self.topics.max_message_bytes(sorted(plan.sinks[self.spec.sink_name].partitions))
        return MirrorSlotWriter(
            self.spec.sink_name,
            plan,
            self._producer(limits),
            limits,
            self.spec.chunk_rows,
            self._mirror.origin,
            self._mirror.too_large,
            self.context.settings.segment_store,
        )

    def close(self) -> None:
        """Close clients; safe to call twice."""
        super().close()
        self._source.close()

    def _refuse_own_cluster(self, names: Mapping[str, str]) -> None:
        if self.topics.settings.servers != self._source.settings.servers:
            return
        same = sorted(topic for topic, name in names.items() if name == topic)
        if same:
            raise SinkSettingError(
                f"mirror {self._mirror.source_conn_id} → {self._mirror.conn_id}: {', '.join(same)} would be mirrored "
                "into itself: both connections lead to the same brokers",
                hint="Point the connections at two clusters, or set prefix=.",
                code="mirror_loop",
            )

    def _grow(self, topic: str, name: str, have: int, need: int) -> None:
        if not self._mirror.grow:
            raise fewer_partitions(self._mirror, name, have, topic, need)
        self.topics.grow(name, need)

    def _own_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings that source topics have of their own, not by the brokers' defaults."""
        if not topics:
            return {}
        found = self._source.entries(ConfigResource.Type.TOPIC, topics)
        return {topic: own(entries) for topic, entries in found.items()}
