"""Rows → the columns that a slot's writer takes, in the reader's task: what `encoding` says, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import Op
from databus.core.state.plan import Plan
from databus.core.tables.schemas import TableSchema
from databus.core.transactions import TransactionBoundary
from databus.formats.row_runs import MessageFacts, MessageFormat
from databus.rows.json_images import ValueForm
from databus.sinks import envelope_text
from databus.sinks.envelope import code_version, connector
from databus.sinks.kafka.encoding import CANONICAL_KEY, COLUMNS
from databus.sinks.kafka.headers import header_arrays
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.topics.names import topic_of
from databus.sinks.kafka.transactions import BOUNDARY_SLOT, encoded_boundaries

_NAMES = ("database", "table", "route")


@dataclass(frozen=True)
class KafkaEncoder:
    """Encodes the rows of one plan.

    Attributes:
        spec: the sink as the flow wrote it down.
        plan: pins slots and partition counts.
        format: format of the messages; None for the two that Spark's lane writes as well.
    """

    spec: Kafka
    plan: Plan
    format: MessageFormat | None = None

    @property
    def values(self) -> ValueForm | None:
        """Form of values in which it takes rows; None for the usual one."""
        return None if self.format is None else self.format.values

    @property
    def transactions(self) -> bool:
        """True where boundaries of transactions are written."""
        return bool(self.spec.transaction_topic)

    def encode_boundaries(self, boundaries: Sequence[TransactionBoundary], slot: int) -> pa.RecordBatch | None:
        """Return boundaries as rows of the slot that writes them, None in the others."""
        return encoded_boundaries(boundaries, self.spec, self.plan) if slot == BOUNDARY_SLOT else None

    def of_tables(self, tables: Sequence[TableSchema]) -> KafkaEncoder:
        """Return the encoder with what its format says of a plan's tables, as their images are written."""
        return self if self.format is None else replace(self, format=self.format.of_tables(tables, facts_of(self.plan)))

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        """Return the rows of a slot as `encoding.COLUMNS`.

        Raises:
            SinkSettingError: a topic's name is not one that Kafka allows.
        """
        topics, of_row = self._topics(rows)
        partition, known = self._partitions(rows, topics, of_row)
        slots = self.plan.sinks[self.spec.sink_name].slots
        owner = np.where(known, partition % slots, 0).astype(np.int32)
        mine = owner == slot
        if not mine.all():
            chosen = pa.array(np.flatnonzero(mine))
            rows = rows.take(chosen)
            of_row, partition, known, owner = of_row[mine], partition[mine], known[mine], owner[mine]
        deleted = pc.and_(pc.equal(rows["op"], Op.DELETE.value), pc.is_valid(rows["key"]))
        made = {
            "topic": pa.array(topics, pa.string()).take(pa.array(of_row)),
            "partition": pa.array(partition, pa.int32(), mask=~known),
            "slot": pa.array(owner),
            "value": self._values(rows),
            "tombstone": deleted if self.spec.tombstones else pa.repeat(pa.scalar(False), rows.num_rows),
        }
        made |= self._keys(rows)
        names = [*COLUMNS, *(name for name in made if name not in COLUMNS)]
        columns = {name: made[name] if name in made else rows[name] for name in names}
        columns |= self._headers(rows)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _keys(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the records' keys as the column `key`, and more columns that belong to them."""
        return {} if self.format is None else {"key": self.format.keys_of(rows), CANONICAL_KEY: rows["key"]}

    def _headers(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns of the records' headers, none for the two by default."""
        return header_arrays(rows, self.spec, self.plan)

    def _hashes(self, rows: pa.RecordBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32]]:
        """Return which rows have a key that decides the partition, and its hash."""
        return np.asarray(pc.is_valid(rows["key"])), np.asarray(rows["key_hash"])

    def _values(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        if self.format is not None:
            return self.format.values_of(rows, facts_of(self.plan))
        debezium = self.spec.envelope == "debezium"
        return (
            envelope_text.debezium(rows, self.plan, ordered=self.transactions) if debezium else envelope_text.row(rows)
        )

    def _topics(self, rows: pa.RecordBatch) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Return the distinct topics, and for each row which of them is its own."""
        encoded = [rows[name].dictionary_encode() for name in _NAMES]
        codes = np.zeros(rows.num_rows, np.int64)
        for column in encoded:
            codes = codes * len(column.dictionary) + np.asarray(column.indices)
        _, first, of_row = np.unique(codes, return_index=True, return_inverse=True)
        topics = []
        for number in first.tolist():
            database, table, route = (rows[name][number].as_py() for name in _NAMES)
            topics.append(topic_of(self.spec.topic, TableSchema(-1, database, table, ()), route, self.plan.flow))
        return topics, of_row

    def _partitions(
        self, rows: pa.RecordBatch, topics: list[str], of_row: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Return each row's partition and whether it has one: a keyed row of a topic outside the plan has none."""
        pinned = self.plan.sinks[self.spec.sink_name].partitions
        counts = np.array([pinned.get(topic, 0) for topic in topics], np.int32)[of_row]
        keyed, hashes = self._hashes(rows)
        hashed = hashes % np.maximum(counts, 1)
        return np.where(keyed, hashed, 0).astype(np.int32), ~keyed | (counts > 0)


def facts_of(plan: Plan) -> MessageFacts:
    """Return what all messages of a plan share."""
    return MessageFacts(code_version(), connector(plan), plan.live_flow, int(plan.clock.timestamp() * 1000), plan.batch)
