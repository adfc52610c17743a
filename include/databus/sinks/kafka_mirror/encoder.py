"""Raw records → the columns that a mirror's writer takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from databus.core.errors import SinkSettingError
from databus.core.plan import Plan
from databus.rows.raw_records import RAW_COLUMNS
from databus.sinks.kafka_mirror.spec import MirrorTopics

_KEPT = ("event_id", "ts_ms", "database", "table", "file", "position", "ordinal", "part")


@dataclass(frozen=True)
class MirrorEncoder:
    """Names target topics and picks the rows of a slot; a partition always belongs to the same slot.

    Attributes:
        spec: the mirror's sink.
        plan: pins slots.
    """

    spec: MirrorTopics
    plan: Plan

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        """Return the rows of a slot: topic, partition, slot, tombstone, key, value, headers, record_ms and `_KEPT`.

        Raises:
            SinkSettingError: the rows are not raw records.
        """
        if RAW_COLUMNS[0][0] not in rows.schema.names:
            raise SinkSettingError(
                f"sink {self.spec.sink_name}: its rows are not raw records",
                hint="Use Mirror(…), or KafkaTopics(raw=True) without transforms and row checks.",
            )
        partition = np.asarray(rows["record_partition"])
        owner = (partition % self.plan.sinks[self.spec.sink_name].slots).astype(np.int32)
        mine = owner == slot
        if not mine.all():
            rows, owner = rows.filter(pa.array(mine)), owner[mine]
        names = rows["table"].dictionary_encode()
        topics = pa.array([self.spec.target(name) for name in names.dictionary.to_pylist()], pa.string())
        made = {
            "topic": topics.take(names.indices),
            "partition": rows["record_partition"],
            "slot": pa.array(owner),
            "tombstone": pa.repeat(pa.scalar(False), rows.num_rows),
            "key": rows["record_key"],
            "value": rows["record_value"],
            "headers": rows["record_headers"],
            "record_ms": rows["record_ms"],
            **{name: rows[name] for name in _KEPT},
        }
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))
