"""Which topic raw records go to, and which slot writes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from databus.core.errors.sink import SinkSettingError
from databus.core.state.plan import Plan
from databus.rows.raw_records import RawRecords
from databus.sinks.kafka_mirror.spec import MirrorTopics


@dataclass(frozen=True)
class MirrorEncoder:
    """Names target topics; a partition always belongs to the same slot (see `core.protocols.RelayEncoder`).

    Attributes:
        spec: the mirror's sink.
        plan: pins slots.
    """

    spec: MirrorTopics
    plan: Plan

    def slot_of(self, partition: int) -> int:
        """Return the slot that writes a partition."""
        return partition % self.plan.sinks[self.spec.sink_name].slots

    def relay(self, records: RawRecords) -> RawRecords:
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
